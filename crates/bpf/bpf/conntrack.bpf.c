/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Asks conntrack where a connection to a Service goes. Rules tail-call it; it tail-calls netqos_rules_known.
 *
 * It calls two functions of the kernel (kfuncs, Linux 5.18) and reads struct nf_conn. The numbers of the
 * functions and the layout of the structure differ from kernel to kernel, and may be those of a module.
 * Therefore the loader (src/rules/conntrack.rs) replaces the numbers below in the loaded program.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include "rules_maps.h"

#define KFUNC_LOOKUP 0x4e510001
#define KFUNC_RELEASE 0x4e510002
#define OFFSET_ADDRESS 0x4e510003
#define OFFSET_PORT 0x4e510004

/* An offset in struct nf_conn: a constant that the compiler cannot see. */
#define OFFSET(placeholder)                                                         \
	({                                                                          \
		__u64 offset;                                                       \
		asm volatile("%0 = %1" : "=r"(offset) : "i"(placeholder));          \
		offset;                                                             \
	})

/* struct bpf_ct_opts of net/netfilter/nf_conntrack_bpf.c, as Linux 5.18 has it. */
struct ct_options {
	__s32 network_namespace;
	__s32 error;
	__u8 protocol;
	__u8 direction; /* set by the kernel: 0 is that of the connection's first packet, 1 that of replies */
	__u8 reserved[2];
};
#define CURRENT_NAMESPACE (-1)

struct nf_conn;
static const struct nf_conn *(*bpf_skb_ct_lookup)(struct __sk_buff *skb, const void *tuple, __u32 tuple_size,
						  struct ct_options *options, __u32 options_size) =
	(void *)KFUNC_LOOKUP;
static void (*bpf_ct_release)(const struct nf_conn *connection) = (void *)KFUNC_RELEASE;

/* Whoever replies is who the connection goes to. A reply itself goes to no Service. The lookup is in the
 * namespace of the interface and in conntrack's default zone, where kube-proxy's rules are. */
SEC("classifier")
int netqos_lookup(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct asked *asked = bpf_map_lookup_elem(&lookups, &zero);
	if (!asked)
		return TC_ACT_UNSPEC;
	struct lookup *lookup = &asked->lookup;
	struct ct_options options = { .network_namespace = CURRENT_NAMESPACE, .protocol = lookup->protocol };
	struct bpf_sock_tuple *tuple = (void *)lookup->tuple;
	__u32 size = lookup->is_ipv6 ? sizeof(tuple->ipv6) : sizeof(tuple->ipv4);

	const struct nf_conn *connection = bpf_skb_ct_lookup(skb, tuple, size, &options, sizeof(options));
	if (connection) {
		if (options.direction == 0) {
			const __u32 *address = (const void *)connection + OFFSET(OFFSET_ADDRESS);
			const __u16 *port = (const void *)connection + OFFSET(OFFSET_PORT);
			__u32 *to = (__u32 *)lookup->address;
			to[0] = address[0];
			to[1] = address[1];
			to[2] = address[2];
			to[3] = address[3];
			lookup->port = *port;
			lookup->is_known = 1;
		}
		bpf_ct_release(connection);
	}
	bpf_tail_call(skb, &stages, STAGE_KNOWN);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
