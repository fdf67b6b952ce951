/* Carries out the calls on SCTP sockets that its input asks for, one a line, and prints each line with the running kernel's answer: the
 * file sctp_calls.txt beside this program, of which everything from " -> " on is left out when it is read.
 *
 * "#" begins a new scene: every socket is closed, ports begin anew. What the words mean is said where they are read, here and in
 * ../sctp_calls.rs, which does the same calls on lowwater-posix.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sctp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LEVEL = 132, NAMES = 26, LINE = 4096 };
static int fds[NAMES]; /* Sockets A to Z, less one for none. */
static unsigned ids[NAMES]; /* Identifiers a to z. */
static int base = 5000; /* Port 0 of this scene. */
static char *rest; /* Words of this line that were not read. */

static char *word(void)
{
    static char none[] = "";
    char *w = rest ? strsep(&rest, " ") : NULL;
    return w ? w : none;
}

static int num(void)
{
    return atoi(word());
}

static int *sock(void)
{
    return &fds[(word()[0] - 'A') % NAMES];
}

static void say(int ret)
{
    if (ret < 0) printf("%s", strerrorname_np(errno));
    else printf("%d", ret);
}

/* An identifier: a letter, or a number. */
static unsigned id_of(const char *w)
{
    return w[0] >= 'a' && w[0] <= 'z' ? ids[w[0] - 'a'] : (unsigned)strtoul(w, NULL, 0);
}

static void say_id(unsigned id)
{
    for (int i = 0; i < NAMES; i++)
        if (ids[i] == id && id > 2) {
            printf("%c", 'a' + i);
            return;
        }
    printf(id > 2 ? "?" : "%u", id);
}

