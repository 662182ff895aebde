/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Telling flows that take little from those that take much: what a flow owes stands in two rows of
 * slots, at places that its hash says.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>
#include <stddef.h>

/* Rows and slots of the table of flows; the slots are a power of two. */
#define FLOW_ROWS 2
#define FLOW_SLOTS 16384

/* An epoch, in which active flows and pods are counted, is 2^27 ns = 134 ms. */
#define EPOCH_SHIFT 27
/* A flow's share is the limit divided by the active flows, of which there are at least so many. */
#define LEAST_FLOWS 16
/* A flow that owes nothing may always send one packet of this size. */
#define FULL_FRAME 1514

static __always_inline __u64 later(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 earlier(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

/* Chosen at random when the programs are loaded: who knew it could have its flows counted as another pod's. */
const volatile __u64 NETQOS_FLOW_KEY[2] = {};

/* An IPv6 header from its fifth byte on (RFC 8200), and the first four bytes behind it. */
struct flow6 {
	__be16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u32 addresses[8];
	__u32 ports;
};

static __always_inline __u64 rotate(__u64 value, int bits)
{
	return value << bits | value >> (64 - bits);
}

/* A round of SipHash (Aumasson and Bernstein, 2012). */
static __always_inline void sip_round(__u64 v[4])
{
	v[0] += v[1], v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1], v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

/* SipHash-1-3 of whole words. */
static __always_inline __u64 sip_hash(const __u64 *words, int count)
{
	__u64 v[4] = {
		NETQOS_FLOW_KEY[0] ^ 0x736f6d6570736575ULL,
		NETQOS_FLOW_KEY[1] ^ 0x646f72616e646f6dULL,
		NETQOS_FLOW_KEY[0] ^ 0x6c7967656e657261ULL,
		NETQOS_FLOW_KEY[1] ^ 0x7465646279746573ULL,
	};
#pragma unroll
	for (int i = 0; i <= count; i++) {
		/* The length in bytes is the last one's first byte. */
		__u64 word = i < count ? words[i] : (__u64)count << 59;
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
#pragma unroll
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Reads a part of a packet's IP header. bpf_skb_load_bytes_relative() reads the linear part of a packet alone; cards and
 * GRO leave more or less of the headers in the fragments. */
static __always_inline bool read_ip(struct __sk_buff *skb, __u16 kind, __u32 offset, void *to,
				    __u32 size)
{
	__be16 protocol;
	return !bpf_skb_load_bytes_relative(skb, offset, to, size, BPF_HDR_START_NET) ||
	       (!bpf_skb_load_bytes(skb, offsetof(struct ethhdr, h_proto), &protocol, 2) &&
		protocol == bpf_htons(kind) &&
		!bpf_skb_load_bytes(skb, ETH_HLEN + offset, to, size));
}

/* The hash of an IPv6 packet's flow by its ports; 0 of one without ports, or with other headers before them.
 * A function by itself, which the verifier follows once. */
__noinline __u32 flow_hash6(struct __sk_buff *skb)
{
	struct flow6 flow;
	if (!read_ip(skb, ETH_P_IPV6, 4, &flow, sizeof(flow)))
		return 0;
	if (flow.next_header != IPPROTO_TCP && flow.next_header != IPPROTO_UDP &&
	    flow.next_header != IPPROTO_SCTP)
		return 0;
	__u64 words[] = {
		(__u64)flow.addresses[0] << 32 | flow.addresses[1],
		(__u64)flow.addresses[2] << 32 | flow.addresses[3],
		(__u64)flow.addresses[4] << 32 | flow.addresses[5],
		(__u64)flow.addresses[6] << 32 | flow.addresses[7],
		(__u64)flow.ports << 32 | flow.next_header,
	};
	return sip_hash(words, 5);
}

/*
 * The hash of a packet's flow, by its addresses and ports alone. A local socket stamps its packets with a number of its
 * own in place of that (net/core/sock.c, sk_rethink_txhash), and takes another one after a timeout: the flow would
 * then be a new one, and its packets overtake those that still wait. An IPv6 socket writes its number as the flow
 * label, too, by which the kernel's own hash goes in place of ports. The packet keeps the hash that it came with, by which
 * the kernel chooses paths and queues, unless it waits at an uplink (leaves.h).
 */
static __always_inline __u32 flow_hash(struct __sk_buff *skb)
{
	__u32 by_ports = skb->protocol == bpf_htons(ETH_P_IPV6) ? flow_hash6(skb) : 0;
	if (by_ports)
		return by_ports;
	__u32 stamped = skb->hash;
	bpf_set_hash_invalid(skb);
	__u32 hash = bpf_get_hash_recalc(skb);
	if (stamped)
		bpf_set_hash(skb, stamped);
	return hash;
}

/* Spreads the flow's hash, so that the two rows and those who use them do not collide together. */
static __always_inline __u32 scatter(__u32 hash, __u32 salt)
{
	hash ^= salt * 0x9e3779b1u;
	hash ^= hash >> 16;
	hash *= 0x85ebca6bu;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35u;
	return hash ^ hash >> 16;
}

/* What the qdisc counts at an egress hook: each frame of a GSO packet with its own headers. (At an
 * ingress hook the kernel has not counted them yet.) */
static __always_inline __u64 length_at_egress(struct __sk_buff *skb)
{
	return skb->wire_len > skb->len ? skb->wire_len : skb->len;
}
