/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The maps of classes, each pinned under its name. What their keys and values mean is in classes.h. A
 * change to anything in here needs a new folder of pins (src/classes/pins.rs).
 */
#pragma once

#include "classes.h"
#include "flows.h"
#include "table.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct class_settings);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} settings SEC(".maps");

TABLE(pods, HASH, __u32, struct class_pod, 16384);
TABLE(pod_flows, HASH, struct class_flow_key, struct class_flow, 65536);

/* The host's ends of pods' interfaces, by ifindex: the pod's number and LINK_FLOWS. */
TABLE(links, HASH, __u32, __u32, 16384);

/* The numbers of pods, by their addresses, and by the ids of cgroups of those on the host's network. */
struct address {
	__u8 bytes[16];
};
TABLE(addresses, HASH, struct address, __u32, 65536);
TABLE(cgroups, HASH, __u64, __u32, 16384);

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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FLOW_ROWS * FLOW_SLOTS);
	__type(key, __u32);
	__type(value, struct flow_debt);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} debts SEC(".maps");
