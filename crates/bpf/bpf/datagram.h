/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Datagrams larger than a frame: IP sends them in fragments, and without one of these the receiver drops all others.
 */
#pragma once

#include "flows.h"
#include "packet.h"

/* A whole IP packet of 65,535 bytes and the headers of its fragments, less what any bound has room for. */
#define LARGE_DATAGRAM 66000
/* A limiter has 16 bits for the room that is left. */
#define ROOM_UNIT 4

/* A datagram may exceed the bound if a fragment of it comes when no more bytes wait than these: they are those of a
 * question or an acknowledgement or two, and less than a fragment of IPv6. */
#define NEXT_TO_NOTHING 1000

#define FRAGMENT 0x80000000u
#define IPV4_MORE_FRAGMENTS 0x2000

/* Which datagram a packet is a fragment of: FRAGMENT, and 16 bits of its number, which its sender chooses. 0 of a whole
 * packet, and of IPv6 with other headers before that of a fragment. A function by itself, which the verifier follows once.
 */
__noinline __u32 fragment_of(struct __sk_buff *skb)
{
	struct {
		__be16 number, offset;
	} ip4;
	struct {
		__u8 next_header, reserved;
		__be16 offset;
		__u32 number;
	} ip6;
	__u8 next_header;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (!read_ip(skb, ETH_P_IP, offsetof(struct iphdr, id), &ip4, sizeof(ip4)) ||
		    !(ip4.offset & bpf_htons(IPV4_MORE_FRAGMENTS | IPV4_FRAGMENT_OFFSET)))
			return 0;
		return FRAGMENT | ip4.number;
	}
	if (skb->protocol != bpf_htons(ETH_P_IPV6) ||
	    !read_ip(skb, ETH_P_IPV6, offsetof(struct ipv6hdr, nexthdr), &next_header, 1) ||
	    next_header != EXTENSION_FRAGMENT ||
	    !read_ip(skb, ETH_P_IPV6, sizeof(struct ipv6hdr), &ip6, sizeof(ip6)))
		return 0;
	return FRAGMENT | (scatter(ip6.number, 0) & 0xffff);
}
