/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Chooses the leaf of a line's tree that a packet waits in.
 *
 *   netqos_stamp           host's end of a pod's veth, ingress   tc_index says which pod, and flow
 *   netqos_choose          line, tcx egress                      the class is in skb->priority
 *   netqos_class_egress    filter of the line's HTB              the class is the answer; of what did
 *                                                                not pass netqos_choose
 *   netqos_class_ingress   line, ingress, before the ifb         the class is in skb->priority
 *
 * Whose a packet is, is known
 *   on its way out by the stamp, which bridges, forwarding, masquerading and tunnels leave in place;
 *   by its source address; or, of sockets of the host, by the cgroup;
 *   on its way in by its destination address, in a tunnel by the inner one; or by the connection, of
 *   which a packet went out before.
 * What is nobody's is the system's, but for WireGuard's packets, whose class is configured.
 */
#include <linux/bpf.h>

#include "classes.h"
#include "classes_maps.h"
#include "flows.h"
#include "idle.h"
#include "leaves.h"
#include "packet.h"

#include <linux/pkt_cls.h>

#ifndef TC_ACT_UNSPEC
#define TC_ACT_UNSPEC (-1)
#endif

/* Both ends of a packet. */
struct ends {
	__u8 source[16]; /* IPv4 as IPv4-mapped */
	__be16 source_port;
};

struct sight {
	struct packet packet;
	struct ends ends;
};

#include "sight.h"
#include "tunnels.h"

static __always_inline void read_ends(struct __sk_buff *skb, const struct packet *packet,
				      struct ends *ends)
{
	if (packet->is_ipv6) {
		bpf_skb_load_bytes(skb, packet->network + offsetof(struct ipv6hdr, saddr),
				   ends->source, 16);
	} else {
		__builtin_memset(ends->source, 0, 10);
		ends->source[10] = ends->source[11] = 0xff;
		bpf_skb_load_bytes(skb, packet->network + offsetof(struct iphdr, saddr),
				   ends->source + 12, 4);
	}
	ends->source_port = 0;
	if (packet->transport && has_ports(packet->protocol))
		bpf_skb_load_bytes(skb, packet->transport, &ends->source_port, 2);
}

/* Reads the packet and its ends; 0 when it is not IP, or cut off. */
__noinline int read(struct __sk_buff *skb)
{
	struct sight *sight = the_sight();
	if (!sight || !read_packet(skb, &sight->packet))
		return 0;
	read_ends(skb, &sight->packet, &sight->ends);
	return 1;
}

/* The same, where it says what was read. */
static __always_inline struct sight *look(struct __sk_buff *skb)
{
	struct sight *sight = the_sight();
	return sight && read(skb) ? sight : NULL;
}

static __always_inline __u32 pod_at(const __u8 *address)
{
	/* On the stack, where verifiers before 6.2 want a key. */
	struct address key;
	__builtin_memcpy(key.bytes, address, sizeof(key.bytes));
	__u32 *pod = FIND(&addresses, &key);
	return pod ? *pod : 0;
}

static __always_inline struct class_settings *our_settings(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&settings, &zero);
}

/* ------------------------------------------------------------------ which slot of a pod */

/* Without a loop over bytes, each of which would be a branch for the verifier to follow. */
static __always_inline bool is_in(const __u8 *address, const __u8 *prefix, __u32 bits)
{
	__be64 ours[2], theirs[2];
	__builtin_memcpy(ours, address, sizeof(ours));
	__builtin_memcpy(theirs, prefix, sizeof(theirs));
	__u64 high = bpf_be64_to_cpu(ours[0] ^ theirs[0]), low = bpf_be64_to_cpu(ours[1] ^ theirs[1]);
	/* In two steps, since a word cannot be shifted by all of its 64 bits. */
	if (bits < 64)
		return !(high >> 1 >> (63 - bits));
	return !high && (bits >= 128 ? !low : !(low >> 1 >> (127 - bits)));
}

static __always_inline __u8 read_dscp(struct __sk_buff *skb, const struct packet *packet)
{
	__be16 first = 0;
	bpf_skb_load_bytes(skb, packet->network, &first, sizeof(first));
	return packet->is_ipv6 ? (bpf_ntohs(first) >> 6) & 0x3f : (bpf_ntohs(first) >> 2) & 0x3f;
}

