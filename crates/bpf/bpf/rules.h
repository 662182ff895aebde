/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The layout of the maps of rules. src/rules/layout.rs says the same in Rust, and both assert the
 * same numbers. A change to anything in here needs a new NETQOS_LAYOUT (layout.h).
 *
 * Addresses are 16 bytes, IPv4 as IPv4-mapped (RFC 4291, 2.5.5.2). Chains and classes are named by
 * digests of what they hold (netqos-core, Digest), so no number has to be handed out or kept.
 */
#pragma once

#include <stddef.h>

#include "layout.h"

/* Rules in a chain, and 64-bit words for a bit of each. */
#define CHAIN_RULES 1024
#define CHAIN_WORDS (CHAIN_RULES / 64)

/* skb->mark of a packet between the queue of a rule and its second pass: magic, then endpoint. It
 * is set and taken away between two hooks of one interface, where no other program sees it. */
#define MARK_MAGIC 0x6e710000u
#define MARK_MAGIC_BITS 0xffff0000u

/* One bit for each rule of a chain, the first one's the lowest of the first word. */
struct bitmap {
	__u64 words[CHAIN_WORDS];
};

/* What stands at a hook. Key: its number, which the hook gives (__u32, 1 to 65535). */
struct endpoint {
	__u64 chain;
	__u64 owner;	 /* a digest of the attachment whose hook has the number */
	__u32 network;	 /* which of the maps of peers */
	__u32 ifindex;	 /* the host's end, to which a packet comes back from a rule's queue */
	__u32 flags;
	__u32 reserved;
};
#define ENDPOINT_QUEUES 1u   /* rules with a rate may redirect into their queue */
#define ENDPOINT_SERVICES 2u /* virtual addresses may be met here */

/* A list of rules. Key: its digest. */
struct chain {
	__u32 words; /* of its bitmaps, that are in use */
	__u32 flags;
	struct bitmap shadow;	/* rules in shadow mode */
	struct bitmap anywhere; /* rules for all destinations */
	struct bitmap portless; /* rules for all protocols and ports */
};
#define CHAIN_BLOCKS4 1u
#define CHAIN_BLOCKS6 2u
#define CHAIN_SETS 4u
#define CHAIN_PORTS 8u

/* A prefix of destinations in a chain. Value: the rules for it and for what it is a part of, those
 * for all destinations among them. */
struct block4 {
	__u32 prefix_length; /* of chain and address together */
	__u32 chain[2];	     /* the digest's bytes, as they are in memory */
	__u8 address[4];
};
struct block6 {
	__u32 prefix_length;
	__u32 chain[2];
	__u8 address[16];
};

/* An address of a pod on one network. Value: its class (__u64). */
struct peer {
	__u8 address[16];
};

/* A class in a chain. Value: the rules that go to a peer set of the class. */
struct class_key {
	__u64 chain;
	__u64 class;
};

/* A protocol and port in a chain; port 0 for a port that is in no rule. Value: the rules for it. */
struct port_key {
	__u64 chain;
	__u16 port; /* in network byte order */
	__u8 protocol;
	__u8 reserved[5];
};

/* A rule of a chain. */
struct rule_key {
	__u64 chain;
	__u32 index;
	__u32 reserved;
};
struct rule {
	__u64 number;  /* a digest of which rule of which object it is: its counters' name */
	__u32 meter;   /* its limiter; 0 for none */
	__u32 queue;   /* the interface that queues for it; 0 where the limiter has to police */
	__u8 dscp;
	__u8 flags;
	__u8 reserved[6];
};
#define RULE_MARKS 1u
#define RULE_SHADOW 2u

/* What a rule did for an endpoint. */
struct counter_key {
	__u64 rule;
	__u32 endpoint;
	__u32 reserved;
};
struct counter {
	__u64 packets, bytes; /* that it won */
	__u64 marked;	      /* packets of them that it marked */
	__u64 dropped_packets, dropped_bytes;
};

/* A port of a virtual address, and what stands behind it. */
struct service_key {
	__u8 address[16];
	__u16 port; /* in network byte order */
	__u8 protocol;
	__u8 reserved[5];
};
struct backend {
	__u8 address[16];
	__u16 port; /* in network byte order */
	__u16 reserved;
};
#define SERVICE_KINDS 8
struct service {
	/* Backends that differ to a chain wherever any two of the Service's do. */
	struct backend kinds[SERVICE_KINDS];
	__u32 count; /* of the kinds; 0: there are more, and each chain has those that tell for it */
};

/* A port of a virtual address to one chain. Value: struct service. */
struct chain_service_key {
	__u64 chain;
	struct service_key service;
};

/*
 * What conntrack is asked about a packet, and what it says (conntrack.bpf.c). One for each processor:
 * only tail calls lie between asking and answering.
 */
struct lookup {
	__u8 tuple[36]; /* struct bpf_sock_tuple, which is 12 bytes long for IPv4 */
	__u8 protocol;
	__u8 is_ipv6;
	__u8 is_known; /* to conntrack, which says where the connection goes: */
	__u8 reserved[3];
	__u16 port;	  /* in network byte order */
	__u8 address[16]; /* IPv4 in the first four bytes */
};

/* A pod at a limiter that several share. Value: struct share. */
struct share_key {
	__u32 meter;
	__u32 endpoint;
};

_Static_assert(sizeof(struct bitmap) == 128, "bitmap");
_Static_assert(sizeof(struct endpoint) == 32, "endpoint");
_Static_assert(sizeof(struct chain) == 392, "chain");
_Static_assert(sizeof(struct block4) == 16, "block4");
_Static_assert(sizeof(struct block6) == 28, "block6");
_Static_assert(sizeof(struct class_key) == 16, "class_key");
_Static_assert(sizeof(struct port_key) == 16, "port_key");
_Static_assert(sizeof(struct rule_key) == 16, "rule_key");
_Static_assert(sizeof(struct rule) == 24, "rule");
_Static_assert(sizeof(struct counter_key) == 16, "counter_key");
_Static_assert(sizeof(struct counter) == 40, "counter");
_Static_assert(sizeof(struct service_key) == 24, "service_key");
_Static_assert(sizeof(struct chain_service_key) == 32, "chain_service_key");
_Static_assert(sizeof(struct service) == 164, "service");
_Static_assert(sizeof(struct lookup) == 60, "lookup");
_Static_assert(sizeof(struct share_key) == 8, "share_key");
