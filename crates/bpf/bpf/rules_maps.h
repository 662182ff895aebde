/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The maps of rules, each pinned under its name. What their keys and values mean is in rules.h. A
 * change to anything in here needs a new NETQOS_LAYOUT (layout.h), but not a map that is added.
 */
#pragma once

#include "packet.h"
#include "rules.h"
#include "table.h"

#define MOST (1 << 20)

/* What stands at hooks, by their numbers. */
TABLE(endpoints, HASH, __u32, struct endpoint, 65535);

/* Lists of rules by their digests, and what they are made of. */
TABLE(chains, HASH, __u64, struct chain, 65536);
TABLE(blocks4, LPM_TRIE, struct block4, struct bitmap, MOST);
TABLE(blocks6, LPM_TRIE, struct block6, struct bitmap, MOST);
TABLE(classes, HASH, struct class_key, struct bitmap, MOST);
TABLE(ports, HASH, struct port_key, struct bitmap, MOST);
TABLE(rules, HASH, struct rule_key, struct rule, MOST);
TABLE(counters, PERCPU_HASH, struct counter_key, struct counter, MOST);

TABLE(services, HASH, struct service_key, struct service, MOST);
TABLE(chain_services, HASH, struct chain_service_key, struct service, 1 << 17);

/* The pods that share a limiter, by its number, and what each took of it. */
TABLE(crowds, HASH, __u32, struct crowd, 65535);
TABLE(shares, HASH, struct share_key, struct share, MOST);

/* The peers of one network. The real ones are as large as they need to be. (Sizes, since clang
 * leaves out what a type behind two pointers looks like.) */
struct peers {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(key_size, sizeof(struct peer));
	__uint(value_size, sizeof(__u64));
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, struct peers);
} networks SEC(".maps");

/* The programs that programs go on to. */
#define STAGE_RULES 0  /* from tcx hooks */
#define STAGE_LOOKUP 1 /* asks conntrack; not there where that cannot be asked */
#define STAGE_KNOWN 2  /* goes on with what conntrack said */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 3);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} stages SEC(".maps");

/* A packet about which conntrack is asked. */
struct asked {
	struct lookup lookup;
	struct packet packet;
	__u32 endpoint;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct asked);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} lookups SEC(".maps");
