/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Ranks and admits packets in front of a queue that is held to a rate.
 *
 * The queue behind is a TBF with a pfifo_fast in it. What is in here says to which band of the
 * pfifo_fast a packet goes, and whether it may enter:
 *
 *   sparse  a flow that takes less than its share of the limit: first band, waits for nobody
 *   bulk    every other flow: second band
 *   drop    a virtual queue that drains at exactly the limit is longer than its bound
 *
 * One datagram may exceed the bound, by LARGE_DATAGRAM bytes: the last of which a fragment came when next to nothing
 * waited. Else no bound below its size would ever let it through. It need not be the fragment that IP calls the first:
 * while a neighbour is looked for, that one may be overtaken. What others wait is bounded as before, since nothing of
 * theirs is let in behind it. None may while several pods share the limiter.
 */
#pragma once

#include "datagram.h"
#include "flows.h"
#include "layout.h"

#include <bpf/bpf_helpers.h>
#include <linux/pkt_cls.h>

#ifndef TC_ACT_UNSPEC
#define TC_ACT_UNSPEC (-1)
#endif

/* skb->priority to which pfifo_fast gives its first band, and its second. */
#define PRIORITY_SPARSE 6 /* TC_PRIO_INTERACTIVE */
#define PRIORITY_BULK 0	  /* TC_PRIO_BESTEFFORT */

/* A packet up to this size is let through whoever sent too much: acknowledgements, questions. */
#define SMALL_PACKET 300
/* After its last bulk packet has left the queue a flow stays bulk for this long. */
#define BULK_HOLD 2000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct limiter);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} limiters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_ROWS * FLOW_SLOTS);
	__type(key, __u32);
	__type(value, struct flow);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} flows SEC(".maps");

/* What a number of bytes takes at the limit. */
static __always_inline __u64 cost_of(const struct limiter_settings *settings, __u64 bytes)
{
	return (bytes * settings->cost_per_byte) >> settings->cost_shift;
}

/* Charges a flow in one row; says until when it owes. */
static __always_inline void charge(struct flow *flow, __u64 now, __u64 cost, __u64 allowance,
				   __u32 epoch)
{
	/* Capped, so that a flow which has been bulk is forgiven soon after it stops. */
	flow->owes_until =
		earlier(later(flow->owes_until, now) + cost, now + 2 * allowance + 1);
	flow->epoch = epoch;
}

/*
 * Ranks a packet of this length by a limiter and admits or drops it: TC_ACT_UNSPEC or TC_ACT_SHOT.
 * The length is what the queue behind will count, or the virtual queue would not be as long as the
 * real one. Where several pods share the limiter, `crowd` counts them and `share` is what this
 * packet's pod may take of it; both may be absent. A limiter that is not there admits everything.
 */
static __always_inline int rank(struct __sk_buff *skb, __u64 length, __u32 id, struct crowd *crowd,
				struct share *share)
{
	struct limiter *limiter = bpf_map_lookup_elem(&limiters, &id);
	if (!limiter)
		return TC_ACT_UNSPEC;

	__u32 hash = flow_hash(skb);
	__u32 slot[FLOW_ROWS] = {
		scatter(hash, id) % FLOW_SLOTS,
		FLOW_SLOTS + scatter(hash, ~id) % FLOW_SLOTS,
	};
	struct flow *a = bpf_map_lookup_elem(&flows, &slot[0]);
	struct flow *b = bpf_map_lookup_elem(&flows, &slot[1]);
	if (!a || !b)
		return TC_ACT_UNSPEC;

	__u32 fragment = fragment_of(skb);
	__u64 now = bpf_ktime_get_ns();
	__u32 epoch = now >> EPOCH_SHIFT;
	int action = TC_ACT_UNSPEC;
	__u32 priority = PRIORITY_BULK;

	bpf_spin_lock(&limiter->lock);

	struct limiter_settings *settings = &limiter->settings;
	__u64 cost = cost_of(settings, length);