/* PORT, or PORT@LAST for 127.0.0.LAST; with an m behind it the same as an IPv6 address. */
union name {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t at(const char *w, union name *to)
{
    const char *host = strchr(w, '@');
    int port = htons(atoi(w) ? base + atoi(w) : 0);
    in_addr_t ip = htonl(0x7f000000u + (host ? atoi(host + 1) : 1));
    memset(to, 0, sizeof *to);
    if (strchr(w, 'm')) {
        to->v6.sin6_family = AF_INET6;
        to->v6.sin6_port = port;
        to->v6.sin6_addr.s6_addr[10] = to->v6.sin6_addr.s6_addr[11] = 255;
        memcpy(to->v6.sin6_addr.s6_addr + 12, &ip, 4);
        return sizeof to->v6;
    }
    to->v4.sin_family = AF_INET;
    to->v4.sin_port = port;
    to->v4.sin_addr.s_addr = ip;
    return sizeof to->v4;
}

static void say_at(const void *at)
{
    const union name *from = at;
    int v6 = from->any.sa_family == AF_INET6, port, last;
    if (from->any.sa_family != AF_INET && !v6) {
        printf("none");
        return;
    }
    port = ntohs(v6 ? from->v6.sin6_port : from->v4.sin_port) - base;
    last = v6 ? from->v6.sin6_addr.s6_addr[15] : (int)(ntohl(from->v4.sin_addr.s_addr) & 255);
    if (port < 0 || port > 99) printf("?");
    else printf("%d", port);
    if (last != 1) printf("@%d", last);
    if (v6) printf("m");
}

/* A value: fields with commas between them. i and h are numbers of 4 and 2 bytes, b one byte, id an identifier, a an address in 128
 * bytes, s one in 16, z so many zeros, x so many zeros that are not shown. Writes it, or shows what is there instead. */
static int value(char *text, unsigned char *bytes, int room, int show)
{
    int n = 0;
    char copy[LINE], *all = copy, *field;
    snprintf(copy, sizeof copy, "%s", text);
    for (int first = 1; (field = strsep(&all, ",")); first = 0) {
        char *arg = strchr(field, ':');
        unsigned v;
        int size;
        if (!arg) continue;
        *arg++ = 0;
        v = id_of(arg);
        size = field[0] == 'h' ? 2 : field[0] == 'b' ? 1 : field[0] == 'l' ? 8 : field[0] == 'a' ? 128 : field[0] == 's' ? (strchr(arg, 'm') ? 28 : 16)
               : field[0] == 'z' || field[0] == 'x' ? (int)v : 4;
        if (n + size > room) break;
        if (!show) {
            memset(bytes + n, 0, size);
            if (field[0] == 'a' || field[0] == 's') {
                union name to;
                int len = at(arg, &to);
                memcpy(bytes + n, &to, arg[0] == '-' ? 0 : len);
            } else if (field[0] != 'z' && field[0] != 'x') {
                memcpy(bytes + n, &v, size < 4 ? size : 4);
            }
        } else {
            unsigned now = 0;
            memcpy(&now, bytes + n, size < 4 ? size : 4);
            printf(first ? "%s:" : ",%s:", field);
            if (field[0] == 'a' || field[0] == 's') say_at(bytes + n);
            else if (!strcmp(field, "id")) say_id(now);
            else if (field[0] == 'x') printf("%d", size);
            else if (field[0] == 'z') {
                int set = 0;
                for (int i = 0; i < size; i++) set += bytes[n + i] != 0;
                printf(set ? "?" : "%d", size);
            } else printf("%d", (int)now);
        }
        n += size;
    }
    return n;
}

static int option(const char *w)
{
    static const struct { const char *name; int value; } ALL[] = {
#define O(name) {#name, name}
        O(SCTP_RTOINFO), O(SCTP_ASSOCINFO), O(SCTP_INITMSG), O(SCTP_NODELAY), O(SCTP_AUTOCLOSE), O(SCTP_PRIMARY_ADDR),
        O(SCTP_ADAPTATION_LAYER), O(SCTP_DISABLE_FRAGMENTS), O(SCTP_PEER_ADDR_PARAMS), O(SCTP_DEFAULT_SEND_PARAM), O(SCTP_EVENTS),
        O(SCTP_MAXSEG), O(SCTP_STATUS), O(SCTP_GET_PEER_ADDR_INFO), O(SCTP_DELAYED_SACK), O(SCTP_CONTEXT),
        O(SCTP_FRAGMENT_INTERLEAVE), O(SCTP_PARTIAL_DELIVERY_POINT), O(SCTP_MAX_BURST), O(SCTP_GET_ASSOC_NUMBER),
        O(SCTP_GET_ASSOC_ID_LIST), O(SCTP_PEER_ADDR_THLDS), O(SCTP_RECVRCVINFO), O(SCTP_DEFAULT_SNDINFO), O(SCTP_SOCKOPT_BINDX_ADD),
        O(SCTP_SOCKOPT_CONNECTX), O(SCTP_SOCKOPT_BINDX_REM), O(SCTP_GET_PEER_ADDRS), O(SCTP_GET_LOCAL_ADDRS), O(SCTP_PR_SUPPORTED), O(SCTP_DEFAULT_PRINFO),
        O(SCTP_EVENT), O(SCTP_REMOTE_UDP_ENCAPS_PORT), O(SCTP_RECVNXTINFO), O(SCTP_I_WANT_MAPPED_V4_ADDR), O(SCTP_GET_ASSOC_STATS),
#undef O
    };
    for (unsigned i = 0; i < sizeof ALL / sizeof *ALL; i++)
        if (!strcmp(ALL[i].name, w)) return ALL[i].value;
    return atoi(w);
}

/* Adds a control message: its fields as a value. */
static void control(struct msghdr *msg, int type, char *text)
{
    struct cmsghdr *c = (struct cmsghdr *)((char *)msg->msg_control + msg->msg_controllen);
    int len = value(text, CMSG_DATA(c), 200, 0);
    c->cmsg_level = LEVEL;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(len);
    msg->msg_controllen += CMSG_SPACE(len);
}

/* send SOCKET LENGTH [to PORT] [more] [init|sndrcv|sndinfo|prinfo VALUE]... */
static void do_send(void)
{
    static char data[1 << 20];
    char room[1024] = {0};
    int fd = *sock(), flags = MSG_NOSIGNAL;
    struct iovec iov = {data, num()};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room};
    union name to;
    char *w;
    while (*(w = word())) {
        if (!strcmp(w, "to")) {
            msg.msg_namelen = at(word(), &to);
            msg.msg_name = &to;
        } else if (!strcmp(w, "more")) flags |= MSG_MORE;
        else if (!strcmp(w, "init")) control(&msg, SCTP_INIT, word());
        else if (!strcmp(w, "sndrcv")) control(&msg, SCTP_SNDRCV, word());
        else if (!strcmp(w, "sndinfo")) control(&msg, SCTP_SNDINFO, word());
        else if (!strcmp(w, "prinfo")) control(&msg, SCTP_PRINFO, word());
        else if (!strcmp(w, "dstaddr")) control(&msg, SCTP_DSTADDRV4, word());
    }
    say(sendmsg(fd, &msg, flags));
}

