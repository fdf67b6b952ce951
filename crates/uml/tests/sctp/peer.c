/* The other side of the SCTP tests, one association after another: with the kernel's sockets, or with -DUSRSCTP those of usrsctp.
 *
 *   peer serve FAMILY [wait]     answers one association and closes, or waits for the end and prints how it came
 *   peer call FAMILY ADDRESS     sends, reads the answer, closes in good order; then opens once more and aborts
 *   peer call FAMILY ADDRESS wait  sends a little, reads the answer, waits for the end and prints how it came
 *   peer restart FAMILY ADDRESS  sends a little, forgets the association so that nobody hears of it, opens it again from the same port
 *   peer trickle FAMILY ADDRESS  sends for a quarter of a minute, a message every 10 ms
 *   peer idle                    has a socket and does nothing for a while
 *
 * FAMILY is 4 or 6. A message begins with its stream and its number in the stream; the top bit of the stream says "not in order".
 * Shorter ones have no order either. What was read is summed by stream: count and the sum of the hashes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef USRSCTP
#include <usrsctp.h>
typedef struct socket *handle;
#else
#include <linux/sctp.h>
typedef int handle;
#endif

enum { PORT = 5000, RESTART_PORT = 6000, UDP_PORT = 9899, STREAMS = 10, MOST = 1 << 20, UNORDERED = 0x8000 };

static void die(const char *what, ...)
{
    va_list args;
    va_start(args, what);
    vfprintf(stderr, what, args);
    fprintf(stderr, ": %s\n", strerror(errno));
    exit(1);
}

static void rest(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* ---- sockets ---- */

#ifdef USRSCTP

static handle make(int family)
{
    int size = 2000000;
    handle so = usrsctp_socket(family, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    struct sctp_udpencaps udp;
    memset(&udp, 0, sizeof udp);
    udp.sue_address.ss_family = family;
    udp.sue_port = htons(UDP_PORT);
    if (!so || usrsctp_setsockopt(so, SOL_SOCKET, SO_SNDBUF, &size, sizeof size)
        || usrsctp_setsockopt(so, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &udp, sizeof udp))
        die("socket");
    return so;
}

static void put(handle so, const void *data, size_t len, int stream, int unordered)
{
    struct sctp_sndinfo info;
    memset(&info, 0, sizeof info);
    info.snd_sid = stream;
    info.snd_flags = unordered ? SCTP_UNORDERED : 0;
    if (usrsctp_sendv(so, data, len, NULL, 0, &info, sizeof info, SCTP_SENDV_SNDINFO, 0) != (ssize_t)len)
        die("send %zu bytes", len);
}

static ssize_t part(handle so, void *data, size_t len, int *whole)
{
    struct sctp_rcvinfo info;
    socklen_t from = 0, size = sizeof info;
    unsigned int type = 0;
    int flags = 0;
    ssize_t got = usrsctp_recvv(so, data, len, NULL, &from, &info, &size, &type, &flags);
    *whole = flags & MSG_EOR;
    return got;
}

#define bind usrsctp_bind
#define listen usrsctp_listen
#define accept usrsctp_accept
#define connect usrsctp_connect
#define setsockopt usrsctp_setsockopt
#define close usrsctp_close

#else

static handle make(int family)
{
    int size = 2000000, fd = socket(family, SOCK_STREAM, IPPROTO_SCTP);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size))
        die("socket");
    return fd;
}

static void put(handle fd, const void *data, size_t len, int stream, int unordered)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct sctp_sndinfo))];
    } control;
    struct iovec iov = {(void *)data, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    struct sctp_sndinfo info = {.snd_sid = stream, .snd_flags = unordered ? SCTP_UNORDERED : 0};
    c->cmsg_level = IPPROTO_SCTP;
    c->cmsg_type = SCTP_SNDINFO;
    c->cmsg_len = CMSG_LEN(sizeof info);
    memcpy(CMSG_DATA(c), &info, sizeof info);
    if (sendmsg(fd, &msg, 0) != (ssize_t)len)
        die("send %zu bytes", len);
}

