/* Calls and packets that nobody should make, drawn from a seed: nothing may crash, hang or leave the process. */
#ifndef NOISE_H
#define NOISE_H
#include "drive.h"

enum { FDS = 16, ROUNDS = 20000 };

/* Each thread draws for itself. */
static _Thread_local uint64_t noise_state;
static int noise_fds[FDS];

static uint32_t draw(uint32_t below)
{
	noise_state ^= noise_state << 13, noise_state ^= noise_state >> 7, noise_state ^= noise_state << 17;
	return (uint32_t)(noise_state >> 32) % below;
}

#define ONE_OF(...) ((const int[]){__VA_ARGS__}[draw(sizeof((int[]){__VA_ARGS__}) / sizeof(int))])

static int *slot(void) { return &noise_fds[draw(FDS)]; }
static int any_fd(void) { return draw(20) ? *slot() : ONE_OF(-1, 99999, 2147483647); }

/* Whatever blocked in this single thread could block for ever. */
static void no_waiting(int fd)
{
	if (fd >= 0)
		so.fcntl(U, fd, F_SETFL, O_RDWR | O_NONBLOCK);
}

static void keep(int fd)
{
	int *place = slot();

	if (fd < 0)
		return;
	if (*place >= 0)
		so.close(U, *place);
	*place = fd;
	no_waiting(fd);
}

static socklen_t some_address(struct sockaddr_storage *out)
{
	socklen_t len = address(out, draw(2) ? world.local : world.remote, (uint16_t)ONE_OF(PORT, 0, 40000, 9));

	if (draw(8) == 0)
		out->ss_family = (sa_family_t)ONE_OF(AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, 999);
	return draw(8) ? len : draw(40);
}

static void noise_packet(void)
{
	static struct segment s;
	static uint8_t packet[MAX_PACKET];
	size_t n;

	memset(&s, 0, offsetof(struct segment, payload));
	s.from = (uint16_t)(draw(4) ? peer_port : draw(65536)), s.to = draw(8) ? local_port : PORT;
	s.flags = (uint8_t)(draw(3) ? ONE_OF(SYN, SYN | ACK, ACK, ACK | PSH, ACK | FIN, RST, RST | ACK) : (int)draw(256));
	s.seq = peer_isn + (draw(3) ? draw(3000) : draw(0xffffffff));
	s.ack = isn + (draw(3) ? draw(3000) : draw(0xffffffff));
	s.window = (uint16_t)draw(65536);
	s.options_len = (int)draw(11) * 4, s.len = draw(2) ? 0 : (int)draw(3000);
	for (int i = 0; i < s.options_len; i++)
		s.options[i] = (uint8_t)(draw(3) ? ONE_OF(0, 1, 2, 3, 4, 5, 8, 10, 30, 34, 254) : (int)draw(256));
	n = draw(6) ? build(&world, &s, packet) : build_udp(&world, s.from, s.to, "noise", 5, packet);
	/* What is damaged behind the checksums is dropped; what is cut short must be noticed. */
	if (draw(10) == 0)
		packet[draw((uint32_t)n)] ^= (uint8_t)(1 << draw(8));
	if (draw(20) == 0)
		n = draw((uint32_t)n + 1);
	EQ(so.netdev_send(U, packet, n), 0);
}

/* A peer without a memory: it answers a packet of the stack as that packet asks for, or nearly so. */
static void noise_answer(const struct segment *from_stack)
{
	static struct segment s;
	static uint8_t packet[MAX_PACKET];
	const struct segment *f = from_stack;

	memset(&s, 0, offsetof(struct segment, payload));
	s.from = f->to, s.to = f->from, s.flags = ACK, s.window = (uint16_t)(draw(9) ? 5000 : draw(3000));
	s.seq = f->ack, s.ack = f->seq + (uint32_t)f->len + (f->flags & SYN ? 1 : 0) + (f->flags & FIN ? 1 : 0);
	if (f->flags & SYN && !(f->flags & ACK)) {
		s.flags = SYN | ACK, s.seq = draw(0xffffffff);
		memcpy(s.options, SYN_OPTIONS, 12), s.options_len = 12;
	} else if (draw(3) == 0) {
		s.flags |= PSH, s.len = (int)draw(1460);
	} else if (draw(30) == 0) {
		s.flags |= FIN;
	}
	/* Reordering and duplicates. */
	if (draw(9) == 0)
		s.seq += draw(3000);
	if (draw(9) == 0)
		s.ack -= draw(3000);
	peer_port = s.from, local_port = s.to, peer_isn = s.seq - 1, isn = s.ack - 1;
	EQ(so.netdev_send(U, packet, build(&world, &s, packet)), 0);
}