static void notification(unsigned char *b, int n)
{
    union sctp_notification *u = (union sctp_notification *)b;
    switch (u->sn_header.sn_type) {
    case SCTP_ASSOC_CHANGE:
        printf(" assoc state:%d error:%d out:%d in:%d id:", u->sn_assoc_change.sac_state, u->sn_assoc_change.sac_error,
               u->sn_assoc_change.sac_outbound_streams, u->sn_assoc_change.sac_inbound_streams);
        say_id(u->sn_assoc_change.sac_assoc_id);
        break;
    case SCTP_SHUTDOWN_EVENT:
        printf(" shutdown id:");
        say_id(u->sn_shutdown_event.sse_assoc_id);
        break;
    case SCTP_SENDER_DRY_EVENT:
        printf(" dry id:");
        say_id(u->sn_sender_dry_event.sender_dry_assoc_id);
        break;
    case SCTP_ADAPTATION_INDICATION:
        printf(" adaptation:%u id:", u->sn_adaptation_event.sai_adaptation_ind);
        say_id(u->sn_adaptation_event.sai_assoc_id);
        break;
    case SCTP_SEND_FAILED:
        printf(" failed flags:%d error:%u info:%d,%d,%u,%u,%u id:", u->sn_send_failed.ssf_flags, u->sn_send_failed.ssf_error,
               u->sn_send_failed.ssf_info.sinfo_stream, u->sn_send_failed.ssf_info.sinfo_flags, u->sn_send_failed.ssf_info.sinfo_ppid,
               u->sn_send_failed.ssf_info.sinfo_context, u->sn_send_failed.ssf_info.sinfo_timetolive);
        say_id(u->sn_send_failed.ssf_info.sinfo_assoc_id);
        say_id(u->sn_send_failed.ssf_assoc_id);
        break;
    case SCTP_SEND_FAILED_EVENT: {
        struct sctp_send_failed_event *f = (void *)b;
        printf(" failed_event flags:%d error:%u info:%d,%d,%u,%u id:", f->ssf_flags, f->ssf_error, f->ssfe_info.snd_sid,
               f->ssfe_info.snd_flags, f->ssfe_info.snd_ppid, f->ssfe_info.snd_context);
        say_id(f->ssfe_info.snd_assoc_id);
        say_id(f->ssf_assoc_id);
        break;
    }
    case SCTP_PEER_ADDR_CHANGE:
        printf(" address:");
        say_at(&u->sn_paddr_change.spc_aaddr);
        printf(" state:%d error:%d id:", u->sn_paddr_change.spc_state, u->sn_paddr_change.spc_error);
        say_id(u->sn_paddr_change.spc_assoc_id);
        break;
    default:
        printf(" type:%x", u->sn_header.sn_type);
    }
    if ((int)u->sn_header.sn_length != n || u->sn_header.sn_flags) printf(" length:%u", u->sn_header.sn_length);
}

/* recv SOCKET LENGTH [peek] [bad] [room BYTES] */
static void do_recv(void)
{
    static unsigned char data[1 << 20];
    char room[1024];
    int fd = *sock(), flags = 0, n;
    struct iovec iov = {data, num()};
    union name from = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room,
                         .msg_name = &from, .msg_namelen = sizeof from};
    char *w;
    while (*(w = word())) {
        if (!strcmp(w, "peek")) flags |= MSG_PEEK;
        else if (!strcmp(w, "bad")) iov.iov_base = (void *)8;
        else if (!strcmp(w, "room")) msg.msg_controllen = num();
    }
    n = recvmsg(fd, &msg, flags);
    say(n);
    if (n < 0) return;
    if (msg.msg_flags & MSG_EOR) printf(" eor");
    if (msg.msg_flags & MSG_CTRUNC) printf(" ctrunc");
    if (msg.msg_namelen) {
        printf(" from:");
        say_at(&from);
    }
    if (msg.msg_flags & MSG_NOTIFICATION) {
        if (n >= 8) notification(data, n);
        return;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_type == SCTP_RCVINFO) {
            struct sctp_rcvinfo *r = (void *)CMSG_DATA(c);
            printf(" rcvinfo:%d,%d,%d,%u,%u,", r->rcv_sid, r->rcv_ssn, r->rcv_flags, r->rcv_ppid, r->rcv_context);
            say_id(r->rcv_assoc_id);
        } else if (c->cmsg_type == SCTP_NXTINFO) {
            struct sctp_nxtinfo *r = (void *)CMSG_DATA(c);
            printf(" nxtinfo:%d,%d,%u,%u,", r->nxt_sid, r->nxt_flags, r->nxt_ppid, r->nxt_length);
            say_id(r->nxt_assoc_id);
        } else {
            struct sctp_sndrcvinfo *r = (void *)CMSG_DATA(c);
            printf(" sndrcv:%d,%d,%d,%u,%u,%u,", r->sinfo_stream, r->sinfo_ssn, r->sinfo_flags, r->sinfo_ppid, r->sinfo_context,
                   r->sinfo_timetolive);
            say_id(r->sinfo_assoc_id);
        }
    }
}