static __always_inline bool is_flow(struct __sk_buff *skb, const struct class_flow *flow, __u32 way,
				    const struct packet *packet, const struct ends *ends)
{
	if (flow->way != way)
		return false;
	if (flow->flags & FLOW_PEER) {
		const __u8 *peer = way == EGRESS ? packet->destination : ends->source;
		if (!is_in(peer, flow->peer, flow->peer_bits))
			return false;
	}
	if (flow->flags & FLOW_PORT) {
		__u16 port = bpf_ntohs(way == EGRESS ? ends->source_port : packet->port);
		if (!port || port < flow->port_first || port > flow->port_last)
			return false;
	}
	return !(flow->flags & FLOW_DSCP) || read_dscp(skb, packet) == flow->dscp;
}

/* Which of its flows a pod's packet is of, from 0; -1: of none. (Not static: see sight.h.) */
__noinline int flow_of(struct __sk_buff *skb, __u32 pod, __u32 way)
{
	struct sight *sight = the_sight();
	if (!sight)
		return -1;
	for (__u32 i = 0; i < MOST_POD_FLOWS; i++) {
		struct class_flow_key key = {.pod = pod, .index = i};
		struct class_flow *flow = FIND(&pod_flows, &key);
		if (!flow)
			return -1;
		if (is_flow(skb, flow, way, &sight->packet, &sight->ends))
			return i;
	}
	return -1;
}

static __noinline int mark(struct __sk_buff *skb, __u8 dscp)
{
	struct sight *sight = look(skb);
	if (sight)
		write_dscp(skb, &sight->packet, dscp);
	return 0;
}

static __always_inline struct class_pod *pod_of(__u32 number)
{
	struct class_pod *pod = number ? bpf_map_lookup_elem(&pods, &number) : NULL;
	return pod && pod->is_known ? pod : NULL;
}

/* The slot of a pod's packet that is of this flow; marks it, where its flow is to be. */
static __always_inline __u32 slot_in(struct __sk_buff *skb, const struct class_pod *pod,
				     __u32 number, int index, __u32 way)
{
	struct class_flow_key key = {.pod = number, .index = index};
	struct class_flow *flow = index < 0 ? NULL : FIND(&pod_flows, &key);
	if (!flow)
		return pod->slot[way & 1];
	if (flow->flags & FLOW_MARKS)
		mark(skb, flow->mark);
	return flow->slot;
}

/* The slot of the packet that was read. */
static __always_inline __u32 slot_of(struct __sk_buff *skb, __u32 number, __u32 way)
{
	struct class_pod *pod = pod_of(number);
	if (!pod)
		return SLOT_SYSTEM;
	int index = pod->flows ? flow_of(skb, number, way) : -1;
	return slot_in(skb, pod, number, index, way);
}

/* ------------------------------------------------------------------ without reading a packet */

/* The IP header, where it follows Ethernet's and is at hand. Most are, and cost no call then. */
static __always_inline const struct iphdr *plain_ipv4(struct __sk_buff *skb)
{
	const struct iphdr *ip = (void *)(long)skb->data + ETH_HLEN;
	bool is_there = (void *)(ip + 1) <= (void *)(long)skb->data_end;
	return is_there && skb->protocol == bpf_htons(ETH_P_IP) ? ip : NULL;
}

static __always_inline const struct ipv6hdr *plain_ipv6(struct __sk_buff *skb)
{
	const struct ipv6hdr *ip = (void *)(long)skb->data + ETH_HLEN;
	bool is_there = (void *)(ip + 1) <= (void *)(long)skb->data_end;
	return is_there && skb->protocol == bpf_htons(ETH_P_IPV6) ? ip : NULL;
}

static __always_inline bool is_same(const __be32 *a, const __be32 *b)
{
	return !((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]));
}

/* True of what a pod sends by the address that it is known to have: nobody has masqueraded it. */
static __always_inline bool is_from(struct __sk_buff *skb, const struct class_pod *pod)
{
	const struct iphdr *ip = plain_ipv4(skb);
	if (ip)
		return ip->saddr == pod->address;
	const struct ipv6hdr *ip6 = plain_ipv6(skb);
	return ip6 && is_same(ip6->saddr.in6_u.u6_addr32, pod->address6);
}

/* ------------------------------------------------------------------ whose a packet is */

/* The number of a packet's flow from 1, 0 of none, as the pod has sent it: before it is masqueraded, or in
 * a tunnel. */
static __noinline __u32 flow_at_pod(struct __sk_buff *skb, __u32 pod)
{
	return read(skb) ? flow_of(skb, pod, EGRESS) + 1 : 0;
}

