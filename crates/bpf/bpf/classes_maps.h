/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The maps of classes, each pinned under its name. What their keys and values mean is in classes.h. A
 * change to anything in here needs a new folder of pins (src/classes/pins.rs).
 */
#pragma once

#include "classes.h"
#include "flows.h"
#include "table.h"

ARRAY(settings, struct class_settings, 1);

/* By the number in a stamp. */
ARRAY(pods, struct class_pod, STAMP_POD + 1);
TABLE(pod_flows, HASH, struct class_flow_key, struct class_flow, 65536);

/* The host's ends of pods' interfaces, by ifindex: the pod's number and LINK_FLOWS. */
TABLE(links, HASH, __u32, __u32, 16384);

/* The numbers of pods, by their addresses, and by the ids of cgroups of those on the host's network. */
struct address {
	__u8 bytes[16];
};
TABLE(addresses, HASH, struct address, __u32, 65536);
TABLE(cgroups, HASH, __u64, __u32, 16384);

ARRAY(trees, struct class_trees, 1);
ARRAY(near_lines, struct class_line, NEAR_TREES);
ARRAY(near_leaves, struct class_leaf, NEAR_TREES * NEAR_SLOTS);
TABLE(leaves, HASH, struct class_leaf_key, struct class_leaf, 65536);

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct class_tuple);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} tuples SEC(".maps");

struct flow_debt {
	__u64 owes_until;
	__u64 bulk_until;
	__u32 epoch;
	__u32 told; /* whose connection was remembered in this epoch */
};

ARRAY(debts, struct flow_debt, FLOW_ROWS * FLOW_SLOTS);