static void do_get(void)
{
    unsigned char bytes[LINE];
    int fd = *sock(), name = option(word());
    char *text = word();
    socklen_t len = value(text, bytes, sizeof bytes, 0);
    int ret = getsockopt(fd, LEVEL, name, bytes, &len);
    if (ret < 0) return say(ret);
    if (name == SCTP_GET_LOCAL_ADDRS) len += 8; /* The kernel's length is that of the addresses alone. */
    value(text, bytes, len, 1);
    printf(" (%u)", len);
}

/* ids SOCKET LETTER... names the associations in the order of the kernel's list. */
static void do_ids(void)
{
    unsigned list[NAMES + 1] = {0};
    socklen_t len = sizeof list;
    say(getsockopt(*sock(), LEVEL, SCTP_GET_ASSOC_ID_LIST, list, &len) < 0 ? -1 : (int)list[0]);
    for (unsigned i = 0; i < list[0]; i++) {
        char *w = word();
        if (*w) ids[*w - 'a'] = list[i + 1];
    }
}

static void do_poll(void)
{
    static const struct { int bit; const char *name; } BITS[] = {
        {POLLIN, "IN"}, {POLLPRI, "PRI"}, {POLLOUT, "OUT"}, {POLLERR, "ERR"}, {POLLHUP, "HUP"}, {POLLRDHUP, "RDHUP"},
    };
    struct pollfd p = {*sock(), 0x7fff, 0};
    const char *between = "";
    poll(&p, 1, 0);
    if (!p.revents) printf("0");
    for (unsigned i = 0; i < sizeof BITS / sizeof *BITS; i++)
        if (p.revents & BITS[i].bit) {
            printf("%s%s", between, BITS[i].name);
            between = "|";
        }
}

/* connectx3 SOCKET LETTER VALUE: the result, and the identifier where one was written */
static void do_connectx3(void)
{
    unsigned char bytes[LINE];
    int fd = *sock();
    char *w = word();
    struct sctp_getaddrs_old p = {0, value(word(), bytes, sizeof bytes, 0), (struct sockaddr *)bytes};
    socklen_t len = sizeof p;
    say(getsockopt(fd, LEVEL, SCTP_SOCKOPT_CONNECTX3, &p, &len));
    if (len != sizeof p) {
        ids[*w - 'a'] = p.assoc_id;
        printf(" ");
        say_id(p.assoc_id);
    }
}

static void scene(void)
{
    for (int i = 0; i < NAMES; i++) {
        if (fds[i] >= 0) close(fds[i]);
        fds[i] = -1;
        ids[i] = 0;
    }
    base += 100;
    usleep(50000);
}

static void do_name(int (*call)(int, struct sockaddr *, socklen_t *))
{
    union name name = {0};
    socklen_t len = sizeof name;
    int ret = call(*sock(), &name.any, &len);
    if (ret < 0) say(ret);
    else say_at(&name);
}

