// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Marks and limits what a pod sends, per destination.
 *
 *   destination ──► prefixes of the chain ─┐ or
 *               └─► class ──► of the chain ┴─► bitmap ─┐
 *   protocol and port ───────────────────────► bitmap ─┴ and ──► first bit: the rule that wins
 *
 * The cost does not grow with the number of rules or of addresses. A rule with a rate has an
 * interface as its queue: the packet is marked, redirected there, comes back to the same hook with
 * our mark, and goes on to everybody else's programs as if it had come for the first time. What is
 * not dropped or queued is handed on to the next program.
 */
#include "rules.h"

#include "packet.h"
#include "rank.h"
#include "rules_maps.h"

/* 0 where the kernel does not let programs with functions go on to others (arm64 before 6.0): what
 * is never reached is not looked at by the verifier. */
const volatile __u8 NETQOS_ASKS_CONNTRACK = 1;

struct sight {
	struct packet packet;
	struct endpoint endpoint; /* one state of it for the whole packet */
	__u32 number;		  /* of the endpoint */
};

#include "sight.h"

/* Reads the packet; 0 when it is not IP, or cut off. */
__noinline int read(struct __sk_buff *skb)
{
	struct sight *sight = the_sight();
	return sight && read_packet(skb, &sight->packet);
}

/*
 * The program may stand at an interface twice: for a moment, when it is moved to the other hook or
 * before somebody else's program, and for longer where whoever moves it is killed then. The first
 * one notes in the packet's scratch space that it is done with it, and the other hands it on: else a
 * packet that comes back from its rule's queue would be sent there again, and again.
 *
 * What IP leaves there cannot be the note: lengths and offsets of IPv4 options, of which no byte is
 * as large as one of these, or IPv6's offset of the next header, which is 0 in what a host sends
 * itself. Programs behind this one find the word as it is left; nothing says what is in it.
 */
#define NOTE 1
#define NOTE_DONE(number) (0xd09e0000u | (number))

static __always_inline bool is_done(struct __sk_buff *skb, __u32 number)
{
	/* As number 0, which no hook has, it is measured on one packet again and again. */
	return number && skb->cb[NOTE] == NOTE_DONE(number);
}

static __always_inline int done(struct __sk_buff *skb, __u32 number, int action)
{
	/* What is on its way to a queue comes back. */
	if (action == TC_ACT_UNSPEC)
		skb->cb[NOTE] = NOTE_DONE(number);
	return action;
}

/* The rules for the packet's destination by prefix, those for all destinations among them. */
static __always_inline const struct bitmap *by_prefix(const struct chain *chain, __u64 id,
						      const struct packet *packet)
{
	const struct bitmap *found = NULL;
	if (packet->is_ipv6 && chain->flags & CHAIN_BLOCKS6) {
		struct block6 key = { .prefix_length = 64 + 128 };
		__builtin_memcpy(key.chain, &id, sizeof(id));
		__builtin_memcpy(key.address, packet->destination, 16);
		found = bpf_map_lookup_elem(&blocks6, &key);
	} else if (!packet->is_ipv6 && chain->flags & CHAIN_BLOCKS4) {
		struct block4 key = { .prefix_length = 64 + 32 };
		__builtin_memcpy(key.chain, &id, sizeof(id));
		__builtin_memcpy(key.address, packet->destination + 12, 4);
		found = bpf_map_lookup_elem(&blocks4, &key);
	}
	return found ?: &chain->anywhere;
}

/* The rules for the peer sets that the destination belongs to; NULL where there are none. */
static __always_inline const struct bitmap *by_class(const struct chain *chain, __u64 id,
						     __u32 network, const struct packet *packet)
{
	if (!(chain->flags & CHAIN_SETS))
		return NULL;
	void *peers = FIND(&networks, &network);
	if (!peers)
		return NULL;
	/* On the stack, where verifiers before 6.2 want a key. */
	struct peer peer;
	__builtin_memcpy(peer.address, packet->destination, sizeof(peer.address));
	__u64 *class = FIND(peers, &peer);
	if (!class)
		return NULL;
	struct class_key key = { .chain = id, .class = *class };
	return bpf_map_lookup_elem(&classes, &key);
}

static __always_inline const struct bitmap *by_port(const struct chain *chain, __u64 id,
						    const struct packet *packet)
{
	if (!(chain->flags & CHAIN_PORTS) || !has_ports(packet->protocol))
		return &chain->portless;
	struct port_key key = {
		.chain = id,
		.port = packet->port,
		.protocol = packet->protocol,
	};
	const struct bitmap *found = bpf_map_lookup_elem(&ports, &key);
	if (found)
		return found;
	key.port = 0;
	return (const struct bitmap *)bpf_map_lookup_elem(&ports, &key) ?: &chain->portless;
}

