/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * While a line carries little, nobody has to wait for anybody: packets pass beside the tree then, but
 * for what has a limit below the line's, and cost next to nothing.
 *
 *   carries little    at most `room` bytes in each window, for as long as `hold`, since it is counted
 *
 * One window that carries more, and every packet is in the tree from that packet on. What has passed
 * is counted here, since the tree has not seen it.
 */
#pragma once

#include "classes.h"
#include "classes_maps.h"

#include <stdbool.h>

/* Counts a packet, and says whether its line carries little. Windows are not locked: a processor that
 * begins one while another counts loses a packet of the count. What does not change the answer is not
 * counted, so that processors do not wait for each other on a line that is busy. */
static __always_inline bool carries_little(struct class_line *line, __u64 length)
{
	if (!line->room)
		return false;
	__u64 now = bpf_jiffies64();
	/* Before its first packet is counted nobody knows what waits in its tree. */
	if (!line->busy_until)
		line->busy_until = now + line->hold;
	if (line->busy_until == now + line->hold)
		return false;
	__u64 window = now >> line->shift;
	if (line->window != window) {
		line->window = window;
		line->carried = 0;
	}
	__sync_fetch_and_add(&line->carried, length);
	if (line->carried > line->room)
		line->busy_until = now + line->hold;
	return line->busy_until <= now;
}

/* True for a packet that is not to be divided; counts it. Of a tree that has no place all are. */
static __always_inline bool passes(struct __sk_buff *skb, int near, const struct class_leaf *leaf,
				   __u64 length)
{
	__u32 at = near;
	struct class_line *line = near < 0 ? NULL : bpf_map_lookup_elem(&near_lines, &at);
	if (!line || !carries_little(line, length) || !leaf->may_pass)
		return false;
	struct class_passed *passed = &line->passed[leaf->class < CLASSES ? leaf->class : 0];
	__sync_fetch_and_add(&passed->packets, skb->gso_segs > 1 ? skb->gso_segs : 1);
	__sync_fetch_and_add(&passed->bytes, length);
	return true;
}
