/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What of a packet rules are about: where it goes, by which protocol and to which port.
 */
#pragma once

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <stddef.h>
#include <stdbool.h>

/* Tags that are in the packet itself; a further one is in skb->vlan_tci. */
#define MOST_TAGS 2
/* Headers between IPv6's own and the transport's. */
#define MOST_EXTENSIONS 8

#define PROTOCOL_SCTP 132
/* Where a TCP header says how long it is, in its byte's upper half, in words of four bytes. */
#define TCP_DATA_OFFSET 12
#define EXTENSION_HOP_BY_HOP 0
#define EXTENSION_ROUTING 43
#define EXTENSION_FRAGMENT 44
#define EXTENSION_AUTHENTICATION 51
#define EXTENSION_DESTINATION 60
#define EXTENSION_MOBILITY 135

#define IPV4_FRAGMENT_OFFSET 0x1fff
#define IPV6_FRAGMENT_OFFSET 0xfff8

struct packet {
	__u8 destination[16]; /* IPv4 as IPv4-mapped */
	__u32 network;	      /* where the IP header is */
	__u32 transport;      /* where the ports are, if they are */
	__u16 port;	      /* destination, in network byte order; 0 where there is none to know */
	__u8 protocol;
	bool is_ipv6;
};

struct vlan_tag {
	__be16 control;
	__be16 protocol;
};

static __always_inline bool has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == PROTOCOL_SCTP;
}

/* All three begin with source port and destination port. */
static __always_inline void read_port(struct __sk_buff *skb, __u32 transport, struct packet *packet)
{
	packet->transport = transport;
	if (has_ports(packet->protocol))
		bpf_skb_load_bytes(skb, transport + 2, &packet->port, sizeof(packet->port));
}

static __always_inline bool read_ipv4(struct __sk_buff *skb, struct packet *packet)
{
	struct iphdr ip;
	if (bpf_skb_load_bytes(skb, packet->network, &ip, sizeof(ip)))
		return false;
	__u32 length = ip.ihl * 4;
	if (ip.version != 4 || length < sizeof(ip))
		return false;
	packet->protocol = ip.protocol;
	__builtin_memset(packet->destination, 0, 10);
	packet->destination[10] = packet->destination[11] = 0xff;
	__builtin_memcpy(packet->destination + 12, &ip.daddr, 4);
	/* A later fragment has no ports. */
	if (!(ip.frag_off & bpf_htons(IPV4_FRAGMENT_OFFSET)))
		read_port(skb, packet->network + length, packet);
	return true;
}

static __always_inline bool read_ipv6(struct __sk_buff *skb, struct packet *packet)
{
	struct ipv6hdr ip;
	if (bpf_skb_load_bytes(skb, packet->network, &ip, sizeof(ip)) || ip.version != 6)
		return false;
	__builtin_memcpy(packet->destination, &ip.daddr, 16);
	packet->is_ipv6 = true;

	__u32 offset = packet->network + sizeof(ip);
	__u8 next = ip.nexthdr;
	for (int i = 0; i < MOST_EXTENSIONS; i++) {
		struct {
			__u8 next, length;
			__be16 offset;
		} header;
		if (next != EXTENSION_HOP_BY_HOP && next != EXTENSION_ROUTING &&
		    next != EXTENSION_FRAGMENT && next != EXTENSION_AUTHENTICATION &&
		    next != EXTENSION_DESTINATION && next != EXTENSION_MOBILITY)
			break;
		if (bpf_skb_load_bytes(skb, offset, &header, sizeof(header)))
			break;
		if (next == EXTENSION_FRAGMENT) {
			if (header.offset & bpf_htons(IPV6_FRAGMENT_OFFSET)) {
				/* A later fragment: what follows is not a header. */
				packet->protocol = header.next;
				return true;
			}
			offset += 8;
		} else if (next == EXTENSION_AUTHENTICATION) {
			offset += (header.length + 2) * 4; /* RFC 4302, 2.2 */
		} else {
			offset += (header.length + 1) * 8;
		}
		next = header.next;
	}
	packet->protocol = next;
	read_port(skb, offset, packet);
	return true;
}

/* Reads a packet; false when it is not IP, or cut off. */
static __always_inline bool read_packet(struct __sk_buff *skb, struct packet *packet)
{
	__be16 protocol = skb->protocol;
	__u32 network = ETH_HLEN;
	for (int i = 0; i < MOST_TAGS; i++) {
		struct vlan_tag tag;
		if (protocol != bpf_htons(ETH_P_8021Q) && protocol != bpf_htons(ETH_P_8021AD))
			break;
		if (bpf_skb_load_bytes(skb, network, &tag, sizeof(tag)))
			return false;
		protocol = tag.protocol;
		network += sizeof(tag);
	}
	packet->network = network;
	packet->transport = 0;
	packet->port = 0;
	packet->protocol = 0;
	packet->is_ipv6 = false;
	if (protocol == bpf_htons(ETH_P_IP))
		return read_ipv4(skb, packet);
	if (protocol == bpf_htons(ETH_P_IPV6))
		return read_ipv6(skb, packet);
	return false;
}

/*
 * The number of bytes that a qdisc counts for a packet: each frame of a GSO packet with its own headers. At an egress
 * hook wire_len is this number. At an ingress hook it is less: without the headers before 6.19, and without the
 * Ethernet headers from then on ("net: use qdisc_pkt_len_segs_init() in sch_handle_ingress()"). The count is that of
 * the kernel's qdisc_pkt_len_segs_init().
 */
static __always_inline __u64 length_on_wire(struct __sk_buff *skb, const struct packet *packet)
{
	__u64 least = skb->wire_len > skb->len ? skb->wire_len : skb->len;
	if (!skb->gso_size || !packet->transport)
		return least;
	__u32 headers = packet->transport;
	if (packet->protocol == IPPROTO_TCP) {
		__u8 data_offset;
		if (bpf_skb_load_bytes(skb, packet->transport + TCP_DATA_OFFSET, &data_offset, 1))
			return least;
		headers += (data_offset >> 4) * 4;
	} else if (packet->protocol == IPPROTO_UDP) {
		headers += sizeof(struct udphdr);
	}
	__u64 frames = skb->gso_segs;
	/* What a virtual machine sends comes without the number. */
	if (!frames && skb->len > headers)
		frames = (skb->len - headers + skb->gso_size - 1) / skb->gso_size;
	__u64 length = frames > 1 ? skb->len + (frames - 1) * headers : skb->len;
	return length > least ? length : least;
}

/* Writes the code point, keeps the two bits of ECN (RFC 3168), and puts the checksum right. */
static __always_inline void write_dscp(struct __sk_buff *skb, const struct packet *packet, __u8 dscp)
{
	__be16 before, after;
	if (bpf_skb_load_bytes(skb, packet->network, &before, sizeof(before)))
		return;
	if (packet->is_ipv6) {
		/* version (4), traffic class (8), flow label (4 of 20) */
		after = (before & ~bpf_htons(0x0fc0)) | bpf_htons((__u16)dscp << 6);
		if (after != before)
			bpf_skb_store_bytes(skb, packet->network, &after, sizeof(after),
					    BPF_F_RECOMPUTE_CSUM);
		return;
	}
	/* version and header length (8), traffic class (8) */
	after = (before & ~bpf_htons(0x00fc)) | bpf_htons((__u16)dscp << 2);
	if (after == before)
		return;
	bpf_l3_csum_replace(skb, packet->network + offsetof(struct iphdr, check), before, after,
			    sizeof(after));
	bpf_skb_store_bytes(skb, packet->network, &after, sizeof(after), 0);
}
