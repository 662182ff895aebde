/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What is known of the packet that is looked at, for functions that are not static: the verifier looks at
 * such a function once and by itself, and not once more for each way through it on each way to it. Before
 * Linux 5.12 they take no pointer but the packet's.
 *
 * Who includes this has said what a `struct sight` is. There is one for each processor, on which the
 * program for a packet ends before that for another begins.
 */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sight);
} sights SEC(".maps");

static __always_inline struct sight *the_sight(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&sights, &zero);
}
