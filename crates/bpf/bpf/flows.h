/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Telling flows that take little from those that take much: what a flow owes stands in two rows of
 * slots, at places that its hash says.
 */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

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

/*
 * The hash of a packet's flow, by its addresses and ports alone. A local socket stamps its packets with a number of its
 * own in place of that (net/core/sock.c, sk_rethink_txhash), and takes another one after a timeout: the flow would
 * then be a new one, and its packets overtake those that still wait. The packet leaves with the hash that it came with,
 * by which the kernel chooses paths and queues.
 */
static __always_inline __u32 flow_hash(struct __sk_buff *skb)
{
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
