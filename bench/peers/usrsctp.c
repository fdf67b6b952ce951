/* Two endpoints of usrsctp in one process and one thread, joined by its callbacks: messages one way, every byte hashed.
 *
 * usrsctp-pair MTU BYTES SECONDS: prints the bytes of payload that came, the seconds that it took, and packets both ways. The exit code is
 * 1 when the hash is not that of what was sent. Compiled and run by the bench `sctp`.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <usrsctp.h>

enum { PORT = 5001, BUFFER = 1 << 20, PATTERN = 4096, STEP = 61, IP_HEADER = 20 };

struct packet {
    struct packet *next;
    void *to;
    size_t len;
    unsigned char bytes[];
};

static struct packet *first, *last;
static uint64_t packets;
static unsigned char pattern[PATTERN + 65536];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What one endpoint sends waits for the other one. */
static int output(void *addr, void *buffer, size_t len, uint8_t tos, uint8_t df) {
    (void)tos;
    (void)df;
    struct packet *p = malloc(sizeof *p + len);
    if (!p)
        return ENOBUFS;
    p->next = NULL;
    p->to = addr == (void *)1 ? (void *)2 : (void *)1;
    p->len = len;
    memcpy(p->bytes, buffer, len);
    if (last)
        last->next = p;
    else
        first = p;
    last = p;
    packets++;
    return 0;
}

static void carry(void) {
    while (first) {
        struct packet *p = first;
        first = p->next;
        if (!first)
            last = NULL;
        usrsctp_conninput(p->to, p->bytes, p->len, 0);
        free(p);
    }
}

static uint32_t hash(uint32_t crc, const unsigned char *bytes, size_t len) {
#ifdef __SSE4_2__
    uint64_t wide = crc;
    for (; len >= 8; bytes += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; len; bytes++, len--)
        crc = __builtin_ia32_crc32qi(crc, *bytes);
#else
    for (; len; bytes++, len--) {
        crc ^= *bytes;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (0x82f63b78u & -(crc & 1));
    }
#endif
    return crc;
}

static const unsigned char *message(uint64_t n) {
    return pattern + n * STEP % PATTERN;
}

static struct sockaddr_conn address(uintptr_t who) {
    struct sockaddr_conn a;
    memset(&a, 0, sizeof a);
    a.sconn_family = AF_CONN;
    a.sconn_port = htons(PORT);
    a.sconn_addr = (void *)who;
    return a;
}

static struct socket *open_at(uintptr_t who, uint32_t mtu) {
    struct socket *s = usrsctp_socket(AF_CONN, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    int size = BUFFER, on = 1;
    struct sctp_paddrparams params;
    struct sockaddr_conn own = address(who);
    if (!s)
        exit(3);
    memset(&params, 0, sizeof params);
    params.spp_address.ss_family = AF_CONN;
    params.spp_flags = SPP_PMTUD_DISABLE;
    params.spp_pathmtu = mtu - IP_HEADER;
    if (usrsctp_set_non_blocking(s, 1) || usrsctp_setsockopt(s, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) ||
        usrsctp_setsockopt(s, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) ||
        usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on) ||
        usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &params, sizeof params) ||
        usrsctp_bind(s, (struct sockaddr *)&own, sizeof own)) {
        perror("socket");
        exit(3);
    }
    return s;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    uint32_t mtu = (uint32_t)atoi(argv[1]);
    size_t len = (size_t)atoi(argv[2]);
    double seconds = atof(argv[3]);
    static unsigned char buffer[65536];
    for (size_t i = 0; i < sizeof pattern; i++)
        pattern[i] = (unsigned char)(i * 31 + (i >> 8));
    usrsctp_init_nothreads(0, output, NULL);
    usrsctp_sysctl_set_sctp_ecn_enable(0);
    usrsctp_register_address((void *)1);
    usrsctp_register_address((void *)2);
    struct socket *client = open_at(1, mtu), *listener = open_at(2, mtu), *server = NULL;
    /* Where packets come from and where they go to have one address: the callback knows who sent. */
    struct sockaddr_conn far = address(1);
    if (usrsctp_listen(listener, 1) ||
        (usrsctp_connect(client, (struct sockaddr *)&far, sizeof far) && errno != EINPROGRESS))
        return 3;
    for (int i = 0; !server && i < 100; i++) {
        carry();
        server = usrsctp_accept(listener, NULL, NULL);
    }
    if (!server)
        return 3;
    usrsctp_set_non_blocking(server, 1);
    uint64_t sent = 0, received = 0;
    uint32_t crc = 0;
    double start = now(), ticked = start, at = start;
    while (at - start < seconds) {
        while (usrsctp_sendv(client, message(sent), len, NULL, 0, NULL, 0, SCTP_SENDV_NOINFO, 0) > 0)
            sent++;
        carry();
        for (;;) {
            unsigned int kind;
            socklen_t from = 0, info = 0;
            int flags = 0;
            ssize_t n = usrsctp_recvv(server, buffer, sizeof buffer, NULL, &from, NULL, &info, &kind, &flags);
            if (n <= 0)
                break;
            crc = hash(crc, buffer, (size_t)n);
            received += (uint64_t)n;
        }
        at = now();
        if (at - ticked >= 0.001) {
            usrsctp_handle_timers((uint32_t)((at - ticked) * 1000));
            ticked = at;
        }
    }
    uint32_t wanted = 0;
    uint64_t left = received;
    for (uint64_t n = 0; left; n++) {
        size_t part = left < len ? (size_t)left : len;
        wanted = hash(wanted, message(n), part);
        left -= part;
    }
    printf("%llu %.6f %llu\n", (unsigned long long)received, at - start, (unsigned long long)packets);
    fflush(stdout);
    _Exit(wanted == crc && received ? 0 : 1);
}
