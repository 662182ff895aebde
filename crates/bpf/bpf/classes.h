/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What userspace and the programs of classes share. src/classes/layout.rs says the same in Rust, and
 * a test holds the two together. A change to anything in here needs a new folder of pins
 * (src/classes/pins.rs).
 *
 *   pod    a number for each pod of the node, from 1
 *   slot   a number for each part of a line: a class, a pod or flows of one. Each has two leaves in
 *          every tree: one for flows that take little, one for all others
 */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>

/* The classes' own slots. */
#define SLOT_SYSTEM 0
#define SLOT_LATENCY_SENSITIVE 1
#define SLOT_BEST_EFFORT 2
#define CLASSES 3

/* One of a line's two trees, by the line's ifindex and the way. */
#define TREE(ifindex, way) ((ifindex) | (__u32)(way) << 31)
/* The leaves of a slot in a tree: minor numbers of HTB's classes. */
#define LEAF_QUICK(slot) (0x10 + 2 * (slot))
#define LEAF_BULK(slot) (0x11 + 2 * (slot))
/* Of none: HTB sends that at once. */
#define PAST 0
#define NOWHERE 0xffff
/* The handles of the trees of either way, by which alone a priority names one of their classes. What has
 * come by one line may go on by another with the priority that it was given. */
#define EGRESS_MAJOR 0x6e710000
#define INGRESS_MAJOR 0x6e720000

/* In skb->tc_index, of what came from a pod: this, the number of its flow from 1, and the pod's. */
#define STAMP 0x8000
#define STAMP_FLOW_SHIFT 11
#define STAMP_POD 0x07ff
/* In the entry of a link, beside the pod's number: it has flows that are told apart. */
#define LINK_FLOWS 0x10000
/* In net_cls.classid, of what a pod on the host's network sends: this, and the pod's number. */
#define CGROUP_CLASS 0x6e710000

/* The ways of a line. */
#define INGRESS 0
#define EGRESS 1

#define MOST_POD_FLOWS 15
#define MOST_CGROUP_LEVELS 16
#define MOST_TUNNELS 8

/* Kinds of tunnels that have a UDP port. What WireGuard carries is encrypted, so that its pods are unknown. */
#define TUNNEL_VXLAN 1
#define TUNNEL_GENEVE 2
#define TUNNEL_WIREGUARD 3

struct class_tunnel {
	__be16 port; /* 0: no tunnel */
	__u16 kind;
};

struct class_settings {
	__u16 cgroup_levels; /* a bit for each depth at which a pod's cgroup is */
	__u16 opaque_slot;   /* of WireGuard's packets */
	__u16 has_ip_in_ip;  /* the node has tunnels of protocols 4 and 41 */
	__u16 unused;
	struct class_tunnel tunnels[MOST_TUNNELS];
};

struct class_pod {
	__u16 slot[2];	 /* by way */
	__u16 flows;	 /* how many entries of class_flows it has */
	__u16 is_known;	 /* else there is no pod of this number */
	__be32 address;	 /* one of its own; 0 where it has none of IPv4 */
	__be32 address6[4]; /* the same of IPv6 */
	__u32 unused_too;
};

struct class_flow_key {
	__u32 pod;
	__u32 index;
};

#define FLOW_PEER 1
#define FLOW_PORT 2
#define FLOW_DSCP 4
#define FLOW_MARKS 8

struct class_flow {
	__u8 peer[16];	  /* IPv4 as IPv4-mapped */
	__u8 peer_bits;
	__u8 way;
	__u8 flags;
	__u8 dscp;	  /* that packets come with */
	__u16 port_first; /* on the pod, in host byte order */
	__u16 port_last;
	__u16 slot;
	__u8 mark;	  /* the code point to write */
	__u8 unused[5];
};

/* Trees whose first slots' leaves are in an array, where a packet's is found without a search. All
 * others' are in a table, and these trees are never passed by. */
#define NEAR_TREES 16
#define NEAR_SLOTS 512

struct class_trees {
	__u32 there[NEAR_TREES]; /* 0: none */
};

/* How flows of a slot are told apart in one tree. */
struct class_leaf_key {
	__u32 tree;
	__u32 slot;
};