static void noise_sniff(void)
{
	static uint8_t packet[MAX_PACKET];
	static struct segment s;
	size_t n = sizeof packet;
	long long at;

	EQ(so.netdev_receive(U, packet, &n, &at), 0);
	if (n == 0 || packet[world.v6 ? 6 : 9] != 6)
		return;
	dissect(&world, packet, n, &s);
	if (!(s.flags & RST) && draw(10))
		noise_answer(&s);
}

/* Somebody connects and is accepted. */
static void noise_open(int fd)
{
	peer_port = (uint16_t)(1024 + draw(60000)), local_port = PORT;
	if (draw(2))
		inject_syn(SYN, 0);
	else
		inject(SYN, 0, 0, SYN_STAMPED, 20, 0);
	for (int i = 0; i < 3; i++)
		noise_sniff();
	keep(so.accept(U, fd, NULL, NULL));
}

static void noise_data(void)
{
	static char buf[70000];
	struct iovec iov[3] = {{buf, draw(3000)}, {draw(10) ? buf : NULL, draw(3)}, {buf, draw(sizeof buf)}};
	struct sockaddr_storage addr;
	char control[128];
	socklen_t len = some_address(&addr);
	int flags = draw(3) ? ONE_OF(0, MSG_PEEK, MSG_MORE, MSG_TRUNC, MSG_OOB, MSG_EOR, MSG_ERRQUEUE, MSG_FASTOPEN)
			    : (int)draw(0xffffffff);
	void *at = draw(20) ? buf : NULL;
	size_t n = draw(10) ? draw(3000) : draw(sizeof buf);

	memset(control, 0, sizeof control);
	for (size_t i = 0; i < sizeof control; i += 4)
		control[i] = (char)ONE_OF(0, 1, 16, 20, 24, 64);
	struct msghdr m = {draw(3) ? NULL : &addr, len, iov, draw(4), control, draw(2) ? 0 : draw(sizeof control), 0};

	switch (draw(12)) {
	case 0: so.read(U, any_fd(), at, n); break;
	case 1: so.readv(U, any_fd(), iov, (int)draw(5) - 1); break;
	case 2: so.recv(U, any_fd(), at, n, flags | MSG_DONTWAIT); break;
	case 3: so.recvfrom(U, any_fd(), at, n, flags | MSG_DONTWAIT, (void *)&addr, &len); break;
	case 4: so.recvmsg(U, any_fd(), &m, flags | MSG_DONTWAIT); break;
	case 5: so.write(U, any_fd(), at, n); break;
	case 6: so.writev(U, any_fd(), iov, (int)draw(5) - 1); break;
	case 7: so.send(U, any_fd(), at, n, flags | MSG_DONTWAIT); break;
	case 8: so.sendto(U, any_fd(), at, n, flags | MSG_DONTWAIT, (void *)&addr, len); break;
	case 9: so.sendmsg(U, any_fd(), &m, flags | MSG_DONTWAIT); break;
	case 10: so.splice(U, any_fd(), NULL, any_fd(), NULL, n, SPLICE_F_NONBLOCK); break;
	default: sendfile(any_fd(), any_fd(), NULL, n); break;
	}
}

static void noise_option(void)
{
	char value[300];
	int level = draw(10) ? ONE_OF(SOL_SOCKET, IPPROTO_IP, IPPROTO_TCP, IPPROTO_IPV6) : (int)draw(200), fd = any_fd();
	int name = (int)draw(90), number = draw(2) ? (int)draw(5000) : (int)draw(0xffffffff);
	socklen_t len = draw(2) ? 4 : draw(sizeof value);

	memset(value, (int)draw(256), sizeof value);
	memcpy(value, &number, 4);
	if (draw(2)) {
		so.setsockopt(U, fd, level, name, draw(20) ? value : NULL, draw(50) ? len : (socklen_t)-1);
	} else {
		so.getsockopt(U, fd, level, name, draw(20) ? value : NULL, &len);
	}
}