	if (limiter->epoch != epoch) {
		limiter->flows_before = limiter->epoch + 1 == epoch ? limiter->flows_now : 0;
		limiter->flows_now = 0;
		limiter->epoch = epoch;
	}
	if (a->epoch != epoch || b->epoch != epoch)
		limiter->flows_now++;
	__u64 active = later(LEAST_FLOWS, later(limiter->flows_now, limiter->flows_before));

	/* The flow's own share. Of two rows the one in which it owes less is right: the other is
	 * shared with somebody who owes more. */
	__u64 debt_until = later(earlier(a->owes_until, b->owes_until), now);
	__u64 debt = debt_until - now;
	__u64 flow_cost = cost * active;
	__u64 allowance = later(settings->flow_allowance, settings->least_flow * active);
	int sparse = debt + flow_cost <= allowance || (debt == 0 && length <= FULL_FRAME);
	if (earlier(a->bulk_until, b->bulk_until) > now)
		sparse = 0;
	charge(a, now, flow_cost, allowance, epoch);
	charge(b, now, flow_cost, allowance, epoch);

	/* What all sparse flows may take together, so that many tiny ones cannot starve the rest. */
	if (sparse) {
		__u64 band = later(limiter->band, now) + 2 * cost;
		if (band - now > settings->band_allowance)
			sparse = 0;
		else
			limiter->band = band;
	}

	/* The virtual queue. */
	__u64 queue = later(limiter->queue, now);
	__u64 bound = sparse ? settings->sparse_bound + cost_of(settings, LARGE_DATAGRAM) :
			       settings->bulk_bound;

	/* Who does not know the key of the hash cannot send fragments of another pod's datagram. */
	__u16 datagram = fragment ^ hash;
	__u32 room = (length + ROOM_UNIT - 1) / ROOM_UNIT;
	if (fragment && queue - now <= cost_of(settings, NEXT_TO_NOTHING)) {
		limiter->datagram = datagram;
		limiter->room = LARGE_DATAGRAM / ROOM_UNIT;
	}
	bool has_room = fragment && limiter->datagram == datagram && limiter->room >= room;

	/* What this pod has taken, at its part of the rate. It is held against the pod only when the
	 * queue is half full: what others leave is anybody's. */
	if (crowd && share) {
		if (crowd->epoch != epoch) {
			crowd->pods_before = crowd->epoch + 1 == epoch ? crowd->pods_now : 0;
			crowd->pods_now = 0;
			crowd->epoch = epoch;
		}
		if (share->epoch != epoch) {
			share->epoch = epoch;
			crowd->pods_now++;
		}
		__u64 pods = later(1, later(crowd->pods_now, crowd->pods_before));
		__u64 half = settings->bulk_bound / 2;
		/* The bound was another one before a change. */
		__u64 owes_until = earlier(later(share->owes_until, now),
					   now + 2 * settings->bulk_bound);
		/* What a pod owes is bounded, and what its datagram takes of others would be more. */
		if (pods > 1)
			has_room = false;
		if (pods > 1 && length > SMALL_PACKET && queue - now > half &&
		    owes_until - now > half)
			bound = 0;
		else
			owes_until += cost * pods;
		share->owes_until = earlier(owes_until, now + 2 * settings->bulk_bound);
	}

	bool is_over = queue - now > bound;
	if (is_over && has_room)
		limiter->room -= room;
	if (is_over && !has_room) {
		limiter->counters.dropped_packets++;
		limiter->counters.dropped_bytes += length;
		action = TC_ACT_SHOT;
	} else {
		queue += cost;
		limiter->queue = queue;
		if (sparse) {
			limiter->counters.sparse_packets++;
			limiter->counters.sparse_bytes += length;
			priority = PRIORITY_SPARSE;
		} else {
			limiter->counters.bulk_packets++;
			limiter->counters.bulk_bytes += length;
		}
	}
	if (!sparse) {
		/* Else a later packet of the flow would overtake this one. */
		a->bulk_until = queue + BULK_HOLD;
		b->bulk_until = queue + BULK_HOLD;
	}

	bpf_spin_unlock(&limiter->lock);

	skb->priority = priority;
	return action;
}
