/* What packetdrill does with a shared object: loads it, keeps time by it, sends it packets and takes those that it sends. */
#ifndef DRIVE_H
#define DRIVE_H
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <linux/capability.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <unistd.h>
#include "wire.h"

/* The interface, member by member in its order. */
struct interface {
	void *userdata;
	void (*free)(void *);
	int (*socket)(void *, int, int, int);
	int (*bind)(void *, int, const struct sockaddr *, socklen_t);
	int (*listen)(void *, int, int);
	int (*accept)(void *, int, struct sockaddr *, socklen_t *);
	int (*connect)(void *, int, const struct sockaddr *, socklen_t);
	ssize_t (*read)(void *, int, void *, size_t);
	ssize_t (*readv)(void *, int, const struct iovec *, int);
	ssize_t (*recv)(void *, int, void *, size_t, int);
	ssize_t (*recvfrom)(void *, int, void *, size_t, int, struct sockaddr *, socklen_t *);
	ssize_t (*recvmsg)(void *, int, struct msghdr *, int);
	ssize_t (*write)(void *, int, const void *, size_t);
	ssize_t (*writev)(void *, int, const struct iovec *, int);
	ssize_t (*send)(void *, int, const void *, size_t, int);
	ssize_t (*sendto)(void *, int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	ssize_t (*sendmsg)(void *, int, const struct msghdr *, int);
	int (*fcntl)(void *, int, int, ...);
	int (*ioctl)(void *, int, unsigned long, ...);
	int (*close)(void *, int);
	int (*shutdown)(void *, int, int);
	int (*getsockopt)(void *, int, int, int, void *, socklen_t *);
	int (*setsockopt)(void *, int, int, int, const void *, socklen_t);
	int (*poll)(void *, struct pollfd *, nfds_t, int);
	int (*netdev_send)(void *, const void *, size_t);
	int (*netdev_receive)(void *, void *, size_t *, long long *);
	int (*usleep)(void *, useconds_t);
	int (*gettimeofday)(void *, struct timeval *, struct timezone *);
	int (*epoll_create)(void *, int);
	int (*epoll_ctl)(void *, int, int, int, struct epoll_event *);
	int (*epoll_wait)(void *, int, struct epoll_event *, int, int);
	int (*pipe)(void *, int[2]);
	int (*splice)(void *, int, loff_t *, int, loff_t *, size_t, unsigned);
};

static struct interface so;
static void *library;
static struct world world;
static int domain;
static bool mapped;
/* The connection under test: ports, and both initial sequence numbers. Ours is near the end, so that numbers wrap. */
static uint16_t peer_port = 40000, local_port = PORT;
static uint32_t peer_isn = 0xffffff00, isn;
static struct segment got;
static long clock_reads;

#define U so.userdata

/* --- loading --- */

static void open_library(const char *path)
{
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND);
	if (!library)
		FAIL("dlopen: %s", dlerror());
}

static void init(const char *flags)
{
	void (*start)(const char *, struct interface *);

	*(void **)&start = dlsym(library, "packetdrill_interface_init");
	if (!start)
		FAIL("dlsym: %s", dlerror());
	start(flags, &so);
	for (size_t i = 1; i < sizeof so / sizeof(void *); i++)
		if (!((void **)&so)[i])
			FAIL("member %zu of the interface is NULL", i);
}

static void load(const char *mode)
{
	const char *flags;

	if (strcmp(mode, "ipv6") == 0) {
		world.v6 = 1, domain = AF_INET6;
		inet_pton(AF_INET6, "fd3d:a0b:17d6::1", world.local);
		inet_pton(AF_INET6, "fd3d:fa7b:d17d::1", world.remote);
		flags = "ip_version=ipv6,local_ip=fd3d:a0b:17d6::1,remote_ip=fd3d:fa7b:d17d::1,"
			"gateway_ip=fd3d:a0b:17d6::2,prefix_len=48,mtu=1520";
	} else {
		mapped = strcmp(mode, "mapped") == 0, domain = mapped ? AF_INET6 : AF_INET;
		inet_pton(AF_INET, "192.168.0.1", world.local);
		inet_pton(AF_INET, "192.0.2.1", world.remote);
		flags = mapped ? "ip_version=ipv4-mapped-ipv6,local_ip=192.168.0.1,remote_ip=192.0.2.1,"
				 "gateway_ip=192.168.0.2,prefix_len=16,mtu=1500"
			       : "ip_version=ipv4,local_ip=192.168.0.1,remote_ip=192.0.2.1,"
				 "gateway_ip=192.168.0.2,prefix_len=16,mtu=1500";
	}
	init(flags);
}

/* --- time, as packetdrill keeps it --- */

static long long now_us(void)
{
	struct timeval tv;

	clock_reads++;
	EQ(so.gettimeofday(U, &tv, NULL), 0);
	return (long long)tv.tv_sec * 1000000 + tv.tv_usec;
}

static void wait_until(long long us)
{
	long long remaining = us - now_us();

	if (remaining > 20)
		EQ(so.usleep(U, (useconds_t)(remaining - 20)), 0);
	while (now_us() < us)
		;
}

static void near(long long actual, long long expected)
{
	long long off = actual - expected;

	if (off < -4000 || off > 4000)
		FAIL("the time is off by %lld us", off);
}

