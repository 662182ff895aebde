/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Finds the packet in a tunnel: VXLAN (RFC 7348), Geneve (RFC 8926), and IP in IP (RFC 2003, 2473, 4213).
 * Only the inner destination is read, so that inner lengths may lie. What is cut off is in no tunnel.
 */
#pragma once

#include "classes.h"
#include "packet.h"

#define UDP_HEADER 8
#define VXLAN_HEADER 8
#define GENEVE_HEADER 8
#define GENEVE_VERSION 0xc0
#define GENEVE_OPTIONS 0x3f /* in words of four bytes */

/* Where an inner IP header is, and its EtherType; 0: nowhere. */
struct inner {
	__u32 network;
	__be16 protocol;
};

/* The kind of the node's tunnel that has this port; 0: none. */
static __always_inline __u32 kind_of_tunnel(const struct class_settings *settings, __be16 port)
{
	__u32 kind = 0;
	for (int i = 0; i < MOST_TUNNELS; i++) {
		if (port && settings->tunnels[i].port == port)
			kind = settings->tunnels[i].kind;
	}
	return kind;
}

/* The packet behind a Geneve header, and where that header ends. */
static __always_inline __be16 read_geneve(struct __sk_buff *skb, __u32 *at)
{
	struct {
		__u8 version_and_options, flags;
		__be16 protocol;
	} header;
	if (bpf_skb_load_bytes(skb, *at, &header, sizeof(header)) ||
	    header.version_and_options & GENEVE_VERSION)
		return 0;
	*at += GENEVE_HEADER + (header.version_and_options & GENEVE_OPTIONS) * 4;
	return header.protocol;
}

/* The inner packet of a datagram. */
static __always_inline struct inner inner_of_udp(struct __sk_buff *skb, __u32 kind, __u32 at)
{
	struct inner none = {}, found = {.network = at + VXLAN_HEADER, .protocol = bpf_htons(ETH_P_TEB)};
	if (kind == TUNNEL_GENEVE) {
		found.network = at;
		found.protocol = read_geneve(skb, &found.network);
	} else if (kind != TUNNEL_VXLAN) {
		return none;
	}
	if (found.protocol != bpf_htons(ETH_P_TEB))
		return found;
	if (bpf_skb_load_bytes(skb, found.network + offsetof(struct ethhdr, h_proto),
			       &found.protocol, sizeof(found.protocol)))
		return none;
	found.network += sizeof(struct ethhdr);
	return found;
}

static __always_inline struct inner inner_of(struct __sk_buff *skb, const struct packet *outer,
					     const struct class_settings *settings)
{
	struct inner found = {};
	/* A later fragment has no headers. */
	if (!outer->transport)
		return found;
	if (outer->protocol == IPPROTO_UDP)
		return inner_of_udp(skb, kind_of_tunnel(settings, outer->port),
				    outer->transport + UDP_HEADER);
	if (!settings->has_ip_in_ip)
		return found;
	found.network = outer->transport;
	if (outer->protocol == IPPROTO_IPIP)
		found.protocol = bpf_htons(ETH_P_IP);
	else if (outer->protocol == IPPROTO_IPV6)
		found.protocol = bpf_htons(ETH_P_IPV6);
	return found;
}

/* Reads the destination of an inner packet, IPv4 as IPv4-mapped; false when it is not IP. */
static __always_inline bool read_destination(struct __sk_buff *skb, const struct inner *inner,
					     __u8 *address)
{
	__u8 version = 0;
	if (bpf_skb_load_bytes(skb, inner->network, &version, sizeof(version)))
		return false;
	version >>= 4;
	if (inner->protocol == bpf_htons(ETH_P_IP) && version == 4) {
		address[10] = address[11] = 0xff;
		return !bpf_skb_load_bytes(skb, inner->network + offsetof(struct iphdr, daddr),
					   address + 12, 4);
	}
	return inner->protocol == bpf_htons(ETH_P_IPV6) && version == 6 &&
	       !bpf_skb_load_bytes(skb, inner->network + offsetof(struct ipv6hdr, daddr), address,
				   16);
}

/* The slot of a packet of no pod that has this port of the node's. */
static __always_inline __u32 slot_of_node(const struct class_settings *settings,
					  const struct packet *packet, __be16 port)
{
	bool is_opaque = packet->protocol == IPPROTO_UDP &&
			 kind_of_tunnel(settings, port) == TUNNEL_WIREGUARD;
	return is_opaque ? settings->opaque_slot : SLOT_SYSTEM;
}