/* The number of the lowest bit that is set: the bits below it are counted, since a branch for each
 * half would be a branch for the verifier to follow. */
static __always_inline __u32 first_bit(__u64 word)
{
	__u64 below = (word & -word) - 1;
	below -= below >> 1 & 0x5555555555555555ULL;
	below = (below & 0x3333333333333333ULL) + (below >> 2 & 0x3333333333333333ULL);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return below * 0x0101010101010101ULL >> 56;
}

/* Which rules of a chain a packet is for: the one that wins, and 16 bits higher the one that would
 * if it were not in shadow mode. */
#define VERDICT(winner, shadow) ((winner) | (shadow) << 16)
#define WINNER(verdict) ((verdict) & 0xffff)
#define SHADOW(verdict) ((__u32)(verdict) >> 16)
#define NO_RULE CHAIN_RULES
/* In place of a rule: the backends of a Service differ in it. */
#define UNDECIDED 0x7fff
/* The rule that would win if those in shadow mode were enforced: they stand before the winner. */
#define FIRST(verdict) (SHADOW(verdict) < WINNER(verdict) ? SHADOW(verdict) : WINNER(verdict))

/* All bits where a word has any, else none: without a branch, as in first_bit. */
static __always_inline __u64 any_bit(__u64 word)
{
	__u64 sign = word | -word;
	/* Or clang makes a branch of it. */
	asm volatile("" : "+r"(sign));
	return (__s64)sign >> 63;
}

/* The first rules for a destination and a port. */
static __always_inline int first_of(const struct chain *chain, const struct bitmap *prefixes,
				    const struct bitmap *class, const struct bitmap *port)
{
	__u64 winner = NO_RULE, shadows = NO_RULE, has_shadow = 0;
	for (__u32 i = 0; i < CHAIN_WORDS; i++) {
		if (i >= chain->words)
			break;
		__u64 match = (prefixes->words[i] | class->words[i]) & port->words[i];
		__u64 enforced = match & ~chain->shadow.words[i];
		/* Only what stands before the winner would win in its place. */
		__u64 shadow = match & chain->shadow.words[i] & ((enforced & -enforced) - 1);
		__u64 is_first = any_bit(shadow) & ~has_shadow;
		shadows = (shadows & ~is_first) | ((i * 64 + first_bit(shadow)) & is_first);
		has_shadow |= is_first;
		if (enforced) {
			winner = i * 64 + first_bit(enforced);
			break;
		}
	}
	return VERDICT(winner, shadows);
}

/* Which rules the packet is for. (Not static: see sight.h.) */
__noinline int classify(void)
{
	struct sight *sight = the_sight();
	if (!sight)
		return VERDICT(NO_RULE, NO_RULE);
	const struct packet *packet = &sight->packet;
	__u64 id = sight->endpoint.chain;
	struct chain *chain = bpf_map_lookup_elem(&chains, &id);
	if (!chain)
		return VERDICT(NO_RULE, NO_RULE);
	const struct bitmap *prefixes = by_prefix(chain, id, packet);
	const struct bitmap *class = by_class(chain, id, sight->endpoint.network, packet);
	return first_of(chain, prefixes, class ?: prefixes, by_port(chain, id, packet));
}

/* True where backends differ in any part of it. */
static __always_inline bool is_undecided(int verdict)
{
	return WINNER(verdict) == UNDECIDED || SHADOW(verdict) == UNDECIDED;
}

/* The first verdict, and for what is undecided in it the other. */
static __always_inline int decide(int verdict, int other)
{
	__u32 winner = WINNER(verdict) == UNDECIDED ? WINNER(other) : WINNER(verdict);
	__u32 shadow = SHADOW(verdict) == UNDECIDED ? SHADOW(other) : SHADOW(verdict);
	/* One behind the winner would not win if it were enforced. */
	return VERDICT(winner, shadow < winner ? shadow : NO_RULE);
}

#define NO_SERVICE -1
/* What a packet to a Service would meet whichever backend it goes to, UNDECIDED where that is not the
 * same: of the winner and of the rule in shadow mode by itself, which so never alters the winner.
 * NO_SERVICE of any other packet. (Not static: see sight.h.) */