static void step(const char *verb)
{
    union name to;
    unsigned char bytes[LINE];
    int *fd, n;
    socklen_t len;
    if (!strcmp(verb, "socket")) {
        fd = sock();
        const char *kind = word(); /* one, many, one6, many6 */
        int ty = strncmp(kind, "many", 4) ? SOCK_STREAM : SOCK_SEQPACKET;
        *fd = socket(strchr(kind, '6') ? AF_INET6 : AF_INET, ty | SOCK_NONBLOCK, LEVEL);
        say(*fd < 0 ? -1 : 0);
    } else if (!strcmp(verb, "bind")) {
        fd = sock();
        len = at(word(), &to);
        say(bind(*fd, &to.any, len));
    } else if (!strcmp(verb, "listen")) {
        fd = sock();
        say(listen(*fd, num()));
    } else if (!strcmp(verb, "accept")) {
        fd = sock();
        n = accept(*fd, NULL, NULL);
        if (n >= 0) {
            fcntl(n, F_SETFL, O_NONBLOCK);
            *sock() = n;
        }
        say(n < 0 ? n : 0);
    } else if (!strcmp(verb, "connect")) {
        fd = sock();
        len = at(word(), &to);
        say(connect(*fd, &to.any, len));
    } else if (!strcmp(verb, "connectx")) { /* connectx SOCKET LETTER VALUE */
        fd = sock();
        char *w = word();
        n = value(word(), bytes, sizeof bytes, 0);
        n = setsockopt(*fd, LEVEL, SCTP_SOCKOPT_CONNECTX, bytes, n);
        if (n > 2) ids[*w - 'a'] = n, say_id(n);
        else say(n);
    } else if (!strcmp(verb, "connectx3")) do_connectx3();
    else if (!strcmp(verb, "send")) do_send();
    else if (!strcmp(verb, "recv")) do_recv();
    else if (!strcmp(verb, "set") || !strcmp(verb, "set6")) { /* set6: an option of IPv6, by its number */
        fd = sock();
        int name = option(word());
        n = value(word(), bytes, sizeof bytes, 0);
        say(setsockopt(*fd, verb[3] ? IPPROTO_IPV6 : LEVEL, name, bytes, n));
    } else if (!strcmp(verb, "get")) do_get();
    else if (!strcmp(verb, "ids")) do_ids();
    else if (!strcmp(verb, "poll")) do_poll();
    else if (!strcmp(verb, "error")) {
        len = sizeof n;
        fd = sock();
        getsockopt(*fd, SOL_SOCKET, SO_ERROR, &n, &len);
        printf("%s", n ? strerrorname_np(n) : "0");
    } else if (!strcmp(verb, "linger")) {
        fd = sock();
        struct linger l = {1, num()};
        say(setsockopt(*fd, SOL_SOCKET, SO_LINGER, &l, sizeof l));
    } else if (!strcmp(verb, "buffer")) { /* buffer SOCKET SO_SNDBUF SO_RCVBUF */
        fd = sock();
        n = num();
        setsockopt(*fd, SOL_SOCKET, SO_SNDBUF, &n, sizeof n);
        n = num();
        say(setsockopt(*fd, SOL_SOCKET, SO_RCVBUF, &n, sizeof n));
    } else if (!strcmp(verb, "peeloff")) { /* peeloff SOCKET ID NEW */
        sctp_peeloff_arg_t arg;
        len = sizeof arg;
        fd = sock();
        arg.associd = id_of(word());
        n = getsockopt(*fd, LEVEL, SCTP_SOCKOPT_PEELOFF, &arg, &len);
        if (n >= 0) {
            fcntl(arg.sd, F_SETFL, O_NONBLOCK);
            *sock() = arg.sd;
        }
        say(n < 0 ? n : 0);
    } else if (!strcmp(verb, "shutdown")) {
        fd = sock();
        say(shutdown(*fd, num()));
    } else if (!strcmp(verb, "sockname")) do_name(getsockname);
    else if (!strcmp(verb, "peername")) do_name(getpeername);
    else if (!strcmp(verb, "close")) {
        fd = sock();
        say(close(*fd));
        *fd = -1;
    } else if (!strcmp(verb, "sleep")) {
        usleep(num() * 1000);
        printf("0");
    } else printf("unknown");
}

int main(int argc, char **argv)
{
    char line[LINE];
    FILE *in = argc > 1 ? fopen(argv[1], "r") : stdin;
    if (!in) return perror(argv[1]), 1;
    for (int i = 0; i < NAMES; i++) fds[i] = -1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, in)) {
        char *end = strstr(line, " -> ");
        if (end) *end = 0;
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '#') {
            scene();
            printf("%s\n", line);
            continue;
        }
        if (!line[0]) continue;
        printf("%s -> ", line);
        rest = line;
        step(word());
        printf("\n");
    }
    return 0;
}