static void noise_call(void)
{
	struct sockaddr_storage addr;
	socklen_t len = some_address(&addr);
	struct pollfd p[3] = {{any_fd(), (short)draw(65536), 0}, {any_fd(), POLLIN, 0}, {any_fd(), POLLOUT, 0}};
	struct epoll_event e[3] = {{draw(2) ? EPOLLIN | EPOLLOUT : draw(0xffffffff), {.u64 = 7}}};
	int two[2], number = (int)draw(100), fd = any_fd(), *place = slot();

	switch (draw(20)) {
	case 0: keep(so.socket(U, draw(9) ? domain : ONE_OF(AF_INET, AF_INET6, 77), draw(9) ? ONE_OF(1, 1, 2) : (int)draw(9),
			       draw(2) ? 0 : ONE_OF(6, 17, 1, 132))); break;
	case 1: case 2: so.bind(U, fd, (void *)&addr, len); break;
	case 3: if (draw(9) == 0) so.listen(U, fd, (int)draw(9) - 1); break;
	case 4: case 5: keep(so.accept(U, fd, (void *)&addr, &len)); break;
	case 6: so.connect(U, fd, (void *)&addr, len); break;
	case 7: if (draw(9) == 0) so.shutdown(U, fd, (int)draw(4)); break;
	case 8: if (draw(9) == 0 && *place >= 0) close(*place), *place = -1; break;
	case 9: keep(so.epoll_create(U, (int)draw(3))); break;
	case 10: case 11: so.epoll_ctl(U, any_fd(), (int)draw(5), fd, draw(20) ? e : NULL); break;
	case 12: so.epoll_wait(U, fd, e, (int)draw(4), (int)draw(50)); break;
	case 13: so.poll(U, p, draw(4), (int)draw(50)); break;
	case 14: if (draw(4) == 0 && so.pipe(U, two) == 0) keep(two[0]), keep(two[1]); break;
	case 15: keep(so.fcntl(U, fd, F_DUPFD, (int)draw(5000))); break;
	case 16: so.fcntl(U, fd, (int)draw(1040), (int)draw(0xffff)), no_waiting(fd); break;
	case 17: so.ioctl(U, fd, (unsigned long)ONE_OF(SIOCINQ, SIOCOUTQ, SIOCOUTQNSD, FIONBIO, 0x8905, 77), &number);
		 no_waiting(fd); break;
	default: so.setsockopt(U, fd, SOL_SOCKET, SO_REUSEADDR, &number, sizeof number); break;
	}
}

static void noise(void)
{
	const char *seed = getenv("SEED");

	noise_state = 0x9e3779b97f4a7c15 ^ (seed ? strtoull(seed, NULL, 10) : 1);
	for (int i = 0; i < FDS; i++)
		noise_fds[i] = -1;
	int fd = listener();

	no_waiting(fd);
	for (int i = 0; i < ROUNDS; i++) {
		switch (draw(8)) {
		case 0: if (draw(4) == 0) noise_packet(); break;
		case 1: case 2: noise_data(); break;
		case 3: if (draw(4) == 0) noise_option(); break;
		case 4: case 5: noise_sniff(); break;
		case 6: draw(4) ? so.usleep(U, draw(100) ? draw(1000) : draw(10000000)) : (noise_open(fd), 0); break;
		default: if (draw(2)) noise_call(); break;
		}
	}
	so.free(U);
}

/* --- two threads: packetdrill's second one makes calls that block, the first one everything else --- */

enum { BUSY_ROUNDS = 3000 };

static _Atomic int busy_fds[FDS];
static _Atomic bool busy_over;
static _Atomic long busy_blocked;

static int busy_fd(void) { return busy_fds[draw(FDS)]; }

