/* Prints what the running kernel answers to getsockopt and setsockopt of SOL_SCTP: the file sctp.txt beside this program.
 *
 * A line: the socket; the option; "get" with what rooms of 0, 4, 8 and 256 bytes of zeros get; "set" with what so many zeros set. The
 * bytes that are read from an association depend on its path: there only their number is printed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SCTP = 132, PORT = 5000 };
static const char *const KINDS[] = {"new", "many", "listening", "connected"};
static const int GETS[] = {0, 4, 8, 256};
static const int SETS[] = {0, 3, 4, 8, 12, 14, 16, 20, 32, 132, 140, 144, 152, 156};

static int need(int ret, const char *what)
{
    if (ret < 0) {
        perror(what);
        exit(1);
    }
    return ret;
}

static const char *name(int e)
{
    static char other[16];
    switch (e) {
    case EINVAL: return "EINVAL";
    case ENOPROTOOPT: return "ENOPROTOOPT";
    case EOPNOTSUPP: return "EOPNOTSUPP";
    case EFAULT: return "EFAULT";
    case EACCES: return "EACCES";
    case EPERM: return "EPERM";
    case ENOTCONN: return "ENOTCONN";
    case ENOMEM: return "ENOMEM";
    case EISCONN: return "EISCONN";
    case EADDRNOTAVAIL: return "EADDRNOTAVAIL";
    case ENOSYS: return "ENOSYS";
    case ENOENT: return "ENOENT";
    }
    snprintf(other, sizeof other, "E%d", e);
    return other;
}

static struct sockaddr_in at(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return to;
}

static int listener(int port)
{
    struct sockaddr_in to = at(port);
    int fd = need(socket(AF_INET, SOCK_STREAM, SCTP), "socket");
    need(bind(fd, (struct sockaddr *)&to, sizeof to), "bind");
    need(listen(fd, 5), "listen");
    return fd;
}

/* The other end of the last association. */
static int far = -1;

static void drop(int fd)
{
    close(fd);
    if (far >= 0)
        close(far);
    far = -1;
}

static int make(int kind, int peer)
{
    struct sockaddr_in to = at(PORT);
    if (kind == 2)
        return listener(PORT + 1);
    int fd = need(socket(AF_INET, kind == 1 ? SOCK_SEQPACKET : SOCK_STREAM, SCTP), "socket");
    if (kind == 3) {
        need(connect(fd, (struct sockaddr *)&to, sizeof to), "connect");
        far = need(accept(peer, NULL, NULL), "accept");
    }
    return fd;
}

int main(void)
{
    int peer = listener(PORT);
    for (int kind = 0; kind < 4; kind++)
        for (int option = 0; option < 134; option++) {
            if (option > 37 && option < 100)
                continue;
            unsigned char value[256];
            printf("%s %d get", KINDS[kind], option);
            for (unsigned i = 0; i < sizeof GETS / sizeof *GETS; i++) {
                int fd = make(kind, peer);
                socklen_t len = GETS[i];
                memset(value, 0, sizeof value);
                if (getsockopt(fd, SCTP, option, value, &len))
                    printf(" %s", name(errno));
                else {
                    printf(" %u:", len);
                    for (unsigned b = 0; kind != 3 && b < len && b < sizeof value; b++)
                        printf("%02x", value[b]);
                }
                drop(fd);
            }
            printf(" set");
            for (unsigned i = 0; i < sizeof SETS / sizeof *SETS; i++) {
                int fd = make(kind, peer);
                memset(value, 0, sizeof value);
                printf(" %s", setsockopt(fd, SCTP, option, value, SETS[i]) ? name(errno) : "ok");
                drop(fd);
            }
            printf("\n");
        }
    return 0;
}