static ssize_t part(handle fd, void *data, size_t len, int *whole)
{
    struct iovec iov = {data, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t got = recvmsg(fd, &msg, 0);
    *whole = msg.msg_flags & MSG_EOR;
    return got;
}

/* There are associations still: lines below the first. */
static int associations(void)
{
    FILE *table = fopen("/proc/net/sctp/assocs", "r");
    int lines = 0, c;
    while (table && (c = fgetc(table)) != EOF)
        lines += c == '\n';
    if (table)
        fclose(table);
    return lines > 1;
}

#endif

/* The next message; 0 at the end, -1 for an error. */
static ssize_t next(handle so, uint8_t *data)
{
    size_t len = 0;
    for (int whole = 0; !whole;) {
        ssize_t got = part(so, data + len, MOST - len, &whole);
        if (got <= 0)
            return got;
        len += got;
    }
    return len;
}

static socklen_t place(struct sockaddr_storage *at, int family, const char *address, int port)
{
    memset(at, 0, sizeof *at);
    at->ss_family = family;
    if (family == AF_INET) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)at;
        v4->sin_port = htons(port);
        if (address && inet_pton(family, address, &v4->sin_addr) != 1)
            die("%s", address);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)at;
    v6->sin6_port = htons(port);
    if (address && inet_pton(family, address, &v6->sin6_addr) != 1)
        die("%s", address);
    return sizeof *v6;
}

/* ---- messages ---- */

static struct sum {
    uint32_t count, next;
    uint64_t hash;
} sums[STREAMS];

static uint64_t hash(const uint8_t *data, size_t len)
{
    uint64_t h = 0xcbf29ce484222325;
    while (len--)
        h = (h ^ *data++) * 0x100000001b3;
    return h;
}

static void count(const uint8_t *data, size_t len, int check)
{
    unsigned word = len < 6 ? UNORDERED : data[0] << 8 | data[1], stream = word & ~UNORDERED;
    if (stream >= STREAMS)
        die("stream %u", stream);
    struct sum *sum = &sums[stream];
    if (check && !(word & UNORDERED)) {
        uint32_t n = (uint32_t)data[2] << 24 | data[3] << 16 | data[4] << 8 | data[5];
        if (n != sum->next++)
            die("message %u of stream %u where %u was due", n, stream, sum->next - 1);
    }
    sum->count++;
    sum->hash += hash(data, len);
}

static char *text(void)
{
    static char all[STREAMS * 32];
    size_t at = 0;
    for (int s = 0; s < STREAMS; s++)
        at += sprintf(all + at, "%s%u:%016" PRIx64, s ? " " : "", sums[s].count, sums[s].hash);
    return all;
}

static uint8_t page[MOST];
static uint32_t sent;

/* Sends message `n` of a stream, `len` bytes long. */
static void message(handle so, unsigned word, uint32_t n, size_t len)
{
    uint8_t head[6] = {word >> 8, word, n >> 24, n >> 16, n >> 8, n};
    for (size_t i = 0; i < len; i++)
        page[i] = i < 6 ? head[i] : (uint32_t)i * (n | 1) >> 8;
    count(page, len, 0);
    put(so, page, len, word & ~UNORDERED, (word & UNORDERED) != 0);
    sent++;
}

/* 1 byte, 1,000,000 bytes, `ordered` messages over all streams, and one out of order beside every twentieth. */
static void plan(handle so, uint32_t ordered, size_t large)
{
    message(so, 0, 0, 1);
    message(so, 1, 0, large);
    for (uint32_t n = 0; n < ordered; n++) {
        unsigned stream = n % STREAMS;
        message(so, stream, n / STREAMS + (stream == 1), 9 + n * 7 % 2000);
        if (n % 20 == 0)
            message(so, UNORDERED | stream, n, 9 + n * 3 % 1700);
    }
}

/* Says how many there were, and compares the sums. */
static void settle(handle so)
{
    char last[32];
    put(so, last, sprintf(last, "done %u", sent), 0, 0);
    ssize_t len = next(so, page);
    if (len < 0)
        die("no answer");
    if ((size_t)len != strlen(text()) || memcmp(page, text(), len))
        die("sums differ:\n%.*s\n%s\n", (int)len, page, text());
}

/* Reads as many messages as the last one says there are, in whatever order they come, and answers with the sums. */
static void answer(handle so)
{
    unsigned long wanted = -1UL;
    for (unsigned long had = 0; had < wanted;) {
        ssize_t len = next(so, page);
        if (len <= 0)
            die("after %lu of %lu messages: %zd", had, wanted, len);
        if (len > 5 && len < 32 && !memcmp(page, "done ", 5)) {
            page[len] = 0;
            wanted = strtoul((char *)page + 5, NULL, 10);
        } else {
            count(page, len, 1);
            had++;
        }
    }
    put(so, text(), strlen(text()), 0, 0);
}

/* Waits for the end and prints how it came. */
static void tell_end(handle so)
{
    ssize_t len = next(so, page);
    printf("%s\n", len == 0 ? "end" : len < 0 ? strerror(errno) : "a message");
}

/* ---- roles ---- */

