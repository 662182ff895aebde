/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What userspace and the programs share: the layout of the maps. src/layout.rs says the same in
 * Rust, and a test holds the two together. A change to anything in here needs a new
 * NETQOS_LAYOUT, since maps outlive the process that made them.
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>

#define NETQOS_LAYOUT 1

/* What a limiter is told. Times are nanoseconds of CLOCK_MONOTONIC. */
struct limiter_settings {
	__u64 cost_per_byte;  /* ns per byte at the limit, times 2^cost_shift, rounded up */
	__u64 bulk_bound;     /* a bulk packet is dropped when the virtual queue is longer */
	__u64 sparse_bound;   /* the same for a sparse packet */
	__u64 flow_allowance; /* what a flow may owe, at 1/16 of the limit, and still be sparse */
	__u64 band_allowance; /* what all sparse flows together may owe, at half of the limit */
	__u64 least_flow;     /* ns of 1 KB at the limit: no flow's allowance is smaller */
	__u32 cost_shift;
	__u32 network;        /* a hash of the name of the network that the attachment is of */
	__u64 owner;          /* whose limiter this is: a hash of attachment and direction */
};

/* What a limiter has done. */
struct limiter_counters {
	__u64 sparse_packets, sparse_bytes;
	__u64 bulk_packets, bulk_bytes;
	__u64 dropped_packets, dropped_bytes;
};

struct limiter {
	struct bpf_spin_lock lock;
	__u32 epoch;        /* the last epoch in which a packet came */
	__u16 flows_now;    /* flows seen in that epoch: no more than FLOW_ROWS * FLOW_SLOTS */
	__u16 datagram;     /* which datagram may exceed the bound */
	__u16 flows_before; /* flows seen in the epoch before it */
	__u16 room;         /* by how much, in ROOM_UNIT bytes */
	__u64 queue;        /* when the virtual queue will be empty */
	__u64 band;         /* when the sparse flows' own allowance will be whole again */
	struct limiter_settings settings;
	struct limiter_counters counters;
};

/* A flow, as one row of the table remembers it. Two flows may share a slot. */
struct flow {
	__u64 owes_until; /* when it will have paid for what it sent, at its share of the limit */
	__u64 bulk_until; /* it stays bulk until its last bulk packet has left the queue */
	__u32 epoch;      /* the last epoch in which a packet came */
	__u32 reserved;
};

/* The pods that share a limiter. */
struct crowd {
	__u32 epoch;       /* the last epoch in which a packet came */
	__u32 pods_now;    /* pods seen in that epoch */
	__u32 pods_before; /* pods seen in the epoch before it */
	__u32 reserved;
};

/* What one pod took of a limiter that it shares. */
struct share {
	__u64 owes_until; /* when it will have paid for what it sent, at its part of the rate */
	__u32 epoch;      /* the last epoch in which a packet came */
	__u32 reserved;
};

/* src/layout.rs is compared with these numbers. */
_Static_assert(sizeof(struct limiter_settings) == 64, "limiter_settings");
_Static_assert(sizeof(struct limiter_counters) == 48, "limiter_counters");
_Static_assert(sizeof(struct limiter) == 144, "limiter");
_Static_assert(__builtin_offsetof(struct limiter, queue) == 16, "limiter.queue");
_Static_assert(__builtin_offsetof(struct limiter, band) == 24, "limiter.band");
_Static_assert(__builtin_offsetof(struct limiter, settings) == 32, "limiter.settings");
_Static_assert(__builtin_offsetof(struct limiter, counters) == 96, "limiter.counters");
_Static_assert(__builtin_offsetof(struct limiter_settings, cost_shift) == 48, "cost_shift");
_Static_assert(__builtin_offsetof(struct limiter_settings, owner) == 56, "owner");
_Static_assert(sizeof(struct flow) == 24, "flow");
_Static_assert(sizeof(struct crowd) == 16, "crowd");
_Static_assert(sizeof(struct share) == 16, "share");