/* On the host's end of a pod's interface, as it comes from the pod. */
SEC("classifier")
int netqos_stamp(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	__u32 *link = FIND(&links, &ifindex);
	__u32 pod = link ? *link & STAMP_POD : 0;
	__u32 flow = link && *link & LINK_FLOWS ? flow_at_pod(skb, pod) : 0;
	skb->tc_index = pod ? STAMP | flow << STAMP_FLOW_SHIFT | pod : 0;
	return TC_ACT_UNSPEC;
}

static __always_inline __u32 pod_of_cgroup(__u64 id)
{
	__u32 *pod = id ? FIND(&cgroups, &id) : NULL;
	return pod ? *pod : 0;
}

/* A socket of the host, by the cgroup that it is in: by net_cls where the host has that, else by the
 * cgroup above it that is a pod's. */
static __always_inline __u32 pod_of_sender(struct __sk_buff *skb, __u32 levels)
{
	__u32 class = bpf_skb_cgroup_classid(skb);
	if ((class & 0xffff0000) == CGROUP_CLASS)
		return class & 0x7fff;
	for (int level = 0; level < MOST_CGROUP_LEVELS; level++) {
		if (!(levels & 1u << level))
			continue;
		__u32 pod = pod_of_cgroup(bpf_skb_ancestor_cgroup_id(skb, level));
		if (pod)
			return pod;
	}
	return 0;
}

static __always_inline void remember(const struct packet *packet, const struct ends *ends, __u32 pod)
{
	struct class_tuple tuple = {
		.local_port = ends->source_port,
		.remote_port = packet->port,
		.protocol = packet->protocol,
	};
	__builtin_memcpy(tuple.local, ends->source, 16);
	__builtin_memcpy(tuple.remote, packet->destination, 16);
	__u32 *known = bpf_map_lookup_elem(&tuples, &tuple);
	if (!known || *known != pod)
		bpf_map_update_elem(&tuples, &tuple, &pod, BPF_ANY);
}

/* What comes back of a connection that is not from an address of a pod's is known by the connection. */
static __noinline int remember_sender(struct __sk_buff *skb, __u32 pod)
{
	struct sight *sight = look(skb);
	if (sight && sight->packet.transport && !pod_at(sight->ends.source))
		remember(&sight->packet, &sight->ends, pod);
	return 0;
}

/* A masqueraded connection of a pod is remembered once in an epoch, and not with each packet. */
static __always_inline void remember_once(struct __sk_buff *skb, __u32 pod, const struct debts *of)
{
	__u32 epoch = of->now >> EPOCH_SHIFT;
	__u32 told = scatter(of->hash, pod) | 1;
	if (of->a->epoch == epoch && of->a->told == told)
		return;
	remember_sender(skb, pod);
	of->a->told = told;
}

/* The slot of what has no stamp: by its address, or by its socket. */
static __noinline __u32 slot_of_sender(struct __sk_buff *skb)
{
	struct class_settings *settings = our_settings();
	struct sight *sight = look(skb);
	if (!settings || !sight)
		return SLOT_SYSTEM;
	__u32 pod = pod_at(sight->ends.source);
	if (!pod) {
		pod = pod_of_sender(skb, settings->cgroup_levels);
		if (pod && sight->packet.transport)
			remember(&sight->packet, &sight->ends, pod);
	}
	return pod ? slot_of(skb, pod, EGRESS)
		   : slot_of_node(settings, &sight->packet, sight->ends.source_port);
}

/* The leaf of a packet that is going out by the line, or PAST; NOWHERE where the line has no tree. */
static __always_inline __u32 leaf_at_egress(struct __sk_buff *skb)
{
	__u32 stamp = skb->tc_index & STAMP ? skb->tc_index & ~STAMP : 0;
	__u32 number = stamp & STAMP_POD;
	struct class_pod *pod = pod_of(number);
	bool is_masqueraded = pod && !is_from(skb, pod);
	int flow = (stamp >> STAMP_FLOW_SHIFT) - 1;
	__u32 slot = pod ? slot_in(skb, pod, number, flow, EGRESS) : slot_of_sender(skb);
	__u32 tree = TREE(skb->ifindex, EGRESS);
	int near = near_tree(tree);
	struct class_leaf *leaf = leaf_of(tree, near, &slot);
	__u64 length = length_at_egress(skb);
	bool is_past = leaf && passes(skb, near, leaf, length);
	struct debts of = {};
	bool has_debts = leaf && (!is_past || is_masqueraded) &&
			 find_debts(skb, slot, EGRESS, &of);
	if (has_debts && is_masqueraded)
		remember_once(skb, number, &of);
	if (is_past)
		return PAST;
	if (!leaf)
		return NOWHERE;
	bool little = has_debts && takes_little(skb, &of, leaf, length);
	return little ? LEAF_QUICK(slot) : LEAF_BULK(slot);
}

