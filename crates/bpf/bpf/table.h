/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* A map that takes memory for what is in it only. */
#define TABLE(name, kind, key_type, value_type, most) \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_##kind);    \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__uint(max_entries, most);            \
		__type(key, key_type);                \
		__type(value, value_type);            \
		__uint(pinning, LIBBPF_PIN_BY_NAME);  \
	} name SEC(".maps")

/* One that has room for all its values from the beginning, by numbers from 0. */
#define ARRAY(name, value_type, many)                \
	struct {                                     \
		__uint(type, BPF_MAP_TYPE_ARRAY);    \
		__uint(max_entries, many);           \
		__type(key, __u32);                  \
		__type(value, value_type);           \
		__uint(pinning, LIBBPF_PIN_BY_NAME); \
	} name SEC(".maps")

/*
 * Looks up a key whose value may be replaced at this moment. The kernel puts the new element at the
 * head of its bucket before it takes the old one out, and readers take no lock: one that has passed
 * the head, and comes to the old one's place after that, finds neither. The second time it finds the
 * new one.
 */
#define FIND(map, key) (bpf_map_lookup_elem(map, key) ?: bpf_map_lookup_elem(map, key))