static void serve(int family, int waits)
{
    struct sockaddr_storage at;
    handle listener = make(family);
    /* Streams may begin anew and be added, and all numbers begin anew. */
    struct sctp_assoc_value all = {.assoc_value = 7};
    if (setsockopt(listener, IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, &all, sizeof all))
        die("streams");
    if (bind(listener, (struct sockaddr *)&at, place(&at, family, NULL, PORT)) || listen(listener, 5))
        die("listen");
    handle so = accept(listener, NULL, NULL);
    answer(so);
    if (waits)
        tell_end(so);
    close(so);
}

static handle dial(int family, const char *address, int local)
{
    struct sockaddr_storage at;
    for (int tries = 0; tries < 100; tries++) {
        handle so = make(family);
        if (local && bind(so, (struct sockaddr *)&at, place(&at, family, NULL, local)))
            die("bind");
        if (connect(so, (struct sockaddr *)&at, place(&at, family, address, PORT)) == 0)
            return so;
        close(so);
        rest(100);
    }
    die("no association");
    return 0;
}

static void forget(handle so)
{
    struct linger now = {1, 0};
    if (setsockopt(so, SOL_SOCKET, SO_LINGER, &now, sizeof now))
        die("linger");
    close(so);
}

static void call(int family, const char *address, int waits)
{
    handle so = dial(family, address, 0);
    if (waits) {
        plan(so, 100, 1000000);
        settle(so);
        tell_end(so);
        close(so);
        return;
    }
    plan(so, 10000, 1000000);
    settle(so);
    close(so);
    rest(1000);
    /* An ABORT goes once: nothing may lose it. */
    if (system("tc qdisc del dev vec0 root 2>/dev/null") < 0)
        die("tc");
    so = dial(family, address, 0);
    put(so, "lost", 4, 0, 0);
    forget(so);
}

/* With usrsctp the association ends with its process, and this is the next one. */
static void restart(int family, const char *address)
{
#ifndef USRSCTP
    handle so = dial(family, address, RESTART_PORT);
    put(so, "before", 6, 0, 0);
    rest(500);
    if (system("ip link set vec0 down"))
        die("down");
    forget(so);
    if (system("ip link set vec0 up"))
        die("up");
#else
    handle so;
#endif
    so = dial(family, address, RESTART_PORT);
    plan(so, 500, 100000);
    settle(so);
    close(so);
}

static void trickle(int family, const char *address)
{
    handle so = dial(family, address, 0);
    for (uint32_t n = 0; n < 1500; n++) {
        message(so, 0, n, 500);
        rest(10);
    }
    settle(so);
    close(so);
}

#ifdef USRSCTP

static void init(void)
{
    usrsctp_init(UDP_PORT, NULL, NULL);
    usrsctp_sysctl_set_sctp_blackhole(0);
    /* A path that is dark is found out within a few seconds, and so is one that is back. */
    usrsctp_sysctl_set_sctp_heartbeat_interval_default(1000);
    usrsctp_sysctl_set_sctp_path_rtx_max_default(1);
    usrsctp_sysctl_set_sctp_rto_max_default(2000);
}

/* A process that opens an association, sends a little and is gone. */
static void live_before(int family, const char *address)
{
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        init();
        put(dial(family, address, RESTART_PORT), "before", 6, 0, 0);
        rest(500);
        _exit(0);
    }
    if (waitpid(child, NULL, 0) != child)
        die("wait");
}

#endif

int main(int count, char **args)
{
    int family = count > 2 && args[2][0] == '6' ? AF_INET6 : AF_INET;
    setvbuf(stdout, NULL, _IONBF, 0);
#ifdef USRSCTP
    if (count > 3 && !strcmp(args[1], "restart"))
        live_before(family, args[3]);
    init();
#endif
    if (count > 2 && !strcmp(args[1], "serve"))
        serve(family, count > 3);
    else if (count > 3 && !strcmp(args[1], "call"))
        call(family, args[3], count > 4);
    else if (count > 3 && !strcmp(args[1], "restart"))
        restart(family, args[3]);
    else if (count > 3 && !strcmp(args[1], "trickle"))
        trickle(family, args[3]);
    else if (count > 1 && !strcmp(args[1], "idle"))
        make(AF_INET), rest(8000);
    else
        die("roles are serve, call, restart, trickle, idle");
    /* The end of the machine, or of usrsctp, would be the end of its associations, and of answers to those who missed the last one. */
    if (getenv("LINGER"))
        rest(5000);
#ifdef USRSCTP
    for (int tries = 0; tries < 50 && usrsctp_finish(); tries++)
        rest(100);
#else
    for (int tries = 0; tries < 300 && associations(); tries++)
        rest(100);
#endif
    return 0;
}
