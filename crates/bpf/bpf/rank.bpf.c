// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Stands at the egress hook of a link that carries a pod's limit, in front of its queue.
 *
 * The limit itself is TBF's. When this program does not run (a foreign program before it ended the
 * chain), the limit still holds, and what is lost is the ranking and the bound in time.
 *
 * It never takes a packet away from other programs: what is not dropped goes on to the next.
 */
#include "rank.h"

/* The program that programs on tcx hooks go on to. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} ranks SEC(".maps");

/* On a clsact hook: the filter's class id says which limiter. */
SEC("classifier")
int netqos_rank(struct __sk_buff *skb)
{
	return rank(skb, length_at_egress(skb), skb->tc_classid, 0, 0);
}

/* On a tcx hook, which has no argument: a short program on each hook writes the
 * limiter's number to the packet's scratch space and goes on to this one (src/tcx.rs). */
SEC("classifier")
int netqos_rank_tcx(struct __sk_buff *skb)
{
	__u32 id = skb->cb[0];
	skb->cb[0] = 0;
	return rank(skb, length_at_egress(skb), id, 0, 0);
}

char LICENSE[] SEC("license") = "GPL";
