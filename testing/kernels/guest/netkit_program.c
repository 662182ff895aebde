/* Attaches a program that passes every packet to the peer of a netkit pair, as Cilium does: netkit_program HOST_END. */
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* include/uapi/linux/bpf.h. */
#define BPF_PROG_LOAD 5
#define BPF_PROG_ATTACH 8
#define BPF_PROG_TYPE_SCHED_CLS 3
#define BPF_NETKIT_PEER 55

int main(int argc, char **argv)
{
	/* r0 = NETKIT_NEXT; exit */
	static const uint64_t program[] = { 0xffffffff000000b7, 0x95 };
	struct {
		uint32_t type, instructions;
		uint64_t program, license;
		uint8_t rest[96];
	} load = { BPF_PROG_TYPE_SCHED_CLS, 2, (uintptr_t)program, (uintptr_t)"GPL", { 0 } };
	int fd = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));
	if (argc != 2 || fd < 0) {
		perror("load");
		return 1;
	}
	struct {
		uint32_t interface, program, type, flags;
		uint8_t rest[104];
	} attach = { if_nametoindex(argv[1]), fd, BPF_NETKIT_PEER, 0, { 0 } };
	if (syscall(SYS_bpf, BPF_PROG_ATTACH, &attach, sizeof(attach)) < 0) {
		perror("attach");
		return 1;
	}
	return 0;
}
