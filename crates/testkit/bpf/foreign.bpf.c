// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Other people's programs, as network policy engines put them on pods' links: each counts what it
 * sees, and says what its name says. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

static __always_inline int counted(int verdict)
{
	__u32 zero = 0;
	__u64 *count = bpf_map_lookup_elem(&seen, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
	return verdict;
}

/* No packet passes. */
SEC("classifier")
int foreign_drop(struct __sk_buff *skb)
{
	return counted(TC_ACT_SHOT);
}

/* Every packet passes, and nobody behind is asked. */
SEC("classifier")
int foreign_accept(struct __sk_buff *skb)
{
	return counted(TC_ACT_OK);
}

/* Every packet goes on to whoever is behind. */
SEC("classifier")
int foreign_next(struct __sk_buff *skb)
{
	return counted(-1);
}

/* A pod on this node: the host's end of its interface, and the pod's addresses, an IPv4 address in the
 * last four bytes of the first. */
struct pod {
	__u32 host_end;
	__u8 mac[ETH_ALEN];
	__u8 unused[2];
	__u8 address[2][16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pod);
} to SEC(".maps");

static __always_inline int is_same(const __u8 *a, const __u8 *b, int length)
{
	for (int i = 0; i < length; i++)
		if (a[i] != b[i])
			return 0;
	return 1;
}

/* What is for the pod goes to the pod's end of its interface, past the host's, as from CNIs' programs. */
SEC("classifier")
int foreign_peer(struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u8 address[16];
	int at;
	struct pod *pod = bpf_map_lookup_elem(&to, &zero);
	if (!pod)
		return -1;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		at = ETH_HLEN + __builtin_offsetof(struct iphdr, daddr);
		if (bpf_skb_load_bytes(skb, at, address, 4) || !is_same(address, pod->address[0] + 12, 4))
			return -1;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		at = ETH_HLEN + __builtin_offsetof(struct ipv6hdr, daddr);
		if (bpf_skb_load_bytes(skb, at, address, 16) || !is_same(address, pod->address[1], 16))
			return -1;
	} else {
		return -1;
	}
	if (bpf_skb_store_bytes(skb, 0, pod->mac, ETH_ALEN, 0))
		return TC_ACT_SHOT;
	counted(0);
	return bpf_redirect_peer(pod->host_end, 0);
}

char LICENSE[] SEC("license") = "GPL";
