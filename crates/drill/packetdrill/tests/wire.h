/* The peer's side of the wire: builds and reads IPv4 and IPv6 packets with TCP, and checks every checksum. */
#ifndef WIRE_H
#define WIRE_H
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAIL(...)                                                                                                      \
	do {                                                                                                           \
		fprintf(stderr, "driver: %s:%d: ", __FILE__, __LINE__);                                                \
		fprintf(stderr, __VA_ARGS__);                                                                          \
		fprintf(stderr, "\n");                                                                                 \
		_exit(1);                                                                                              \
	} while (0)
#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what))                                                                                           \
			FAIL("%s does not hold (errno %d)", #what, errno);                                             \
	} while (0)
#define EQ(actual, expected)                                                                                           \
	do {                                                                                                           \
		long long a_ = (long long)(actual), e_ = (long long)(expected);                                        \
		if (a_ != e_)                                                                                          \
			FAIL("%s is %lld, not %s = %lld (errno %d)", #actual, a_, #expected, e_, errno);               \
	} while (0)
/* A call that fails with this errno. */
#define ERR(call, number)                                                                                              \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		long long r_ = (long long)(call);                                                                      \
		if (r_ != -1 || errno != (number))                                                                     \
			FAIL("%s gives %lld with errno %d, not -1 with %s", #call, r_, errno, #number);                \
	} while (0)

enum { FIN = 1, SYN = 2, RST = 4, PSH = 8, ACK = 16 };
enum { MAX_PACKET = 65536, PORT = 8080 };

/* Addresses as on the wire. */
struct world {
	int v6;
	uint8_t local[16], remote[16];
};

struct segment {
	long long at_us;
	uint16_t from, to;
	uint32_t seq, ack;
	uint16_t window;
	uint8_t flags;
	uint8_t options[40];
	int options_len;
	int len;
	uint8_t payload[MAX_PACKET];
};

static uint32_t sum16(const uint8_t *p, size_t n, uint32_t sum)
{
	for (; n > 1; p += 2, n -= 2)
		sum += (uint32_t)p[0] << 8 | p[1];
	return n ? sum + ((uint32_t)p[0] << 8) : sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
static uint32_t get32(const uint8_t *p) { return (uint32_t)get16(p) << 16 | get16(p + 2); }
static void put16(uint8_t *p, uint32_t v) { p[0] = (uint8_t)(v >> 8), p[1] = (uint8_t)v; }
static void put32(uint8_t *p, uint32_t v) { put16(p, v >> 16), put16(p + 2, v & 0xffff); }

static uint16_t checksum(const struct world *w, const uint8_t *ip, int protocol, const uint8_t *data, int len)
{
	const uint8_t *addresses = w->v6 ? ip + 8 : ip + 12;
	uint32_t sum = sum16(addresses, w->v6 ? 32 : 8, 0) + (uint32_t)protocol + (uint32_t)len;
	return fold(sum16(data, (size_t)len, sum));
}

/* Writes the header of a packet from the peer with so many bytes after it; returns its length. */
static int build_ip(const struct world *w, int protocol, int len, uint8_t *p)
{
	int ip = w->v6 ? 40 : 20;

	memset(p, 0, (size_t)ip);
	if (w->v6) {
		p[0] = 0x60;
		put16(p + 4, (uint32_t)len);
		p[6] = (uint8_t)protocol, p[7] = 255;
		memcpy(p + 8, w->remote, 16), memcpy(p + 24, w->local, 16);
	} else {
		p[0] = 0x45;
		put16(p + 2, (uint32_t)(ip + len));
		p[8] = 255, p[9] = (uint8_t)protocol;
		memcpy(p + 12, w->remote, 4), memcpy(p + 16, w->local, 4);
		put16(p + 10, fold(sum16(p, 20, 0)));
	}
	return ip;
}

/* Writes a datagram from the peer; returns the packet's length. */
static size_t build_udp(const struct world *w, uint16_t from, uint16_t to, const char *data, int len, uint8_t *p)
{
	int ip = build_ip(w, 17, 8 + len, p);
	uint8_t *udp = p + ip;

	put16(udp, from), put16(udp + 2, to), put16(udp + 4, (uint32_t)(8 + len)), put16(udp + 6, 0);
	memcpy(udp + 8, data, (size_t)len);
	put16(udp + 6, checksum(w, p, 17, udp, 8 + len));
	return (size_t)(ip + 8 + len);
}

/* Writes an ICMP message from the peer with so many bytes behind its first eight; returns the packet's length. */
static size_t build_icmp(const struct world *w, int type, int code, uint32_t rest, const uint8_t *behind, int len, uint8_t *p)
{
	int protocol = w->v6 ? 58 : 1, ip = build_ip(w, protocol, 8 + len, p);
	uint8_t *icmp = p + ip;

	memset(icmp, 0, 8);
	icmp[0] = (uint8_t)type, icmp[1] = (uint8_t)code;
	put32(icmp + 4, rest);
	memcpy(icmp + 8, behind, (size_t)len);
	put16(icmp + 2, w->v6 ? checksum(w, p, protocol, icmp, 8 + len) : fold(sum16(icmp, 8 + (size_t)len, 0)));
	return (size_t)(ip + 8 + len);
}

/* What packetdrill quotes of a packet of ours: an IP header without checksum or identification, of all that follows only the ports and TCP's
 * sequence number, and as many zeros as the packet had data. Returns its length. */
static int build_quote(const struct world *w, int protocol, uint16_t from, uint16_t to, uint32_t seq, int len, uint8_t *p)
{
	int ip = w->v6 ? 40 : 20, l4 = protocol == 6 ? 20 : 8;
	size_t addr = w->v6 ? 16 : 4;

	memset(p, 0, (size_t)(ip + 8 + len));
	if (w->v6)
		p[0] = 0x60, put16(p + 4, (uint32_t)(l4 + len)), p[6] = (uint8_t)protocol, p[7] = 255;
	else
		p[0] = 0x45, put16(p + 2, (uint32_t)(ip + l4 + len)), p[8] = 255, p[9] = (uint8_t)protocol;
	memcpy(p + (w->v6 ? 8 : 12), w->local, addr), memcpy(p + (w->v6 ? 8 : 12) + addr, w->remote, addr);
	put16(p + ip, from), put16(p + ip + 2, to);
	if (protocol == 6)
		put32(p + ip + 4, seq);
	return ip + 8 + len;
}

/* Writes the packet of a segment from the peer; returns its length. */
static size_t build(const struct world *w, const struct segment *s, uint8_t *p)
{
	int header = 20 + s->options_len, tcp_len = header + s->len, ip = build_ip(w, 6, tcp_len, p);
	uint8_t *tcp = p + ip;

	memset(tcp, 0, (size_t)header);
	put16(tcp, s->from), put16(tcp + 2, s->to);
	put32(tcp + 4, s->seq), put32(tcp + 8, s->ack);
	tcp[12] = (uint8_t)(header / 4 << 4), tcp[13] = s->flags;
	put16(tcp + 14, s->window);
	memcpy(tcp + 20, s->options, (size_t)s->options_len);
	memcpy(tcp + header, s->payload, (size_t)s->len);
	put16(tcp + 16, checksum(w, p, 6, tcp, tcp_len));
	return (size_t)(ip + tcp_len);
}

/* Checks the header of a packet of the stack, which carries this protocol, and its checksum; returns its length. */
static int check_ip(const struct world *w, int protocol, const uint8_t *p, size_t n)
{
	int ip = w->v6 ? 40 : 20;
	const uint8_t *src = w->v6 ? p + 8 : p + 12;
	size_t addr = w->v6 ? 16 : 4;

	if (n < (size_t)ip + 8)
		FAIL("a packet of %zu bytes", n);
	if (w->v6) {
		if (p[0] >> 4 != 6 || (size_t)get16(p + 4) + 40 != n || p[6] != protocol)
			FAIL("no IPv6 packet with protocol %d of %zu bytes", protocol, n);
	} else if (p[0] != 0x45 || get16(p + 2) != n || p[9] != protocol || fold(sum16(p, 20, 0)) != 0) {
		FAIL("no IPv4 packet with protocol %d of %zu bytes, or a wrong header checksum", protocol, n);
	}
	if (memcmp(src, w->local, addr) != 0 || memcmp(src + addr, w->remote, addr) != 0)
		FAIL("a packet with other addresses");
	if (protocol == 1 ? fold(sum16(p + ip, n - (size_t)ip, 0)) : checksum(w, p, protocol, p + ip, (int)n - ip))
		FAIL("a wrong checksum of protocol %d", protocol);
	return ip;
}

/* Reads a packet of the stack; everything in it must be right. */
static void dissect(const struct world *w, const uint8_t *p, size_t n, struct segment *s)
{
	int ip = check_ip(w, 6, p, n), tcp_len = (int)n - ip, header;
	const uint8_t *tcp = p + ip;

	header = tcp_len < 20 ? 0 : tcp[12] >> 4 << 2;
	if (header < 20 || header > tcp_len)
		FAIL("a TCP header of %d bytes", header);
	memset(s, 0, offsetof(struct segment, payload));
	s->from = get16(tcp), s->to = get16(tcp + 2);
	s->seq = get32(tcp + 4), s->ack = get32(tcp + 8);
	s->flags = tcp[13], s->window = get16(tcp + 14);
	s->options_len = header - 20;
	memcpy(s->options, tcp + 20, (size_t)s->options_len);
	s->len = tcp_len - header;
	memcpy(s->payload, tcp + header, (size_t)s->len);
}
#endif
