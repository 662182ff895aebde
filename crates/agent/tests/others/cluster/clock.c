/* Preloaded, it is this many seconds later than it is, by the clock on the wall and by no other. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long long *later;

__attribute__((constructor)) static void begin(void)
{
	int file = open(getenv("NETQOS_TEST_CLOCK"), O_RDONLY | O_CLOEXEC);
	void *page = mmap(NULL, sizeof(*later), PROT_READ, MAP_SHARED, file, 0);

	if (page == MAP_FAILED)
		abort();
	later = page;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int failed = syscall(SYS_clock_gettime, clock, time);

	if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		time->tv_sec += *later;
	return failed;
}
