/* Loads the shared object as packetdrill does and drives it: `driver LIBRARY SCENARIO [ipv4|mapped|ipv6]`.
 * Ends with 0, with 1 and the line that failed, or with 77 and what is missing. */
#define _GNU_SOURCE
#include "drive.h"
#include "noise.h"
#include <sys/mman.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/times.h>

/* --- one thread --- */

/* Takes segments until `len` bytes from `seq` on have come; the payload is that of `data`. */
static void expect_bytes(uint32_t seq, uint32_t ack, const char *data, int len)
{
	int seen = 0;

	while (seen < len) {
		sniff();
		CHECK(got.flags & ACK);
		EQ(got.seq - isn, seq + (uint32_t)seen);
		EQ(got.ack - peer_isn, ack);
		CHECK(got.len > 0 && got.len <= 1460);
		EQ(memcmp(got.payload, data + seen, (size_t)got.len), 0);
		seen += got.len;
	}
	EQ(seen, len);
	CHECK(got.flags & PSH);
}

static void options(void)
{
	int fd = listener();
	long long start = now_us();

	inject(SYN, 0, 0, SYN_STAMPED, 20, 0);
	expect(SYN | ACK, 0, 1, 0);
	near(got.at_us, start);
	/* Linux's order: mss, sackOK, timestamps, nop, wscale. */
	EQ(got.options_len, 20);
	EQ(memcmp(got.options, "\2\4\5\264\4\2\10\12", 8), 0);
	EQ(get32(got.options + 12), 1000);
	EQ(memcmp(got.options + 16, "\1\3\3", 3), 0);
	/* Nobody answers: it comes again after a second, then after two. */
	long long first = got.at_us;
	expect(SYN | ACK, 0, 1, 0);
	near(got.at_us, first + 1000000);
	expect(SYN | ACK, 0, 1, 0);
	near(got.at_us, first + 3000000);
	teardown(&fd, 1, 1, 1);
}

