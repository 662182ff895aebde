// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Other people's programs, as network policy engines put them on pods' links: each counts what it
 * sees, and says what its name says. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

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

char LICENSE[] SEC("license") = "GPL";