/* --- addresses --- */

static socklen_t address(struct sockaddr_storage *out, const uint8_t *ip, uint16_t port)
{
	struct sockaddr_in *v4 = (void *)out;
	struct sockaddr_in6 *v6 = (void *)out;

	memset(out, 0, sizeof *out);
	if (domain == AF_INET) {
		v4->sin_family = AF_INET, v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, ip, 4);
		return sizeof *v4;
	}
	v6->sin6_family = AF_INET6, v6->sin6_port = htons(port);
	if (mapped) {
		v6->sin6_addr.s6_addr[10] = v6->sin6_addr.s6_addr[11] = 0xff;
		memcpy(v6->sin6_addr.s6_addr + 12, ip, 4);
	} else {
		memcpy(&v6->sin6_addr, ip, 16);
	}
	return sizeof *v6;
}

/* --- packets --- */

static void inject(uint8_t flags, uint32_t seq, uint32_t ack, const char *options, int options_len, int len)
{
	static struct segment s;
	static uint8_t packet[MAX_PACKET];

	memset(&s, 0, sizeof s);
	s.from = peer_port, s.to = local_port, s.flags = flags;
	s.seq = peer_isn + seq, s.ack = flags & ACK ? isn + ack : 0;
	s.window = flags & SYN ? 65535 : 1000;
	memcpy(s.options, options, (size_t)options_len), s.options_len = options_len;
	for (s.len = 0; s.len < len; s.len++)
		s.payload[s.len] = (uint8_t)(seq + (uint32_t)s.len);
	EQ(so.netdev_send(U, packet, build(&world, &s, packet)), 0);
}

/* mss 1460, sackOK, nop, wscale 7 */
static const char SYN_OPTIONS[] = "\2\4\5\264\4\2\1\1\1\3\3\7";
/* mss 1460, sackOK, timestamps, nop, wscale 7 */
static const char SYN_STAMPED[] = "\2\4\5\264\4\2\10\12\0\0\3\350\0\0\0\0\1\3\3\7";
#define inject_syn(flags, ack) inject(flags, 0, ack, SYN_OPTIONS, 12, 0)
#define inject_plain(flags, seq, ack, len) inject(flags, seq, ack, "", 0, len)

/* The next packet of the connection, like packetdrill: others are passed over. False at the end of time. */
static bool try_sniff(void)
{
	static uint8_t packet[MAX_PACKET];

	for (;;) {
		size_t n = sizeof packet;

		EQ(so.netdev_receive(U, packet, &n, &got.at_us), 0);
		if (n == 0)
			return false;
		long long at = got.at_us;
		dissect(&world, packet, n, &got);
		got.at_us = at;
		if (got.to == peer_port)
			return true;
	}
}

static void sniff(void)
{
	if (!try_sniff())
		FAIL("no packet will ever come");
}

/* A segment with these numbers, relative to the initial ones. */
static void expect_at(int line, uint8_t flags, uint32_t seq, uint32_t ack, int len)
{
	sniff();
	if (got.flags & SYN)
		isn = got.seq, local_port = got.from;
	uint32_t rel_seq = got.seq - isn, rel_ack = got.flags & ACK ? got.ack - peer_isn : 0;
	if (got.flags != flags || rel_seq != seq || rel_ack != ack || got.len != len)
		FAIL("line %d: flags %#x seq %u ack %u len %d, expected %#x %u %u %d", line, got.flags, rel_seq, rel_ack,
		     got.len, flags, seq, ack, len);
}
#define expect(flags, seq, ack, len) expect_at(__LINE__, flags, seq, ack, len)

/* Nothing more: the end of time. */
static void expect_silence(void)
{
	uint8_t packet[64];
	size_t n = sizeof packet;
	long long at = -1;

	EQ(so.netdev_receive(U, packet, &n, &at), 0);
	EQ(n, 0);
}

/* --- what scenarios begin with --- */

static int listener(void)
{
	struct sockaddr_storage local;
	int one = 1, fd = so.socket(U, domain, SOCK_STREAM, IPPROTO_TCP);

	CHECK(fd >= 0);
	EQ(so.setsockopt(U, fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
	EQ(so.bind(U, fd, (void *)&local, address(&local, world.local, PORT)), 0);
	EQ(so.listen(U, fd, 8), 0);
	return fd;
}

static int accept_one(int fd)
{
	struct sockaddr_storage peer, expected;
	socklen_t len = sizeof peer;
	int conn = so.accept(U, fd, (void *)&peer, &len);

	CHECK(conn >= 0);
	EQ(len, address(&expected, world.remote, peer_port));
	EQ(memcmp(&peer, &expected, len), 0);
	return conn;
}

static int established(int fd)
{
	inject_syn(SYN, 0);
	expect(SYN | ACK, 0, 1, 0);
	inject_plain(ACK, 1, 1, 0);
	return accept_one(fd);
}

/* As packetdrill at the end of a script: libc's close() for what is open, an RST for each connection. */
static void teardown(const int *fds, int n, uint32_t seq, uint32_t ack)
{
	for (int i = 0; i < n; i++)
		EQ(close(fds[i]), 0);
	inject_plain(RST | ACK, seq, ack, 0);
	so.free(U);
	EQ(dlclose(library), 0);
}
#endif