/* A filter of the line's tree: the answer is the class. */
SEC("classifier")
int netqos_class_egress(struct __sk_buff *skb)
{
	__u32 leaf = leaf_at_egress(skb);
	skb->tc_classid = leaf == NOWHERE ? LEAF_BULK(SLOT_SYSTEM) : leaf;
	return TC_ACT_OK;
}

/* The line's tcx egress, before its tree and without the lock of that, which asks no filter about what
 * has one of its classes as priority. Whatever the sender has put there counts for nothing. */
SEC("classifier")
int netqos_choose(struct __sk_buff *skb)
{
	__u32 leaf = leaf_at_egress(skb);
	if (leaf != NOWHERE)
		skb->priority = EGRESS_MAJOR | leaf;
	return TC_ACT_UNSPEC;
}

/* The pod that a packet in a tunnel is for. One tunnel is opened, and none in it. */
static __always_inline __u32 pod_in_tunnel(struct __sk_buff *skb, const struct packet *outer,
					   const struct class_settings *settings)
{
	__u8 address[16] = {};
	struct inner inner = inner_of(skb, outer, settings);
	return inner.network && read_destination(skb, &inner, address) ? pod_at(address) : 0;
}

static __always_inline __u32 pod_of_connection(const struct packet *packet, const struct ends *ends)
{
	struct class_tuple tuple = {
		.local_port = packet->port,
		.remote_port = ends->source_port,
		.protocol = packet->protocol,
	};
	__builtin_memcpy(tuple.local, packet->destination, 16);
	__builtin_memcpy(tuple.remote, ends->source, 16);
	__u32 *pod = bpf_map_lookup_elem(&tuples, &tuple);
	return pod ? *pod : 0;
}

/* Whose a packet that comes in is by all that can be known of it: its slot, and its length. */
static __noinline __u32 slot_of_receiver(struct __sk_buff *skb, __u64 *length)
{
	struct class_settings *settings = our_settings();
	struct sight *sight = look(skb);
	if (!settings || !sight)
		return SLOT_SYSTEM;
	*length = length_on_wire(skb, &sight->packet);
	__u32 pod = pod_at(sight->packet.destination);
	if (!pod) {
		pod = pod_in_tunnel(skb, &sight->packet, settings);
		/* What is in there is not told apart. */
		struct class_pod *whole = pod_of(pod);
		if (whole)
			return whole->slot[INGRESS];
	}
	if (!pod)
		pod = pod_of_connection(&sight->packet, &sight->ends);
	return pod ? slot_of(skb, pod, INGRESS)
		   : slot_of_node(settings, &sight->packet, sight->packet.port);
}

/* The number of the pod whose address a plain packet is for; 0 of any other packet. */
static __always_inline __u32 pod_of_plain(struct __sk_buff *skb)
{
	struct address to = {};
	const struct iphdr *ip = plain_ipv4(skb);
	const struct ipv6hdr *ip6 = plain_ipv6(skb);
	if (ip) {
		to.bytes[10] = to.bytes[11] = 0xff;
		__builtin_memcpy(to.bytes + 12, &ip->daddr, 4);
	} else if (ip6) {
		__builtin_memcpy(to.bytes, &ip6->daddr, 16);
	} else {
		return 0;
	}
	return pod_at(to.bytes);
}

/* On the line, as it comes in: every packet that is divided goes on to the ifb. */
SEC("classifier")
int netqos_class_ingress(struct __sk_buff *skb)
{
	__u32 number = pod_of_plain(skb);
	struct class_pod *pod = pod_of(number);
	bool is_one = pod && !pod->flows && !skb->gso_size;
	__u64 length = skb->len;
	__u32 slot = is_one ? pod->slot[INGRESS] : slot_of_receiver(skb, &length);
	__u32 tree = TREE(skb->ifindex, INGRESS);
	int near = near_tree(tree);
	struct class_leaf *leaf = leaf_of(tree, near, &slot);
	if (leaf && passes(skb, near, leaf, length))
		return 0;
	struct debts of = {};
	bool little = leaf && find_debts(skb, slot, INGRESS, &of) &&
		      takes_little(skb, &of, leaf, length);
	skb->priority = INGRESS_MAJOR | (little ? LEAF_QUICK(slot) : LEAF_BULK(slot));
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