__noinline int classify_backends(void)
{
	struct sight *sight = the_sight();
	if (!sight)
		return NO_SERVICE;
	struct packet *packet = &sight->packet, whole = *packet;
	struct service_key key = { .port = packet->port, .protocol = packet->protocol };
	__builtin_memcpy(key.address, packet->destination, 16);
	struct service *service = FIND(&services, &key);
	if (!service)
		return NO_SERVICE;
	if (!service->count) {
		struct chain_service_key own = { .chain = sight->endpoint.chain, .service = key };
		service = FIND(&chain_services, &own);
	}
	__u32 winner = UNDECIDED, shadow = UNDECIDED, first = UNDECIDED;
	if (!service)
		return VERDICT(winner, shadow);
	for (__u32 i = 0; i < SERVICE_KINDS; i++) {
		if (i >= service->count)
			break;
		__builtin_memcpy(packet->destination, service->kinds[i].address, 16);
		packet->port = service->kinds[i].port;
		int verdict = classify();
		if (!i) {
			winner = WINNER(verdict);
			shadow = SHADOW(verdict);
			first = FIRST(verdict);
			continue;
		}
		if (winner != WINNER(verdict))
			winner = UNDECIDED;
		if (first != FIRST(verdict))
			shadow = UNDECIDED;
		if (winner == UNDECIDED && shadow == UNDECIDED)
			break;
	}
	*packet = whole;
	return VERDICT(winner, shadow);
}

static __always_inline struct counter *counter_of(__u32 number, __u64 rule)
{
	struct counter_key key = { .rule = rule, .endpoint = number };
	struct counter *counter = bpf_map_lookup_elem(&counters, &key);
	if (counter)
		return counter;
	struct counter fresh = {};
	bpf_map_update_elem(&counters, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&counters, &key);
}

/* Ranks and admits a packet by a rule's meter, of which each pod has its share. */
static __always_inline int meter(struct __sk_buff *skb, __u64 length, __u32 id, __u32 number)
{
	struct crowd *crowd = FIND(&crowds, &id);
	struct share_key key = { .meter = id, .endpoint = number };
	struct share *share = bpf_map_lookup_elem(&shares, &key);
	if (!share) {
		struct share fresh = {};
		bpf_map_update_elem(&shares, &key, &fresh, BPF_NOEXIST);
		share = bpf_map_lookup_elem(&shares, &key);
	}
	return rank(skb, length, id, crowd, share);
}

/* Does what a rule of the chain says that the packet was classified by: the endpoint may have another by
 * now. A rule in shadow mode only counts. (Not static: see sight.h.) */
__noinline int enforce(struct __sk_buff *skb, __u32 index)
{
	struct sight *sight = the_sight();
	if (!sight)
		return TC_ACT_UNSPEC;
	const struct packet *packet = &sight->packet;
	__u32 endpoint = sight->number;
	struct rule_key key = { .chain = sight->endpoint.chain, .index = index };
	struct rule *rule = FIND(&rules, &key);
	if (!rule)
		return TC_ACT_UNSPEC;
	bool shadow = rule->flags & RULE_SHADOW;
	bool queues = rule->queue && sight->endpoint.flags & ENDPOINT_QUEUES && !shadow;
	__u64 length = length_on_wire(skb, packet);
	__u32 priority = skb->priority;
	int action = TC_ACT_UNSPEC;

	if (rule->meter) {
		action = meter(skb, length, rule->meter, endpoint);
		/* The band is for the rule's own queue. */
		if (!queues)
			skb->priority = priority;
	}
	struct counter *counter = counter_of(endpoint, rule->number);
	if (counter) {
		counter->packets++;
		counter->bytes += length;
		if (action == TC_ACT_SHOT) {
			counter->dropped_packets++;
			counter->dropped_bytes += length;
		} else if (rule->flags & RULE_MARKS) {
			counter->marked++;
		}
	}
	if (shadow)
		return TC_ACT_UNSPEC;
	if (action == TC_ACT_SHOT)
		return action;
	if (rule->flags & RULE_MARKS)
		write_dscp(skb, packet, rule->dscp);
	if (!queues)
		return action;
	skb->mark = MARK_MAGIC | endpoint;
	return bpf_redirect(rule->queue, 0);
}

/* Does what the rules say that a packet is for. */
static __always_inline int judge(struct __sk_buff *skb, int verdict)
{
	if (SHADOW(verdict) < NO_RULE)
		enforce(skb, SHADOW(verdict));
	if (WINNER(verdict) >= NO_RULE)
		return TC_ACT_UNSPEC;
	return enforce(skb, WINNER(verdict));
}