static void busy_keep(int fd)
{
	/* Most calls end by themselves. */
	struct timeval patience = {0, 1 + (int)draw(100000)};
	int old;

	if (fd < 0)
		return;
	if (draw(9)) {
		so.setsockopt(U, fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
		so.setsockopt(U, fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	}
	old = atomic_exchange(&busy_fds[draw(FDS)], fd);
	if (old >= 0)
		so.close(U, old);
}

/* What a thread reads never goes back; after a call that had blocked, that call's end comes first. */
static void busy_clock(long long *last)
{
	struct timeval tv;

	EQ(so.gettimeofday(U, &tv, NULL), 0);
	long long at = (long long)tv.tv_sec * 1000000 + tv.tv_usec;
	/* Without a machine there is no clock. */
	if (at == 0)
		return;
	if (at < *last)
		FAIL("the clock went back by %lld us", *last - at);
	*last = at;
}

static void *busy_second(void *seed)
{
	static char buf[100000];
	struct sockaddr_storage addr;
	struct epoll_event event;
	struct iovec iov[2] = {{buf, 1000}, {buf, sizeof buf}};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
	long long last = 0;

	noise_state = (uint64_t)(uintptr_t)seed;
	while (!busy_over) {
		struct pollfd p[2] = {{busy_fd(), POLLIN, 0}, {busy_fd(), POLLIN | POLLOUT, 0}};
		int fd = busy_fd();

		switch (draw(9)) {
		case 0: so.read(U, fd, buf, 1 + draw(5000)); break;
		case 1: so.recv(U, fd, buf, 1 + draw(5000), (int)draw(2) * MSG_WAITALL); break;
		case 2: so.write(U, fd, buf, 1 + draw(sizeof buf)); break;
		case 3: so.sendmsg(U, fd, &m, MSG_NOSIGNAL); break;
		case 4: busy_keep(so.accept(U, fd, NULL, NULL)); break;
		case 5: so.connect(U, fd, (void *)&addr, address(&addr, world.remote, (uint16_t)ONE_OF(PORT, 9))); break;
		case 6: so.poll(U, p, 2, draw(99) ? ONE_OF(0, 10, 3000) : -1); break;
		case 7: so.epoll_wait(U, fd, &event, 1, draw(99) ? ONE_OF(0, 10, 3000) : -1); break;
		default: so.sendto(U, fd, buf, 1 + draw(3000), MSG_FASTOPEN, (void *)&addr, address(&addr, world.remote, PORT)); break;
		}
		busy_blocked++;
		busy_clock(&last);
	}
	return NULL;
}

/* A call of the first thread: none that blocks, since it would move the clock by itself. */
static void busy_call(void)
{
	static char buf[70000];
	struct pollfd p[2] = {{busy_fd(), POLLIN, 0}, {busy_fd(), POLLOUT, 0}};
	struct epoll_event event = {EPOLLIN | EPOLLOUT | (draw(2) ? EPOLLET : 0), {.u64 = 7}};
	struct tcp_info info;
	socklen_t len = sizeof info;
	int fd = busy_fd(), number = (int)draw(100000);

	switch (draw(12)) {
	case 0: case 1: busy_keep(so.socket(U, domain, ONE_OF(SOCK_STREAM, SOCK_STREAM, SOCK_DGRAM), 0)); break;
	case 2: busy_keep(so.epoll_create(U, 1)); break;
	case 3: case 4: so.epoll_ctl(U, busy_fd(), ONE_OF(EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL), fd, &event); break;
	case 5: so.recv(U, fd, buf, draw(sizeof buf), MSG_DONTWAIT); break;
	case 6: so.send(U, fd, buf, draw(3000), MSG_DONTWAIT | MSG_NOSIGNAL); break;
	case 7: getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len); break;
	case 8: so.setsockopt(U, fd, SOL_SOCKET, ONE_OF(SO_RCVBUF, SO_SNDBUF, SO_RCVLOWAT), &number, sizeof number); break;
	case 9: so.poll(U, p, 2, 0); break;
	case 10: so.shutdown(U, fd, (int)draw(3)); break;
	default: if (draw(3) == 0 && (fd = atomic_exchange(&busy_fds[draw(FDS)], -1)) >= 0) close(fd); break;
	}
}

/* Somebody connects; which thread accepts is chance. */
static void busy_open(void)
{
	peer_port = (uint16_t)(1024 + draw(60000)), local_port = PORT;
	inject_syn(SYN, 0);
	for (int i = 0; i < 3; i++)
		noise_sniff();
}

/* A stack that is freed below a call, as after a failure, must let it go. */
static void busy(void)
{
	const char *env = getenv("SEED");
	uint64_t seed = env ? strtoull(env, NULL, 10) : 1;
	long long last = 0;
	pthread_t second;
	int fd = listener();

	noise_state = 0x9e3779b97f4a7c15 ^ seed;
	for (int i = 0; i < FDS; i++)
		busy_fds[i] = i < 2 ? so.fcntl(U, fd, F_DUPFD, 0) : -1;
	EQ(pthread_create(&second, NULL, busy_second, (void *)(uintptr_t)(0xdeadbeefcafe ^ seed)), 0);
	for (int i = 0; i < BUSY_ROUNDS; i++) {
		switch (draw(8)) {
		case 0: case 1: busy_call(); break;
		case 2: busy_open(); break;
		case 3: case 4: noise_sniff(); break;
		case 5: so.usleep(U, draw(100) ? draw(1000) : draw(10000000)); break;
		case 6: busy_clock(&last); break;
		default: draw(4) ? (void)sched_yield() : noise_packet(); break;
		}
	}
	busy_over = true;
	so.free(U);
	EQ(pthread_join(second, NULL), 0);
	CHECK(busy_blocked > 0);
}
#endif
