/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Which leaf of a slot a packet waits in: whether its flow takes little of what the slot is guaranteed.
 */
#pragma once

#include "classes.h"
#include "classes_maps.h"
#include "flows.h"

#include <stdbool.h>

/* What a packet's flow owes, by its hash. */
struct debts {
	struct flow_debt *a, *b;
	__u64 now;
	__u32 hash;
};

static __always_inline bool find_debts(struct __sk_buff *skb, __u32 slot, __u32 way,
				       struct debts *of)
{
	__u32 salt = slot << 1 | way;
	of->hash = flow_hash(skb);
	__u32 at[FLOW_ROWS] = {
		scatter(of->hash, salt) % FLOW_SLOTS,
		FLOW_SLOTS + scatter(of->hash, ~salt) % FLOW_SLOTS,
	};
	of->a = bpf_map_lookup_elem(&debts, &at[0]);
	of->b = bpf_map_lookup_elem(&debts, &at[1]);
	of->now = bpf_ktime_get_ns();
	return of->a && of->b;
}

/*
 * A flow that takes less than its share of what its slot is guaranteed does not wait behind the
 * others. As in rank.h, without the virtual queue: what a slot may take changes with what others
 * leave, and HTB bounds both leaves. Counters are not locked: two processors that count at once are
 * wrong by a packet.
 */
static __always_inline bool takes_little(struct __sk_buff *skb, const struct debts *of,
					 struct class_leaf *leaf, __u64 length)
{
	struct flow_debt *a = of->a, *b = of->b;
	__u64 now = of->now;
	__u32 epoch = now >> EPOCH_SHIFT;
	if (leaf->epoch != epoch) {
		leaf->flows_before = leaf->epoch + 1 == epoch ? leaf->flows_now : 0;
		leaf->flows_now = 0;
		leaf->epoch = epoch;
	}
	if (a->epoch != epoch || b->epoch != epoch)
		leaf->flows_now++;
	__u64 active = later(LEAST_FLOWS, later(leaf->flows_now, leaf->flows_before));

	__u64 debt = later(earlier(a->owes_until, b->owes_until), now) - now;
	__u64 cost = ((length * leaf->cost_per_byte) >> leaf->cost_shift) * active;
	__u64 allowance = leaf->allowance;
	bool little = debt + cost <= allowance || (debt == 0 && length <= FULL_FRAME);
	if (earlier(a->bulk_until, b->bulk_until) > now)
		little = false;
	/* The queue of bulk segments it. (One that is no GSO packet would be dropped there.) */
	if (leaf->longest && skb->gso_size && length > leaf->longest)
		little = false;
	__u64 most = now + 2 * allowance + 1;
	a->owes_until = earlier(later(a->owes_until, now) + cost, most);
	b->owes_until = earlier(later(b->owes_until, now) + cost, most);
	a->epoch = epoch;
	b->epoch = epoch;
	/* fq_codel goes by the packet's hash. By one that its socket has chosen, which changes, packets would overtake
	 * others of their flow. */
	bpf_set_hash(skb, of->hash);
	if (!little) {
		/* Else a later packet of the flow would overtake this one. */
		a->bulk_until = now + leaf->hold;
		b->bulk_until = now + leaf->hold;
	}
	return little;
}

/* The place of a tree that has one; -1 of any other. */
static __always_inline int near_tree(__u32 tree)
{
	__u32 zero = 0;
	struct class_trees *trees_there = bpf_map_lookup_elem(&trees, &zero);
	for (int i = 0; trees_there && i < NEAR_TREES; i++)
		if (trees_there->there[i] == tree)
			return i;
	return -1;
}

static __always_inline struct class_leaf *leaf_at(__u32 tree, int near, __u32 slot)
{
	if (near >= 0 && slot < NEAR_SLOTS) {
		__u32 at = near * NEAR_SLOTS + slot;
		struct class_leaf *leaf = bpf_map_lookup_elem(&near_leaves, &at);
		return leaf && leaf->cost_per_byte ? leaf : NULL;
	}
	struct class_leaf_key key = {.tree = tree, .slot = slot};
	return FIND(&leaves, &key);
}

/* How flows of a slot are told apart in this tree; of a part that it does not have yet, or no more, it is
 * the system's. */
static __always_inline struct class_leaf *leaf_of(__u32 tree, int near, __u32 *slot)
{
	struct class_leaf *leaf = leaf_at(tree, near, *slot);
	if (leaf)
		return leaf;
	*slot = SLOT_SYSTEM;
	return leaf_at(tree, near, SLOT_SYSTEM);
}