/* Goes on to the program that asks conntrack; comes back where there is none. */
static __always_inline void ask_conntrack(struct __sk_buff *skb, __u32 number,
					  const struct packet *packet)
{
	__u32 zero = 0;
	struct asked *asked = bpf_map_lookup_elem(&lookups, &zero);
	if (!asked)
		return;
	struct lookup *lookup = &asked->lookup;
	/* Both addresses, and after them both ports. */
	if (packet->is_ipv6) {
		__u32 source = packet->network + offsetof(struct ipv6hdr, saddr);
		if (bpf_skb_load_bytes(skb, source, lookup->tuple, 32) ||
		    bpf_skb_load_bytes(skb, packet->transport, lookup->tuple + 32, 4))
			return;
	} else {
		__u32 source = packet->network + offsetof(struct iphdr, saddr);
		if (bpf_skb_load_bytes(skb, source, lookup->tuple, 8) ||
		    bpf_skb_load_bytes(skb, packet->transport, lookup->tuple + 8, 4))
			return;
	}
	lookup->protocol = packet->protocol;
	lookup->is_ipv6 = packet->is_ipv6;
	lookup->is_known = 0;
	asked->packet = *packet;
	asked->endpoint = number;
	bpf_tail_call(skb, &stages, STAGE_LOOKUP);
}

static __always_inline int apply(struct __sk_buff *skb, __u32 number)
{
	struct endpoint *found = FIND(&endpoints, &number);
	if (!found || is_done(skb, number))
		return TC_ACT_UNSPEC;
	if (found->flags & ENDPOINT_QUEUES && skb->mark == (MARK_MAGIC | number)) {
		/* The second pass: it has been through its rule's queue. */
		skb->mark = 0;
		skb->priority = 0;
		return TC_ACT_UNSPEC;
	}
	struct sight *sight = the_sight();
	if (!sight)
		return TC_ACT_UNSPEC;
	sight->endpoint = *found;
	sight->number = number;
	if (!read(skb))
		return TC_ACT_UNSPEC;

	int verdict = NO_SERVICE;
	if (sight->endpoint.flags & ENDPOINT_SERVICES && sight->packet.port)
		verdict = classify_backends();
	if (verdict == NO_SERVICE)
		verdict = VERDICT(UNDECIDED, UNDECIDED);
	else if (is_undecided(verdict) && NETQOS_ASKS_CONNTRACK)
		ask_conntrack(skb, number, &sight->packet);
	if (is_undecided(verdict))
		verdict = decide(verdict, classify());
	return judge(skb, verdict);
}

/* On a clsact hook: the filter's class id says which endpoint. */
SEC("classifier")
int netqos_rules(struct __sk_buff *skb)
{
	__u32 number = skb->tc_classid;
	return done(skb, number, apply(skb, number));
}

/* On a tcx hook: see netqos_rank_tcx. */
SEC("classifier")
int netqos_rules_tcx(struct __sk_buff *skb)
{
	__u32 number = skb->cb[0];
	skb->cb[0] = 0;
	return done(skb, number, apply(skb, number));
}

/* Behind the program that asks conntrack. A connection that it does not know yet counts as one to
 * the Service itself. */
SEC("classifier")
int netqos_rules_known(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct asked *asked = bpf_map_lookup_elem(&lookups, &zero);
	if (!asked)
		return TC_ACT_UNSPEC;
	__u32 number = asked->endpoint;
	struct endpoint *found = FIND(&endpoints, &number);
	if (!found)
		return TC_ACT_UNSPEC;
	struct sight *sight = the_sight();
	if (!sight)
		return TC_ACT_UNSPEC;
	sight->endpoint = *found;
	sight->number = number;
	struct packet *packet = &sight->packet;
	*packet = asked->packet;
	/* Once more: in which part the backends differ. */
	int verdict = classify_backends();
	if (verdict == NO_SERVICE)
		verdict = VERDICT(UNDECIDED, UNDECIDED);
	if (asked->lookup.is_known) {
		if (packet->is_ipv6)
			__builtin_memcpy(packet->destination, asked->lookup.address, 16);
		else
			__builtin_memcpy(packet->destination + 12, asked->lookup.address, 4);
		packet->port = asked->lookup.port;
	}
	return done(skb, number, judge(skb, decide(verdict, classify())));
}

/* Behind a rule's queue: back to the interface that the packet came from. */
SEC("classifier")
int netqos_return(struct __sk_buff *skb)
{
	__u32 number = skb->mark & ~MARK_MAGIC_BITS;
	if ((skb->mark & MARK_MAGIC_BITS) != MARK_MAGIC)
		return TC_ACT_SHOT;
	struct endpoint *endpoint = FIND(&endpoints, &number);
	if (!endpoint || !endpoint->ifindex)
		return TC_ACT_SHOT;
	return bpf_redirect(endpoint->ifindex, BPF_F_INGRESS);
}

char LICENSE[] SEC("license") = "GPL";