static void passive(void)
{
	char buf[2000], data[3000];
	int fd = listener();

	ERR(so.read(U, fd, buf, 1), ENOTCONN);
	EQ(so.fcntl(U, fd, F_GETFL), O_RDWR);
	EQ(so.fcntl(U, fd, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	ERR(so.accept(U, fd, NULL, NULL), EAGAIN);
	int conn = established(fd);
	EQ(so.fcntl(U, conn, F_GETFL), O_RDWR);

	for (int i = 0; i < 3000; i++)
		data[i] = (char)(i * 7);
	/* Packets carry the time at which they were sent, however late they are asked for. */
	long long start = now_us();
	EQ(so.write(U, conn, data, 3000), 3000);
	wait_until(start + 1500);
	expect_bytes(1, 1, data, 3000);
	CHECK(got.at_us >= start && got.at_us < start + 50);
	inject_plain(ACK, 1, 3001, 0);

	int queued = -1;
	inject_plain(ACK | PSH, 1, 3001, 500);
	expect(ACK, 3001, 501, 0);
	EQ(so.ioctl(U, conn, SIOCINQ, &queued), 0);
	EQ(queued, 500);
	EQ(so.recv(U, conn, buf, 100, MSG_PEEK), 100);
	struct iovec iov[2] = {{buf, 200}, {buf + 1000, 1000}};
	EQ(so.readv(U, conn, iov, 2), 500);
	for (int i = 0; i < 500; i++)
		EQ((uint8_t)(i < 200 ? buf[i] : buf[800 + i]), (uint8_t)(1 + i));
	ERR(so.recv(U, conn, buf, 1, MSG_DONTWAIT), EAGAIN);

	/* The peer closes first. */
	inject_plain(ACK | FIN, 501, 3001, 0);
	expect(ACK, 3001, 502, 0);
	EQ(so.read(U, conn, buf, 10), 0);
	EQ(so.close(U, conn), 0);
	expect(FIN | ACK, 3001, 502, 0);
	inject_plain(ACK, 502, 3002, 0);
	ERR(so.read(U, conn, buf, 1), EBADF);
	expect_silence();
	teardown(&fd, 1, 502, 3002);
}

static void active(void)
{
	struct sockaddr_storage remote;
	int error = -1, fd = so.socket(U, domain, SOCK_STREAM, IPPROTO_TCP);
	socklen_t len = sizeof error;
	struct pollfd p = {fd, POLLIN | POLLOUT, 77};

	peer_port = PORT;
	EQ(so.fcntl(U, fd, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	ERR(so.connect(U, fd, (void *)&remote, address(&remote, world.remote, PORT)), EINPROGRESS);
	expect(SYN, 0, 0, 0);
	CHECK(local_port != 0);
	EQ(so.poll(U, &p, 1, 0), 0);
	EQ(p.revents, 0);
	ERR(so.connect(U, fd, (void *)&remote, address(&remote, world.remote, PORT)), EALREADY);
	inject_syn(SYN | ACK, 1);
	expect(ACK, 1, 1, 0);
	EQ(so.poll(U, &p, 1, 0), 1);
	EQ(p.revents, POLLOUT);
	EQ(so.getsockopt(U, fd, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	EQ(error, 0);
	EQ(len, 4);

	/* We close first; TIME-WAIT ends in silence. */
	EQ(so.sendto(U, fd, "abc", 3, MSG_NOSIGNAL, NULL, 0), 3);
	expect_bytes(1, 1, "abc", 3);
	EQ(so.shutdown(U, fd, SHUT_WR), 0);
	expect(FIN | ACK, 4, 1, 0);
	inject_plain(ACK, 1, 5, 0);
	inject_plain(FIN | ACK, 1, 5, 0);
	expect(ACK, 5, 2, 0);
	ERR(so.send(U, fd, "x", 1, MSG_NOSIGNAL), EPIPE);
	EQ(so.close(U, fd), 0);
	expect_silence();
	teardown(NULL, 0, 2, 5);
}

/* Packets beyond the MTU, as after GRO; connect() to nowhere; a close that resets. */
static void large(void)
{
	static char buf[20000];
	struct sockaddr_storage none = {.ss_family = AF_UNSPEC};
	struct linger now = {.l_onoff = 1, .l_linger = 0};
	int fd = listener(), conn = established(fd);

	inject_plain(ACK | PSH, 1, 1, 10000);
	expect(ACK, 1, 10001, 0);
	EQ(so.read(U, conn, buf, sizeof buf), 10000);
	for (int i = 0; i < 10000; i++)
		EQ((uint8_t)buf[i], (uint8_t)(1 + i));
	EQ(so.setsockopt(U, conn, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
	EQ(so.close(U, conn), 0);
	expect(RST | ACK, 1, 10001, 0);

	peer_port++;
	conn = established(fd);
	EQ(so.connect(U, conn, (void *)&none, sizeof none), 0);
	expect(RST | ACK, 1, 1, 0);
	/* tcp_disconnect() leaves ECONNRESET behind, once. */
	ERR(so.write(U, conn, buf, 1), ECONNRESET);
	ERR(so.write(U, conn, buf, 1), EPIPE);
	expect_silence();
	int fds[] = {fd, conn};
	teardown(fds, 2, 1, 1);
}

static void errors(void)
{
	struct sockaddr_storage local;
	socklen_t len = address(&local, world.local, PORT);
	char byte;
	int value = 1, fd = listener(), conn = established(fd);

	ERR(so.socket(U, 12345, SOCK_STREAM, 0), EAFNOSUPPORT);
	ERR(so.read(U, 99999, &byte, 1), EBADF);
	ERR(so.close(U, 99999), EBADF);
	ERR(so.listen(U, -1, 1), EBADF);
	ERR(so.bind(U, conn, (void *)&local, len), EINVAL);
	ERR(so.bind(U, conn, NULL, len), EFAULT);
	ERR(so.write(U, conn, NULL, 10), EFAULT);
	inject_plain(ACK | PSH, 1, 1, 10);
	expect(ACK, 1, 11, 0);
	ERR(so.read(U, conn, NULL, 10), EFAULT);
	/* MSG_TRUNC discards: there is no need for a buffer. */
	EQ(so.recv(U, conn, NULL, 4, MSG_TRUNC), 4);
	EQ(so.read(U, conn, &byte, 1), 1);
	EQ((uint8_t)byte, 5);
	ERR(so.setsockopt(U, conn, IPPROTO_TCP, 9999, &value, sizeof value), ENOPROTOOPT);
	ERR(so.setsockopt(U, conn, SOL_SOCKET, SO_SNDBUF, NULL, 4), EFAULT);
	ERR(so.setsockopt(U, conn, IPPROTO_TCP, TCP_NODELAY, &value, 3), EINVAL);
	/* A script's optlen may be anything; of the value no more is read than an option has. */
	EQ(so.setsockopt(U, conn, IPPROTO_TCP, TCP_NODELAY, &value, 1 << 30), 0);
	ERR(so.setsockopt(U, conn, IPPROTO_TCP, TCP_FASTOPEN_KEY, &value, 1 << 30), EINVAL);
	struct pollfd p[3] = {{conn, POLLIN, 77}, {99999, POLLIN, 77}, {-1, POLLIN, 77}};
	EQ(so.poll(U, p, 3, 0), 2);
	EQ(p[0].revents, POLLIN);
	EQ(p[1].revents, POLLNVAL);
	EQ(p[2].revents, 0);
	ERR(so.epoll_ctl(U, conn, EPOLL_CTL_DEL, fd, NULL), EINVAL);
	/* SO_SNDBUF is told doubled, in as many bytes as there is room for. */
	value = 40000;
	EQ(so.setsockopt(U, conn, SOL_SOCKET, SO_SNDBUF, &value, sizeof value), 0);
	len = 4;
	EQ(so.getsockopt(U, conn, SOL_SOCKET, SO_SNDBUF, &value, &len), 0);
	EQ(value, 80000);
	EQ(len, 4);
	int fds[] = {fd, conn};
	teardown(fds, 2, 11, 1);
}

/* What cap_set() of a script does: one privilege of this thread. False where there is none to take. */
static bool give(int privilege, bool on)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct sets[2];
	uint32_t bit = 1u << privilege;

	CHECK(syscall(SYS_capget, &header, sets) == 0);
	if (!(sets[0].permitted & bit))
		return false;
	sets[0].effective = on ? sets[0].effective | bit : sets[0].effective & ~bit;
	CHECK(syscall(SYS_capset, &header, sets) == 0);
	return true;
}

/* What a script takes from packetdrill's process the stack's calls lack, until it is given back. */
static void privileges(void)
{
	int value = 7, fd = so.socket(U, domain, SOCK_STREAM, IPPROTO_TCP);
	struct sockaddr_storage low;
	socklen_t len = address(&low, world.local, 80);

	EQ(so.setsockopt(U, fd, SOL_SOCKET, SO_MARK, &value, sizeof value), 0);
	if (!give(CAP_NET_ADMIN, false) || !give(CAP_NET_RAW, false) || !give(CAP_NET_BIND_SERVICE, false)) {
		fprintf(stderr, "root (capabilities)\n");
		exit(77);
	}
	ERR(so.setsockopt(U, fd, SOL_SOCKET, SO_MARK, &value, sizeof value), EPERM);
	ERR(so.setsockopt(U, fd, SOL_SOCKET, SO_RCVBUFFORCE, &value, sizeof value), EPERM);
	ERR(so.setsockopt(U, fd, SOL_SOCKET, SO_PRIORITY, &value, sizeof value), EPERM);
	ERR(so.setsockopt(U, fd, SOL_SOCKET, SO_MARK, &value, 2), EINVAL);
	ERR(so.setsockopt(U, 99999, SOL_SOCKET, SO_MARK, &value, sizeof value), EBADF);
	EQ(so.setsockopt(U, fd, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value), 0);
	ERR(so.bind(U, fd, (void *)&low, len), EACCES);
	CHECK(give(CAP_NET_RAW, true));
	EQ(so.setsockopt(U, fd, SOL_SOCKET, SO_MARK, &value, sizeof value), 0);
	ERR(so.setsockopt(U, fd, SOL_SOCKET, SO_RCVBUFFORCE, &value, sizeof value), EPERM);
	CHECK(give(CAP_NET_ADMIN, true) && give(CAP_NET_BIND_SERVICE, true));
	EQ(so.setsockopt(U, fd, SOL_SOCKET, SO_RCVBUFFORCE, &value, sizeof value), 0);
	EQ(so.bind(U, fd, (void *)&low, len), 0);
	so.free(U);
}

static void messages(void)
{
	char buf[64], control[64];
	struct iovec iov = {buf, sizeof buf}, out[2] = {{"ab", 2}, {"cde", 3}};
	struct msghdr m = {.msg_iov = out, .msg_iovlen = 2};
	struct sockaddr_storage peer;
	socklen_t len = sizeof peer;
	int fd = listener(), conn = established(fd);

	EQ(so.sendmsg(U, conn, &m, 0), 5);
	expect_bytes(1, 1, "abcde", 5);
	EQ(so.writev(U, conn, out, 2), 5);
	expect_bytes(6, 1, "abcde", 5);
	inject_plain(ACK | PSH, 1, 11, 20);
	expect(ACK, 11, 21, 0);
	/* TCP names no sender. */
	EQ(so.recvfrom(U, conn, buf, 5, 0, (void *)&peer, &len), 5);
	EQ(len, 0);
	m = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	m.msg_flags = -1;
	EQ(so.recvmsg(U, conn, &m, 0), 15);
	EQ((uint8_t)buf[0], 6);
	EQ(m.msg_controllen, 0);
	EQ(m.msg_flags, 0);
	m.msg_iovlen = 1025;
	ERR(so.recvmsg(U, conn, &m, 0), EMSGSIZE);
	ERR(so.sendmsg(U, conn, NULL, 0), EFAULT);

	/* With TCP_INQ the bytes that are left come along. */
	int one = 1;
	EQ(so.setsockopt(U, conn, IPPROTO_TCP, TCP_INQ, &one, sizeof one), 0);
	inject_plain(ACK | PSH, 21, 11, 30);
	m = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	iov.iov_len = 10;
	EQ(so.recvmsg(U, conn, &m, 0), 10);
	EQ(m.msg_controllen, CMSG_SPACE(sizeof(int)));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	EQ(c->cmsg_level, IPPROTO_TCP);
	EQ(c->cmsg_type, TCP_CM_INQ);
	EQ(c->cmsg_len, CMSG_LEN(sizeof(int)));
	memcpy(&one, CMSG_DATA(c), sizeof one);
	EQ(one, 20);

	/* packetdrill's room is what it expects and holds that already; without an expectation there is no room, and no message. */
	memset(control, 0xa5, sizeof control);
	m = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(sizeof(int))};
	EQ(so.recvmsg(U, conn, &m, 0), 10);
	EQ(m.msg_flags, 0);
	EQ(m.msg_controllen, CMSG_SPACE(sizeof(int)));
	memcpy(&one, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof one);
	EQ(one, 10);
	EQ((uint8_t)control[CMSG_SPACE(sizeof(int))], 0xa5);
	m = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1};
	EQ(so.recvmsg(U, conn, &m, 0), 10);
	EQ(m.msg_flags, MSG_CTRUNC);
	EQ(m.msg_controllen, 0);
	/* Room that is nowhere is none (put_cmsg). */
	expect(ACK, 11, 51, 0);
	inject_plain(ACK | PSH, 51, 11, 5);
	expect(ACK, 11, 56, 0);
	/* An address of a length below zero takes nothing. */
	m = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1, .msg_name = &peer, .msg_namelen = -1};
	ERR(so.recvmsg(U, conn, &m, 0), EINVAL);
	ERR(so.sendmsg(U, conn, &m, 0), EINVAL);
	m = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1, .msg_controllen = sizeof control};
	EQ(so.recvmsg(U, conn, &m, 0), 5);
	EQ(m.msg_flags, MSG_CTRUNC);
	EQ(m.msg_controllen, 0);
	/* A failure leaves the message as it is. */
	m = (struct msghdr){.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = 7, .msg_flags = 77};
	ERR(so.recvmsg(U, conn, &m, MSG_ERRQUEUE | MSG_DONTWAIT), EAGAIN);
	EQ(m.msg_flags, 77);

	/* sendto() of a script always has the peer's address, which a connection passes over. */
	len = address(&peer, world.remote, PORT);
	EQ(so.sendto(U, conn, "xyz", 3, 0, (void *)&peer, len), 3);
	expect_bytes(11, 56, "xyz", 3);
	int fds[] = {fd, conn};
	teardown(fds, 2, 56, 14);
}

/* Reads one entry of the error queue; its struct sock_extended_err. */
static struct sock_extended_err errqueue(int conn, char *control, size_t room, struct timespec *at)
{
	struct iovec iov = {NULL, 0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
	struct sock_extended_err err = {0};

	EQ(so.recvmsg(U, conn, &m, MSG_ERRQUEUE), 0);
	EQ(m.msg_flags, MSG_ERRQUEUE);
	EQ(m.msg_controllen, room);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (at) {
		EQ(c->cmsg_level, SOL_SOCKET);
		EQ(c->cmsg_type, SO_TIMESTAMPING);
		EQ(c->cmsg_len, CMSG_LEN(3 * sizeof *at));
		memcpy(at, CMSG_DATA(c), sizeof *at);
		c = CMSG_NXTHDR(&m, c);
	}
	EQ(c->cmsg_level, domain == AF_INET ? SOL_IP : SOL_IPV6);
	EQ(c->cmsg_type, domain == AF_INET ? IP_RECVERR : IPV6_RECVERR);
	memcpy(&err, CMSG_DATA(c), sizeof err);
	return err;
}

/* Room as packetdrill makes it: exactly what is expected. */
static size_t error_room(void)
{
	size_t offender = domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	return CMSG_SPACE(sizeof(struct sock_extended_err) + offender);
}

static void error_queue(void)
{
	char control[256];
	struct timeval before, after;
	struct timespec at;
	int fd = listener(), conn = established(fd), one = 1;
	int stamping = SOF_TIMESTAMPING_TX_ACK | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_OPT_TSONLY;

	EQ(so.setsockopt(U, conn, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one), 0);
	EQ(so.send(U, conn, "abcde", 5, MSG_ZEROCOPY), 5);
	expect_bytes(1, 1, "abcde", 5);
	inject_plain(ACK, 1, 6, 0);
	struct sock_extended_err err = errqueue(conn, control, error_room(), NULL);
	EQ(err.ee_errno, 0);
	EQ(err.ee_origin, SO_EE_ORIGIN_ZEROCOPY);
	EQ(err.ee_code, SO_EE_CODE_ZEROCOPY_COPIED);
	EQ(err.ee_info, 0);
	EQ(err.ee_data, 0);

	/* Times are those of gettimeofday(). */
	EQ(so.setsockopt(U, conn, SOL_SOCKET, SO_TIMESTAMPING, &stamping, sizeof stamping), 0);
	EQ(so.send(U, conn, "abcde", 5, 0), 5);
	expect_bytes(6, 1, "abcde", 5);
	so.usleep(U, 1000);
	so.gettimeofday(U, &before, NULL);
	inject_plain(ACK, 1, 11, 0);
	so.gettimeofday(U, &after, NULL);
	err = errqueue(conn, control, CMSG_SPACE(3 * sizeof at) + error_room(), &at);
	EQ(err.ee_errno, ENOMSG);
	EQ(err.ee_origin, SO_EE_ORIGIN_TIMESTAMPING);
	EQ(err.ee_info, SCM_TSTAMP_ACK);
	EQ(err.ee_data, 4);
	long long us = at.tv_sec * 1000000ll + at.tv_nsec / 1000;
	CHECK(us >= before.tv_sec * 1000000ll + before.tv_usec && us <= after.tv_sec * 1000000ll + after.tv_usec);
	int fds[] = {fd, conn};
	teardown(fds, 2, 1, 11);
}

static void epoll(void)
{
	struct epoll_event e[4], untouched[4];
	int fd = listener(), conn = established(fd), ep = so.epoll_create(U, 1);
	long long start;

	CHECK(ep >= 0);
	memset(e, 0, sizeof e), memset(untouched, 0xa5, sizeof untouched);
	e[0].events = EPOLLIN | EPOLLOUT | EPOLLET, e[0].data.u64 = 0xfedcba9876543210;
	EQ(so.epoll_ctl(U, ep, EPOLL_CTL_ADD, conn, &e[0]), 0);
	ERR(so.epoll_ctl(U, ep, EPOLL_CTL_ADD, conn, &e[0]), EEXIST);
	memcpy(e, untouched, sizeof e);
	EQ(so.epoll_wait(U, ep, e, 4, 0), 1);
	EQ(e[0].events, EPOLLOUT);
	EQ(e[0].data.u64, 0xfedcba9876543210);
	EQ(memcmp(&e[1], &untouched[1], sizeof e - sizeof e[0]), 0);

	/* An edge is told once; a result of 0 leaves the array alone, and its timeout passes. */
	memcpy(e, untouched, sizeof e);
	start = now_us();
	EQ(so.epoll_wait(U, ep, e, 4, 300), 0);
	near(now_us(), start + 300000);
	EQ(memcmp(e, untouched, sizeof e), 0);
	inject_plain(ACK | PSH, 1, 1, 10);
	EQ(so.epoll_wait(U, ep, e, 4, -1), 1);
	EQ(e[0].events, EPOLLIN | EPOLLOUT);

	/* Level-triggered it is told again. */
	e[0].events = EPOLLIN, e[0].data.u64 = 1;
	EQ(so.epoll_ctl(U, ep, EPOLL_CTL_MOD, conn, &e[0]), 0);
	for (int i = 0; i < 3; i++) {
		memcpy(e, untouched, sizeof e);
		EQ(so.epoll_wait(U, ep, e, 4, 0), 1);
		EQ(e[0].events, EPOLLIN);
		EQ(e[0].data.u64, 1);
	}
	EQ(so.epoll_ctl(U, ep, EPOLL_CTL_DEL, conn, NULL), 0);
	EQ(so.epoll_wait(U, ep, e, 4, 0), 0);
	ERR(so.epoll_wait(U, ep, e, 0, 0), EINVAL);
	int fds[] = {ep, fd, conn};
	teardown(fds, 3, 11, 1);
}

/* What packetdrill calls in libc although the sockets are ours. */
static void snippets(void)
{
	union {
		char bytes[512];
		struct tcp_info info;
		uint32_t words[9];
	} u;
	socklen_t len;
	int fd = listener(), conn = established(fd);
	int type = 0, real = socket(AF_INET, SOCK_DGRAM, 0), file = memfd_create("driver", 0);

	CHECK(real >= 0 && real != conn && real != fd);
	EQ(so.write(U, conn, "abcdefghij", 10), 10);
	expect_bytes(1, 1, "abcdefghij", 10);
	memset(&u, 0xff, sizeof u), len = sizeof u;
	EQ(getsockopt(conn, IPPROTO_TCP, TCP_INFO, &u, &len), 0);
	CHECK(len >= 280 && len < sizeof u);
	EQ(u.bytes[len], -1);
	EQ(u.info.tcpi_state, 1);
	EQ(u.info.tcpi_options & 7, 2 | 4);
	EQ(u.info.tcpi_snd_mss, 1460);
	EQ(u.info.tcpi_snd_cwnd, 10);
	EQ(u.info.tcpi_unacked, 1);
	EQ(u.info.tcpi_ca_state, 0);
	/* packetdrill's room is that of the structure that it knows, which may be shorter. */
	memset(&u, 0xff, sizeof u), len = 280;
	EQ(getsockopt(conn, IPPROTO_TCP, TCP_INFO, &u, &len), 0);
	EQ(len, 280);
	EQ(u.bytes[len], -1);
	/* Reno tells nothing. */
	len = sizeof u;
	EQ(getsockopt(conn, IPPROTO_TCP, TCP_CC_INFO, &u, &len), 0);
	EQ(len, 0);
	len = sizeof u;
	EQ(getsockopt(conn, SOL_SOCKET, 55 /* SO_MEMINFO */, &u, &len), 0);
	EQ(len, 36);
	CHECK(u.words[1] > 0 && u.words[3] > 0);

	/* Files of the kernel stay libc's. */
	len = sizeof type;
	EQ(getsockopt(real, SOL_SOCKET, SO_TYPE, &type, &len), 0);
	EQ(type, SOCK_DGRAM);
	EQ(close(real), 0);
	ERR(close(real), EBADF);
	ERR(getsockopt(real, SOL_SOCKET, SO_TYPE, &type, &len), EBADF);

	/* sendfile() with and without an offset; small segments wait for no ACK. */
	EQ(so.setsockopt(U, conn, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
	off_t offset = 2;
	EQ(write(file, "0123456789", 10), 10);
	EQ(sendfile(conn, file, &offset, 5), 5);
	EQ(offset, 7);
	expect_bytes(11, 1, "23456", 5);
	EQ(lseek(file, 8, SEEK_SET), 8);
	EQ(sendfile(conn, file, NULL, 100), 2);
	expect_bytes(16, 1, "89", 2);
	EQ(lseek(file, 0, SEEK_CUR), 10);
	EQ(close(file), 0);

	/* libc's close() of a socket closes the connection and frees the number. */
	inject_plain(ACK, 1, 18, 0);
	CHECK(fcntl(conn, F_GETFD) >= 0);
	EQ(close(conn), 0);
	ERR(fcntl(conn, F_GETFD), EBADF);
	ERR(so.write(U, conn, "x", 1), EBADF);
	ERR(close(conn), EBADF);
	expect(FIN | ACK, 18, 1, 0);
	teardown(&fd, 1, 1, 19);
}

/* Where close() could not be redirected, libc closes the number that a socket holds. */
static void second_belt(void)
{
	int fd = listener(), conn = established(fd);

	EQ(syscall(SYS_close, conn), 0);
	/* The next socket has the number, and keeps it. */
	EQ(so.socket(U, AF_INET, SOCK_STREAM, IPPROTO_TCP), conn);
	CHECK(syscall(SYS_fcntl, conn, F_GETFD) >= 0);
	CHECK(so.socket(U, AF_INET, SOCK_STREAM, IPPROTO_TCP) != conn);
	EQ(syscall(SYS_close, fd), 0);
	inject_plain(RST | ACK, 1, 1, 0);
	so.free(U);
}

static void pipes(void)
{
	int p[2], fd = listener(), conn = established(fd), file = memfd_create("driver", 0);
	struct rlimit files, fewer;
	int fds2[2];
	loff_t zero = 0;
	char buf[32];

	EQ(so.pipe(U, p), 0);
	CHECK(p[0] != p[1]);
	inject_plain(ACK | PSH, 1, 1, 20);
	expect(ACK, 1, 21, 0);
	/* packetdrill passes pointers to offsets; one to 0 is the script's NULL. */
	EQ(so.splice(U, conn, &zero, p[1], &zero, 20, 0), 20);
	EQ(so.splice(U, p[0], &zero, conn, &zero, 5, 0), 5);
	expect(ACK | PSH, 1, 21, 5);
	EQ(so.read(U, p[0], buf, sizeof buf), 15);
	EQ((uint8_t)buf[0], 6);
	/* A file that the script has opened with libc's open(). */
	EQ(so.write(U, file, "0123456789", 10), 10);
	EQ(lseek(file, 0, SEEK_SET), 0);
	EQ(so.splice(U, file, NULL, p[1], NULL, 10, 0), 10);
	EQ(so.read(U, p[0], buf, sizeof buf), 10);
	EQ(memcmp(buf, "0123456789", 10), 0);
	/* One of the two must be a pipe. */
	ERR(so.splice(U, file, NULL, conn, NULL, 10, 0), EINVAL);
	ERR(so.splice(U, conn, NULL, file, NULL, 10, 0), EINVAL);
	/* A pipe needs two numbers; where the process may have one only, it keeps none. */
	int next = dup(file);
	EQ(close(next), 0);
	EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
	fewer = (struct rlimit){(rlim_t)next + 1, files.rlim_max};
	EQ(setrlimit(RLIMIT_NOFILE, &fewer), 0);
	ERR(so.pipe(U, fds2), EMFILE);
	EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	EQ(dup(file), next);
	EQ(close(next), 0);
	/* To a file that has room for five bytes only: the rest stays in the pipe. */
	struct rlimit limit = {15, 15};
	signal(SIGXFSZ, SIG_IGN);
	EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	EQ(so.write(U, p[1], "abcdefgh", 8), 8);
	EQ(so.splice(U, p[0], NULL, file, NULL, 8, 0), 5);
	EQ(so.write(U, p[1], "ij", 2), 2);
	ERR(so.splice(U, p[0], NULL, file, NULL, 8, 0), EFBIG);
	EQ(so.read(U, p[0], buf, sizeof buf), 5);
	EQ(memcmp(buf, "fghij", 5), 0);
	EQ(pread(file, buf, 15, 0), 15);
	EQ(memcmp(buf, "0123456789abcde", 15), 0);
	EQ(so.close(U, file), 0);
	ERR(so.close(U, file), EBADF);
	int fds[] = {p[0], p[1], fd, conn};
	teardown(fds, 4, 21, 6);
}

/* UDP has a sender in every datagram. */
static void datagrams(void)
{
	static uint8_t packet[MAX_PACKET];
	struct sockaddr_storage addr, expected;
	socklen_t len = address(&addr, world.local, PORT);
	char buf[16];
	int fd = so.socket(U, domain, SOCK_DGRAM, IPPROTO_UDP);
	size_t n = sizeof packet;
	long long at, start = now_us();

	EQ(so.bind(U, fd, (void *)&addr, len), 0);
	ERR(so.recv(U, fd, buf, sizeof buf, MSG_DONTWAIT), EAGAIN);
	EQ(so.netdev_send(U, packet, build_udp(&world, 4000, PORT, "hello", 5, packet)), 0);
	len = sizeof addr;
	EQ(so.recvfrom(U, fd, buf, 3, MSG_TRUNC, (void *)&addr, &len), 5);
	EQ(memcmp(buf, "hel", 3), 0);
	EQ(len, address(&expected, world.remote, 4000));
	EQ(memcmp(&addr, &expected, len), 0);
	EQ(so.sendto(U, fd, "answer", 6, 0, (void *)&addr, len), 6);
	EQ(so.netdev_receive(U, packet, &n, &at), 0);
	int ip = check_ip(&world, 17, packet, n);
	EQ(get16(packet + ip), PORT);
	EQ(get16(packet + ip + 2), 4000);
	EQ(n, (size_t)ip + 8 + 6);
	near(at, start);
	expect_silence();
	EQ(close(fd), 0);
	so.free(U);
}

/* A message about a packet of ours. */
static void inject_error(int type, int code, uint32_t rest, int protocol, uint32_t seq, int len)
{
	static uint8_t quote[MAX_PACKET], packet[MAX_PACKET];
	int n = build_quote(&world, protocol, local_port, peer_port, isn + seq, len, quote);

	EQ(so.netdev_send(U, packet, build_icmp(&world, type, code, rest, quote, n, packet)), 0);
}

/* What routers say, with no more of our packets in it than packetdrill quotes; an echo. */
static void icmp(void)
{
	static uint8_t packet[MAX_PACKET], zeros[56];
	static char buf[1460];
	struct sockaddr_storage remote;
	int v6 = world.v6, mtu = v6 ? 1300 : 1000, mss = mtu - (v6 ? 60 : 40), error = -1, fd = listener(), conn = established(fd);
	socklen_t len = sizeof error;
	size_t n = sizeof packet;
	long long at;

	EQ(so.write(U, conn, buf, 1460), 1460);
	expect(PSH | ACK, 1, 1, 1460);
	inject_error(v6 ? 2 : 3, v6 ? 0 : 4, (uint32_t)mtu, 6, 1, 1460);
	expect(ACK, 1, 1, mss);
	expect(PSH | ACK, 1 + (uint32_t)mss, 1, 1460 - mss);
	inject_plain(ACK, 1, 1461, 0);

	EQ(so.netdev_send(U, packet, build_icmp(&world, v6 ? 128 : 8, 0, 7 << 16, zeros, sizeof zeros, packet)), 0);
	EQ(so.netdev_receive(U, packet, &n, &at), 0);
	int ip = check_ip(&world, v6 ? 58 : 1, packet, n);
	EQ(n, (size_t)ip + 8 + sizeof zeros);
	EQ(packet[ip], v6 ? 129 : 0);
	EQ(get16(packet + ip + 4), 7);

	/* A connect() that is told that there is no such host, and a datagram that nobody wants. */
	int other = so.socket(U, domain, SOCK_STREAM, 0);
	peer_port = PORT;
	EQ(so.fcntl(U, other, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	ERR(so.connect(U, other, (void *)&remote, address(&remote, world.remote, PORT)), EINPROGRESS);
	expect(SYN, 0, 0, 0);
	inject_error(v6 ? 1 : 3, v6 ? 3 : 1, 0, 6, 0, 0);
	EQ(so.getsockopt(U, other, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	EQ(error, EHOSTUNREACH);
	EQ(so.close(U, other), 0);
	other = so.socket(U, domain, SOCK_DGRAM, IPPROTO_UDP);
	EQ(so.connect(U, other, (void *)&remote, address(&remote, world.remote, PORT)), 0);
	EQ(so.write(U, other, buf, 100), 100);
	n = sizeof packet;
	EQ(so.netdev_receive(U, packet, &n, &at), 0);
	local_port = get16(packet + check_ip(&world, 17, packet, n));
	inject_error(v6 ? 1 : 3, v6 ? 4 : 3, 0, 17, 0, 100);
	ERR(so.read(U, other, buf, 1), ECONNREFUSED);
	EQ(so.close(U, other), 0);
	so.free(U);
}

/* --- two threads --- */

static ssize_t (*job)(void);
static volatile int job_tid;
static ssize_t job_ret;
static int job_errno, job_fd;
static long long job_begin, job_end, job_later;
static sem_t dequeued, returned, go_on;
static pthread_t thread;

/* packetdrill's second thread waits for the time of the call by itself, lets the main thread go on, and makes the call. */
static void *worker(void *unused)
{
	job_tid = (int)syscall(SYS_gettid);
	wait_until(job_begin);
	sem_post(&dequeued);
	job_ret = job();
	job_errno = errno;
	sem_post(&returned);
	sem_wait(&go_on);
	job_end = now_us(), job_later = now_us();
	return unused;
}

static bool is_asleep(void)
{
	char path[64], line[256], state = 0;

	snprintf(path, sizeof path, "/proc/%d/task/%d/stat", getpid(), job_tid);
	/* Through close(), which the shared object has redirected: it must not disturb the call. */
	int file = open(path, O_RDONLY);
	ssize_t n = file < 0 ? -1 : read(file, line, sizeof line - 1);
	if (n < 0 || close(file) != 0)
		FAIL("%s cannot be read", path);
	line[n] = 0;
	if (sscanf(line, "%*d (%*[^)]) %c", &state) != 1)
		FAIL("%s: %s", path, line);
	return state == 'S';
}

/* Starts a call in a second thread at a time of the clock, and waits until the kernel says that it sleeps. */
static void start_blocking_at(long long begin, ssize_t (*call)(void))
{
	job = call, job_begin = begin;
	sem_init(&dequeued, 0, 0), sem_init(&returned, 0, 0), sem_init(&go_on, 0, 0);
	EQ(pthread_create(&thread, NULL, worker, NULL), 0);
	sem_wait(&dequeued);
	/* packetdrill believes its first look. */
	while (!is_asleep())
		sched_yield();
	for (int asleep = 0; asleep < 20; sched_yield(), usleep(100))
		asleep = is_asleep() ? asleep + 1 : 0;
	EQ(sem_trywait(&returned), -1);
}

static void start_blocking(ssize_t (*call)(void)) { start_blocking_at(now_us(), call); }

/* The call is over; the main thread has driven the clock on to `later` meanwhile. */
static void finish_blocking(long long end, long long later)
{
	wait_until(later);
	sem_wait(&returned);
	sem_post(&go_on);
	EQ(pthread_join(thread, NULL), 0);
	CHECK(job_end >= end && job_end <= end + 50);
	CHECK(job_later >= later);
}

static char job_buf[200000];
static ssize_t job_read(void) { return so.read(U, job_fd, job_buf, 1000); }
static ssize_t job_write(void) { return so.write(U, job_fd, job_buf, sizeof job_buf); }
static ssize_t job_accept(void) { return accept_one(job_fd); }
static ssize_t job_poll(void)
{
	struct pollfd p = {job_fd, POLLIN, 77};
	ssize_t n = so.poll(U, &p, 1, 300);
	EQ(p.revents, 0);
	return n;
}
static ssize_t job_accept_any(void) { return so.accept(U, job_fd, NULL, NULL); }
static ssize_t job_connect(void)
{
	struct sockaddr_storage remote;
	return so.connect(U, job_fd, (void *)&remote, address(&remote, world.remote, PORT));
}

static void blocking(void)
{
	int fd = listener(), fds[4] = {fd};
	long long start, instant;

	/* accept() */
	job_fd = fd, start = now_us();
	start_blocking(job_accept);
	wait_until(start + 100000);
	inject_syn(SYN, 0);
	expect(SYN | ACK, 0, 1, 0);
	wait_until(start + 200000);
	EQ(sem_trywait(&returned), -1);
	instant = now_us();
	inject_plain(ACK, 1, 1, 0);
	finish_blocking(instant, start + 1000000);
	int conn = fds[1] = (int)job_ret;
	CHECK(conn >= 0);

	/* read() */
	job_fd = conn, start = now_us();
	start_blocking(job_read);
	wait_until(start + 200000);
	EQ(sem_trywait(&returned), -1);
	instant = now_us();
	inject_plain(ACK | PSH, 1, 1, 100);
	finish_blocking(instant, start + 1500000);
	EQ(job_ret, 100);
	EQ((uint8_t)job_buf[99], 100);
	expect(ACK, 1, 101, 0);

	/* poll() with a timeout that passes; it begins later than the event before, and the second thread waits for that. */
	start = now_us();
	start_blocking_at(start + 700000, job_poll);
	near(now_us(), start + 700000);
	finish_blocking(start + 1000000, start + 2000000);
	EQ(job_ret, 0);

	/* write() of more than the buffer holds: what ACKs make room for is sent at their instant. */
	int small = 10000;
	EQ(so.setsockopt(U, conn, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
	memset(job_buf, 0, sizeof job_buf);
	start_blocking(job_write);
	uint32_t sent = 0;
	for (start = now_us(); sent < sizeof job_buf; start = now_us()) {
		sniff();
		CHECK(got.len > 0);
		near(got.at_us, start);
		EQ(got.seq - isn, 1 + sent);
		sent += (uint32_t)got.len;
		instant = now_us();
		inject_plain(ACK, 101, 1 + sent, 0);
	}
	sem_wait(&returned), sem_post(&go_on);
	EQ(pthread_join(thread, NULL), 0);
	EQ(job_ret, sizeof job_buf);
	inject_plain(RST | ACK, 101, 1 + sent, 0);

	/* connect(), which is refused */
	uint16_t accepted_port = peer_port;
	job_fd = fds[2] = so.socket(U, domain, SOCK_STREAM, IPPROTO_TCP);
	peer_port = PORT;
	start_blocking(job_connect);
	expect(SYN, 0, 0, 0);
	wait_until(now_us() + 50000);
	instant = now_us();
	inject_plain(RST | ACK, 0, 1, 0);
	finish_blocking(instant, instant + 500000);
	EQ(job_ret, -1);
	EQ(job_errno, ECONNREFUSED);
	peer_port = accepted_port, local_port = PORT;
	teardown(fds, 3, 101, 1 + sent);
}

/* packetdrill's one lock: what follows a call is done under it, and the main thread gives it away while it sleeps, and only then. */
static pthread_mutex_t one_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int worked_on;

static void *locking_worker(void *unused)
{
	job_tid = (int)syscall(SYS_gettid);
	sem_post(&dequeued);
	job_ret = job();
	job_end = now_us();
	pthread_mutex_lock(&one_lock);
	worked_on = 1;
	pthread_mutex_unlock(&one_lock);
	sem_wait(&go_on);
	return unused;
}

static void result_after_sleep(void)
{
	int fd = listener(), conn = established(fd), fds[2] = {fd, conn};
	uint32_t seq = 1;

	job = job_read, job_fd = conn;
	for (int round = 0; round < 30; round++, seq += 100) {
		worked_on = 0;
		sem_init(&dequeued, 0, 0), sem_init(&go_on, 0, 0);
		EQ(pthread_create(&thread, NULL, locking_worker, NULL), 0);
		sem_wait(&dequeued);
		while (!is_asleep())
			sched_yield();
		/* Its call ends now, or while the main thread sleeps. */
		pthread_mutex_lock(&one_lock);
		long long instant = now_us();
		inject_plain(ACK | PSH, seq, 1, 100);
		EQ(worked_on, 0);
		pthread_mutex_unlock(&one_lock);
		EQ(so.usleep(U, 1000), 0);
		pthread_mutex_lock(&one_lock);
		EQ(worked_on, 1);
		pthread_mutex_unlock(&one_lock);
		sem_post(&go_on);
		EQ(pthread_join(thread, NULL), 0);
		EQ(job_ret, 100);
		CHECK(job_end >= instant && job_end <= instant + 50);
	}
	teardown(fds, 2, seq, 1);
}

/* packetdrill waits up to a second for a call that blocks, without a call of its own: the call ends by its timeout all the same. */
static void awaited(void)
{
	int fd = listener();
	long long start = now_us();

	job_fd = fd;
	start_blocking(job_poll);
	sem_wait(&returned);
	sem_post(&go_on);
	EQ(pthread_join(thread, NULL), 0);
	EQ(job_ret, 0);
	CHECK(job_end >= start + 300000 && job_end <= start + 300050);

	/* One without an end gets that second and no more. */
	start = now_us();
	start_blocking(job_accept);
	struct timespec second;
	clock_gettime(CLOCK_REALTIME, &second), second.tv_sec++;
	EQ(sem_timedwait(&returned, &second), -1);
	near(now_us(), start + 1000000);
	inject_syn(SYN, 0);
	expect(SYN | ACK, 0, 1, 0);
	inject_plain(ACK, 1, 1, 0);
	sem_wait(&returned), sem_post(&go_on);
	EQ(pthread_join(thread, NULL), 0);

	/* A command that sleeps is time, too; it is noticed at the next look. */
	start = now_us();
	so.usleep(U, 1000);
	EQ(system("sleep 1"), 0);
	now_us();
	CHECK(now_us() >= start + 901000);
	int fds[] = {fd, (int)job_ret};
	teardown(fds, 2, 1, 1);
}

/* --- time --- */

/* packetdrill finds its beginning: ten ticks of times(2), at each of which it looks at the clock, then a loop without usleep(). */
static void calibration(void)
{
	long long start = 0, first = now_us();
	clock_t before = times(NULL);

	for (int ticks = 0; ticks < 10;) {
		clock_t now = times(NULL);
		if (now != before)
			start = now_us(), ticks++;
		before = now;
	}
	EQ(start, first + 10);
	start += 250, clock_reads = 0;
	while (now_us() < start)
		;
	EQ(clock_reads, 250);
	/* The first event is late by what it took to look. */
	int fd = listener();
	near(now_us(), start);
	teardown(&fd, 1, 1, 1);
}

static void end_of_time(void)
{
	int fd = listener();
	long long start = now_us();

	expect_silence();
	int conn = established(fd);
	expect_silence();
	near(now_us(), start);
	int fds[] = {fd, conn};
	teardown(fds, 2, 1, 1);
}

/* A thousand virtual seconds cost a bounded number of calls, however long they take. */
static void timing(void)
{
	int error = 0, fd = listener(), conn = established(fd), sent = 0;
	socklen_t len = sizeof error;
	long long start, last, gap = 0;

	/* The peer is gone: after a probe data is sent again at doubled distances, 120 s at most, until the stack gives up. */
	EQ(so.write(U, conn, "abc", 3), 3);
	expect_bytes(1, 1, "abc", 3);
	start = last = got.at_us;
	while (try_sniff()) {
		EQ(got.seq - isn, 1);
		EQ(got.len, 3);
		sent++;
		if (sent > 2) {
			gap = sent == 3 ? got.at_us - last : 2 * gap < 120000000 ? 2 * gap : 120000000;
			CHECK(got.at_us - last > gap - gap / 8 && got.at_us - last < gap + gap / 8);
		}
		last = got.at_us;
	}
	CHECK(sent >= 15 && sent <= 17);
	CHECK(last - start > 600000000);
	EQ(so.getsockopt(U, conn, SOL_SOCKET, SO_ERROR, &error, &len), 0);
	EQ(error, ETIMEDOUT);
	CHECK(clock_reads < 5);

	/* packetdrill's way to an event: usleep() to 20 us before it, then it looks at the clock until the time has come. */
	start = now_us();
	for (int i = 1; i <= 1000; i++) {
		wait_until(start + i * 1000000LL);
		CHECK(now_us() < start + i * 1000000LL + 100);
	}
	CHECK(clock_reads < 1000 * 30);
	int fds[] = {fd, conn};
	teardown(fds, 2, 1, 4);
}

/* --- the process and its namespace --- */

/* Settings are those of the network namespace, read when they matter. */
static void settings(void)
{
	int fd = listener(), one = 1;

	/* Between listen() and the SYN, by whomever. */
	FILE *f = fopen("/proc/sys/net/ipv4/tcp_timestamps", "w");
	CHECK(f && fputs("0", f) > 0 && fclose(f) == 0);
	inject(SYN, 0, 0, SYN_STAMPED, 20, 0);
	expect(SYN | ACK, 0, 1, 0);
	EQ(got.options_len, 12);
	EQ(memcmp(got.options, "\2\4\5\264\1\1\4\2\1\3\3", 11), 0);
	inject_plain(ACK, 1, 1, 0);
	int conn = accept_one(fd);

	/* In the middle of a connection, by a command of the script. */
	EQ(system("echo 5 > /proc/sys/net/ipv4/tcp_keepalive_time"), 0);
	long long start = now_us();
	EQ(so.setsockopt(U, conn, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one), 0);
	expect(ACK, 0, 1, 0);
	near(got.at_us, start + 5000000);
	inject_plain(RST | ACK, 1, 1, 0);

	/* The largest receive buffer makes the window scale. */
	EQ(system("echo 4096 540000 15728640 > /proc/sys/net/ipv4/tcp_rmem"), 0);
	peer_port++;
	int next = established(fd);
	(void)next;
	peer_port++;
	inject_syn(SYN, 0);
	expect(SYN | ACK, 0, 1, 0);
	EQ(got.options[11], 8);
	int fds[] = {fd, conn, next};
	teardown(fds, 3, 1, 1);
}

/* Commands see the stack's counters: what nstat prints has changed since it was called last. */
static void counters(void)
{
	EQ(system("nstat -n"), 0);
	int fd = listener();
	int conn = established(fd);
	EQ(system("nstat | grep -q '^TcpPassiveOpens  *1 '"), 0);
	EQ(system("nstat | grep -q TcpPassiveOpens"), 1 << 8);
	EQ(system("nstat -az 'TcpExtTCPTimeout*' | grep -q '^TcpExtTCPTimeouts  *0 '"), 0);

	/* One segment that nobody acknowledges: the timer runs out while the clock stands between two commands. */
	EQ(so.write(U, conn, "x", 1), 1);
	wait_until(now_us() + 5000000);
	EQ(system("nstat -s | grep -q '^TcpExtTCPTimeouts'"), 0);
	EQ(system("test \"$(nstat TcpRetransSegs | grep -c Tcp)\" = 1"), 0);
	EQ(system("exit 7"), 7 << 8);
	int fds[] = {fd, conn};
	teardown(fds, 2, 1, 2);
}

/* What the namespace's route to the peer asks of connections counts for those that begin behind the command. */
static void routes(void)
{
	char name[16] = "";
	socklen_t len = sizeof name;

	EQ(system("ip link set lo up && ip tuntap add dev tun0 mode tun && ip address add 192.168.0.1/16 dev tun0 && ip link set tun0 up"), 0);
	EQ(system("ip route add 192.0.2.0/24 via 192.168.0.2 advmss 900 initcwnd 3 congctl reno"), 0);
	int fd = listener();
	inject_syn(SYN, 0);
	expect(SYN | ACK, 0, 1, 0);
	EQ(got.options[2] << 8 | got.options[3], 900);
	inject_plain(ACK, 1, 1, 0);
	int conn = accept_one(fd);
	EQ(so.getsockopt(U, conn, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
	EQ(strcmp(name, "reno"), 0);
	static char data[8000];
	EQ(so.write(U, conn, data, sizeof data), sizeof data);
	for (int i = 0; i < 3; i++)
		expect(ACK, 1 + i * 1460, 1, 1460);
	inject_plain(RST | ACK, 1, 4381, 0);

	/* A command takes it back. */
	EQ(system("ip route replace 192.0.2.0/24 via 192.168.0.2"), 0);
	peer_port++;
	inject_syn(SYN, 0);
	expect(SYN | ACK, 0, 1, 0);
	EQ(got.options[2] << 8 | got.options[3], 1460);
	int fds[] = {fd, conn};
	teardown(fds, 2, 1, 1);
}

/* What packetdrill makes of its own only where it has no shared object: a device for a script's commands. */
static void device(void)
{
	bool v6 = world.v6;

	EQ(system("ip link show dev tun0 >/dev/null 2>&1"), 1 << 8);
	so.free(U);
	/* This run's script has a command. */
	init(v6 ? "ip_version=ipv6" : NULL);
	EQ(system("tc qdisc add dev tun0 root pfifo"), 0);
	if (v6)
		EQ(system("ip -6 address show dev tun0 | grep -q ' fd3d:a0b:17d6::1/48 ' && "
			  "ip route get 2001:db8::1 | grep -q 'dev tun0'"), 0);
	else
		EQ(system("ip address show dev tun0 | grep -q ' 192.168.0.1/16 ' && ip route get 192.0.2.1 | grep -q 'dev tun0'"), 0);
	int fd = listener(), conn = established(fd), fds[] = {fd, conn};
	teardown(fds, 2, 1, 1);
}

/* After mlockall() and with SCHED_RR, as packetdrill runs: no thread of ours, no big arena. */
static void footprint(void)
{
	long pages = 0, before = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	CHECK(f && fscanf(f, "%*d %ld", &before) == 1);
	fclose(f);
	for (int i = 0; i < 20; i++) {
		int fd = listener(), conn = established(fd), fds[] = {fd, conn};
		for (int j = 0; j < 2; j++)
			EQ(so.close(U, fds[j]), 0);
		inject_plain(RST | ACK, 1, 1, 0);
		peer_port++;
	}
	f = fopen("/proc/self/statm", "r");
	CHECK(f && fscanf(f, "%*d %ld", &pages) == 1);
	fclose(f);
	if (pages > 64 << 8)
		FAIL("%ld pages are resident (%ld before)", pages, before);
	f = popen("ls /proc/$PPID/task | wc -l", "r");
	int threads = 0;
	CHECK(f && fscanf(f, "%d", &threads) == 1);
	pclose(f);
	EQ(threads, 1);
	teardown(NULL, 0, 1, 1);
}

/* Without --so_flags both families have packetdrill's addresses. */
static void no_flags(void)
{
	so.free(U);
	init(NULL);
	int fd = listener(), conn = established(fd);
	inject_plain(RST | ACK, 1, 1, 0);
	EQ(so.close(U, fd), 0);
	EQ(so.close(U, conn), 0);
	world.v6 = 1, domain = AF_INET6;
	inet_pton(AF_INET6, "fd3d:a0b:17d6::1", world.local);
	inet_pton(AF_INET6, "fd3d:fa7b:d17d::1", world.remote);
	fd = listener(), conn = established(fd);
	int fds[] = {fd, conn};
	teardown(fds, 2, 1, 1);
}

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void put_world(int v6, const char *local, const char *remote)
{
	world.v6 = v6, domain = v6 || mapped ? AF_INET6 : AF_INET;
	EQ(inet_pton(v6 ? AF_INET6 : AF_INET, local, world.local), 1);
	EQ(inet_pton(v6 ? AF_INET6 : AF_INET, remote, world.remote), 1);
}

/* Told nothing, packetdrill draws its local address: the stack takes the one that is bound, or the one that a packet goes to. */
static void drawn_address(void)
{
	struct sockaddr_storage addr;
	int v6 = world.v6;

	for (int bound = 0; bound < 3; bound++) {
		so.free(U);
		put_world(v6, v6 ? "fd3d:fa7b:d17d::8bad:f00d" : "192.168.203.77", v6 ? "2001:db8::1" : "192.0.2.1");
		/* Also where the stack was told one and packetdrill was not. */
		init(bound < 2 ? NULL : v6 ? "ip_version=ipv6,local_ip=fd3d:a0b:17d6::1" : "local_ip=192.168.0.1");
		int fd = so.socket(U, domain, SOCK_STREAM, IPPROTO_TCP);
		if (bound)
			EQ(so.bind(U, fd, (void *)&addr, address(&addr, world.local, PORT)), 0);
		else if (v6)
			EQ(so.bind(U, fd, (void *)&addr, address(&addr, (uint8_t[16]){0}, PORT)), 0);
		else
			EQ(so.bind(U, fd, (void *)&addr, address(&addr, (uint8_t[4]){0}, PORT)), 0);
		EQ(so.listen(U, fd, 8), 0);
		int conn = established(fd), fds[] = {conn, fd};
		/* It is one address: others stay strangers. */
		world.local[3] ^= 1, world.local[15] ^= 1;
		int other = so.socket(U, domain, SOCK_STREAM, IPPROTO_TCP);
		ERR(so.bind(U, other, (void *)&addr, address(&addr, world.local, PORT)), EADDRNOTAVAIL);
		world.local[3] ^= 1, world.local[15] ^= 1;
		EQ(close(other), 0);
		for (int i = 0; i < 2; i++)
			EQ(close(fds[i]), 0);
		inject_plain(RST | ACK, 1, 1, 0);
	}
	so.free(U);
}

/* The addresses and the MTU of packetdrill's own runner, which are on its command line alone, and a cookie of Fast Open that it knows. */
static void runner(const char *cookie)
{
	/* mss 1460, sackOK, wscale and a request for a cookie */
	static const char request[] = "\2\4\5\264\1\1\4\2\1\3\3\7\42\2\1\1";
	char expected[17] = "";

	so.free(U);
	put_world(world.v6, world.v6 ? "fd3d:fa7b:d17d::" : "192.168.0.2", world.v6 ? "2001:db8::1" : "192.0.2.1");
	init(NULL);
	/* What common/defaults.sh sets, as far as the kernel lets it; the stack refuses none of it, which it would say. */
	EQ(system("cd /proc/sys/net/ipv4 && "
		  "for s in tcp_rmem='4096 540000 15728640' tcp_wmem='4096 262144 4194304' tcp_timestamps=1 tcp_syn_retries=5 "
		  "tcp_synack_retries=5 tcp_frto=2 tcp_sack=1 tcp_dsack=1 tcp_fack=0 tcp_reordering=3 tcp_congestion_control=cubic "
		  "tcp_slow_start_after_idle=0 tcp_early_retrans=4 tcp_recovery=1 tcp_tso_win_divisor=3 tcp_ecn=0 "
		  "tcp_pacing_ss_ratio=200 tcp_pacing_ca_ratio=120 tcp_notsent_lowat=4294967295 tcp_fastopen=0x70403 "
		  "tcp_fastopen_key=a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4 tcp_syncookies=1; "
		  "do echo \"${s#*=}\" > ${s%%=*}; done 2>/dev/null; true"), 0);
	int fd = listener();
	EQ(so.setsockopt(U, fd, IPPROTO_TCP, TCP_FASTOPEN, &(int){8}, sizeof(int)), 0);
	inject(SYN, 0, 0, request, 16, 0);
	expect(SYN | ACK, 0, 1, 0);
	/* 1460 bytes in every mode. */
	EQ(get32(got.options), 0x020405b4);
	for (int i = 0; i + 10 <= got.options_len; i++) {
		if (got.options[i] != 34 || got.options[i + 1] != 10)
			continue;
		for (int j = 0; j < 8; j++)
			sprintf(expected + 2 * j, "%02x", got.options[i + 2 + j]);
	}
	if (strcmp(expected, cookie) != 0)
		FAIL("the cookie is '%s', not '%s'", expected, cookie);
	inject_plain(ACK, 1, 1, 0);
	int fds[] = {accept_one(fd), fd};
	teardown(fds, 2, 1, 1);
}

static void runner_v4(void) { runner("de4f234f0f433a55"); }
static void runner_v6(void) { runner("6aa6ae70c288023b"); }

/* packetdrill's second thread is there before the shared object is. */
static sem_t asked, answered;

static void *early_thread(void *unused)
{
	while (sem_wait(&asked) == 0 && job) {
		job_ret = job();
		job_end = now_us();
		sem_post(&answered);
	}
	return unused;
}

/* Several scripts in one process, as when packetdrill's command line has several: a machine for each, and nothing is left of it. */
static void scripts(const char *path, const char *mode)
{
	int p[2], before = 0;

	so.free(U);
	EQ(dlclose(library), 0);
	sem_init(&asked, 0, 0), sem_init(&answered, 0, 0);
	EQ(pthread_create(&thread, NULL, early_thread, NULL), 0);
	for (int i = 0; i < 5; i++) {
		open_library(path);
		load(mode);
		EQ(system("true"), 0);
		long long start = now_us();
		wait_until(start + 250);
		int fd = listener(), ep = so.epoll_create(U, 1);
		CHECK(ep >= 0);
		EQ(so.pipe(U, p), 0);
		job = job_accept_any, job_fd = fd;
		sem_post(&asked);
		inject_syn(SYN, 0);
		expect(SYN | ACK, 0, 1, 0);
		inject_plain(ACK, 1, 1, 0);
		sem_wait(&answered);
		CHECK(job_end >= start + 250);
		int conn = (int)job_ret, fds[] = {conn, fd};
		CHECK(conn >= 0);
		EQ(so.write(U, conn, "abc", 3), 3);
		expect_bytes(1, 1, "abc", 3);
		EQ(system("true"), 0);
		teardown(fds, 2, 1, 4);
		/* Epoll sets and pipes are those that packetdrill leaves open. */
		ERR(fcntl(ep, F_GETFD), EBADF);
		ERR(fcntl(p[0], F_GETFD), EBADF);
		if (i == 0)
			before = open_files();
		EQ(open_files(), before);
		peer_port++;
	}
	job = NULL;
	sem_post(&asked);
	EQ(pthread_join(thread, NULL), 0);
	open_library(path);
	load(mode);
}

/* What is called without a machine, as by a second thread when a run that has failed frees it, is refused. */
static void after_free(void)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof addr;
	struct epoll_event e = {0};
	struct pollfd poll_fd = {0, POLLIN, 0};
	struct timeval tv;
	struct msghdr m = {0};
	char buf[100];
	size_t n = sizeof buf;
	long long at;
	int p[2], fd = listener();

	job_fd = fd;
	start_blocking(job_accept_any);
	so.free(U);
	sem_wait(&returned), sem_post(&go_on);
	EQ(pthread_join(thread, NULL), 0);
	EQ(job_ret, -1);
	EQ(job_errno, EBADF);
	so.free(U);
	ERR(so.socket(U, domain, SOCK_STREAM, IPPROTO_TCP), EBADF);
	ERR(so.bind(U, fd, (void *)&addr, address(&addr, world.local, PORT)), EBADF);
	ERR(so.accept(U, fd, (void *)&addr, &len), EBADF);
	ERR(so.recvmsg(U, fd, &m, 0), EBADF);
	ERR(so.read(U, fd, buf, 1), EBADF);
	ERR(so.send(U, fd, buf, 1, 0), EBADF);
	ERR(so.getsockopt(U, fd, SOL_SOCKET, SO_ERROR, buf, &len), EBADF);
	ERR(so.poll(U, &poll_fd, 1, 100), EBADF);
	ERR(so.epoll_create(U, 1), EBADF);
	ERR(so.epoll_wait(U, fd, &e, 1, 100), EBADF);
	ERR(so.pipe(U, p), EBADF);
	ERR(so.fcntl(U, fd, F_GETFL), EBADF);
	ERR(so.close(U, fd), EBADF);
	EQ(so.usleep(U, 1000), 0);
	EQ(so.gettimeofday(U, &tv, NULL), 0);
	inject_syn(SYN, 0);
	EQ(so.netdev_receive(U, buf, &n, &at), 0);
	EQ(n, 0);
}

/* packetdrill's end: for each socket, the youngest first, libc's close() unless the script has closed it, and then an RST. */
static void end_of_script(void)
{
	struct sockaddr_storage remote;
	int fd = listener(), conn = established(fd);
	uint16_t port = peer_port;
	uint32_t first = isn;

	/* One that the script has closed, and one that still connects. */
	peer_port++;
	int closed = established(fd);
	uint32_t second = isn;
	EQ(so.close(U, closed), 0);
	expect(FIN | ACK, 1, 1, 0);
	int active = so.socket(U, domain, SOCK_STREAM, IPPROTO_TCP);
	EQ(so.fcntl(U, active, F_SETFL, O_RDWR | O_NONBLOCK), 0);
	peer_port = PORT;
	ERR(so.connect(U, active, (void *)&remote, address(&remote, world.remote, PORT)), EINPROGRESS);
	expect(SYN, 0, 0, 0);

	EQ(close(active), 0);
	inject_plain(RST | ACK, 0, 1, 0);
	local_port = PORT, peer_port = port + 1, isn = second;
	inject_plain(RST | ACK, 1, 1, 0);
	peer_port = port, isn = first;
	EQ(close(conn), 0);
	inject_plain(RST | ACK, 1, 1, 0);
	/* The listener has no connection of its own: nothing is injected. */
	EQ(close(fd), 0);
	so.free(U);
	EQ(dlclose(library), 0);
	/* RTLD_NODELETE: what the process does at its end is still there. */
	ERR(close(fd), EBADF);
}

/* A caller without standard streams: no socket takes their numbers. */
static void no_streams(void)
{
	int p[2];

	EQ(close(0), 0);
	EQ(close(1), 0);
	int fd = listener(), conn = established(fd), fds[] = {conn, fd};
	EQ(so.pipe(U, p), 0);
	CHECK(fd > 2 && conn > 2 && p[0] > 2 && p[1] > 2);
	teardown(fds, 2, 1, 1);
}

/* --- what ends the process with 1 and a reason --- */

static void bad_flag(void) { init("ip_version=ipv4,tso=1"); }
static void bad_text(void) { init("ip_version=ipv4,\xff"); }

/* packetdrill's way to end after a failure: exit() without free(). */
static void failure(void)
{
	established(listener());
	exit(1);
}

/* The same while a call of the second thread blocks, and from within that thread. */
static void abandoned(void)
{
	job_fd = listener();
	start_blocking(job_accept_any);
	exit(1);
}

static void *gives_up(void *unused)
{
	so.usleep(U, 1000);
	exit(1);
	return unused;
}

static void abandoned_by_the_second(void)
{
	pthread_t second;

	established(listener());
	EQ(pthread_create(&second, NULL, gives_up, NULL), 0);
	for (;;)
		now_us();
}

static void deadlock(void)
{
	char byte;
	int fd = listener(), conn = established(fd);

	so.read(U, conn, &byte, 1);
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{"options", options},     {"passive", passive},     {"active", active},       {"errors", errors}, {"privileges", privileges},
	{"messages", messages}, {"error_queue", error_queue}, {"large", large},   {"epoll", epoll},         {"snippets", snippets},   {"pipes", pipes}, {"second_belt", second_belt},
	{"blocking", blocking}, {"result_after_sleep", result_after_sleep}, {"awaited", awaited},   {"calibration", calibration}, {"end_of_script", end_of_script}, {"end", end_of_time},     {"timing", timing},       {"settings", settings}, {"counters", counters}, {"routes", routes}, {"device", device},
	{"datagrams", datagrams}, {"icmp", icmp}, {"footprint", footprint}, {"no_flags", no_flags},   {"bad_flag", bad_flag}, {"bad_text", bad_text},   {"deadlock", deadlock}, {"failure", failure}, {"abandoned", abandoned}, {"abandoned_by_the_second", abandoned_by_the_second},
	{"noise", noise},       {"busy", busy}, {"drawn_address", drawn_address}, {"runner_v4", runner_v4}, {"runner_v6", runner_v6}, {"after_free", after_free}, {"no_streams", no_streams},
};

int main(int argc, char **argv)
{
	if (argc < 3)
		FAIL("usage: driver LIBRARY SCENARIO [ipv4|mapped|ipv6]");
	/* A namespace of its own has the kernel's default settings, whatever this machine's are. */
	bool alone = unshare(CLONE_NEWNET) == 0;
	if (!alone && (strcmp(argv[2], "settings") == 0 || strcmp(argv[2], "routes") == 0 || strcmp(argv[2], "device") == 0 || strncmp(argv[2], "runner", 6) == 0)) {
		fprintf(stderr, "root (a network namespace)\n");
		return 77;
	}
	/* The controller is the machine's, though; Reno may be chosen everywhere. */
	FILE *f = alone ? fopen("/proc/sys/net/ipv4/tcp_congestion_control", "w") : NULL;
	if (f)
		CHECK(fputs("reno", f) > 0 && fclose(f) == 0);
	if (geteuid() == 0) {
		struct sched_param p = {.sched_priority = 1};

		/* Where a container allows them, what packetdrill does first. */
		(void)!mlockall(MCL_CURRENT | MCL_FUTURE);
		(void)!sched_setscheduler(0, SCHED_RR, &p);
	}
	open_library(argv[1]);
	load(argc > 3 ? argv[3] : "ipv4");
	if (strcmp(argv[2], "scripts") == 0) {
		scripts(argv[1], argc > 3 ? argv[3] : "ipv4");
		return 0;
	}
	for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
		if (strcmp(scenarios[i].name, argv[2]) == 0) {
			scenarios[i].run();
			return 0;
		}
	}
	FAIL("no scenario '%s'", argv[2]);
}