struct class_leaf {
	__u64 cost_per_byte; /* ns per byte at what the slot is guaranteed, times 2^cost_shift; 0: no
				such leaf */
	__u64 allowance;     /* what a flow may owe, at 1/16 of that, and still take little */
	__u64 hold;	     /* how long a flow stays bulk after its last bulk packet, ns */
	__u32 cost_shift;
	__u32 epoch;	     /* the programs' own, as what follows */
	__u32 flows_now;
	__u32 flows_before;
	__u16 class;	     /* by its slot */
	__u16 may_pass;	     /* beside the tree, while the line carries little */
	__u32 longest;	     /* bytes of a packet of a flow that takes little; 0: any */
};

/* What has passed beside the tree of one class: packets, those of a GSO packet each, and bytes. */
struct class_passed {
	__u64 packets;
	__u64 bytes;
};

/* Of a tree: see idle.h. */
struct class_line {
	__u64 room;	  /* bytes; 0: it is always divided */
	__u32 shift;	  /* a window is 2^shift jiffies */
	__u32 hold;	  /* jiffies */
	__u64 window;	  /* the programs' own, as what follows */
	__u64 carried;	  /* bytes, in this window */
	__u64 busy_until; /* jiffies */
	struct class_passed passed[CLASSES];
};

/* Of a connection that cannot be told by a pod's address: as it goes out. */
struct class_tuple {
	__u8 local[16];
	__u8 remote[16];
	__be16 local_port;
	__be16 remote_port;
	__u8 protocol;
	__u8 unused[3];
};

/* src/classes/layout.rs and line.rs are compared with these numbers. */
_Static_assert(sizeof(struct class_tunnel) == 4, "layout");
_Static_assert(__builtin_offsetof(struct class_tunnel, kind) == 2, "layout");
_Static_assert(sizeof(struct class_settings) == 40, "layout");
_Static_assert(__builtin_offsetof(struct class_settings, opaque_slot) == 2, "layout");
_Static_assert(__builtin_offsetof(struct class_settings, has_ip_in_ip) == 4, "layout");
_Static_assert(__builtin_offsetof(struct class_settings, tunnels) == 8, "layout");
_Static_assert(sizeof(struct class_pod) == 32, "layout");
_Static_assert(__builtin_offsetof(struct class_pod, flows) == 4, "layout");
_Static_assert(__builtin_offsetof(struct class_pod, is_known) == 6, "layout");
_Static_assert(__builtin_offsetof(struct class_pod, address) == 8, "layout");
_Static_assert(__builtin_offsetof(struct class_pod, address6) == 12, "layout");
_Static_assert(sizeof(struct class_flow_key) == 8, "layout");
_Static_assert(__builtin_offsetof(struct class_flow_key, index) == 4, "layout");
_Static_assert(sizeof(struct class_flow) == 32, "layout");
_Static_assert(__builtin_offsetof(struct class_flow, peer_bits) == 16, "layout");
_Static_assert(__builtin_offsetof(struct class_flow, way) == 17, "layout");
_Static_assert(__builtin_offsetof(struct class_flow, flags) == 18, "layout");
_Static_assert(__builtin_offsetof(struct class_flow, dscp) == 19, "layout");
_Static_assert(__builtin_offsetof(struct class_flow, slot) == 24, "layout");
_Static_assert(__builtin_offsetof(struct class_flow, mark) == 26, "layout");
_Static_assert(sizeof(struct class_trees) == 64, "layout");
_Static_assert(sizeof(struct class_leaf_key) == 8, "layout");
_Static_assert(__builtin_offsetof(struct class_leaf_key, slot) == 4, "layout");
_Static_assert(sizeof(struct class_leaf) == 48, "layout");
_Static_assert(__builtin_offsetof(struct class_leaf, allowance) == 8, "layout");
_Static_assert(__builtin_offsetof(struct class_leaf, hold) == 16, "layout");
_Static_assert(__builtin_offsetof(struct class_leaf, cost_shift) == 24, "layout");
_Static_assert(__builtin_offsetof(struct class_leaf, class) == 40, "layout");
_Static_assert(__builtin_offsetof(struct class_leaf, may_pass) == 42, "layout");
_Static_assert(sizeof(struct class_passed) == 16, "layout");
_Static_assert(__builtin_offsetof(struct class_passed, bytes) == 8, "layout");
_Static_assert(sizeof(struct class_line) == 88, "layout");
_Static_assert(__builtin_offsetof(struct class_line, shift) == 8, "layout");
_Static_assert(__builtin_offsetof(struct class_line, hold) == 12, "layout");
_Static_assert(__builtin_offsetof(struct class_line, passed) == 40, "layout");
