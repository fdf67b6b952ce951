/* A clock that stands still while the kernel in user mode works, and jumps to its next timer when it has nothing to do: what the guest
 * measures is then what Linux decides, not how fast this machine is or who else uses it. Preloaded into the kernel's process; until the file
 * that STILL_FROM names is opened for the first time the clock is the host's, since a booting kernel waits for time to pass.
 *
 * The kernel reads clock_gettime, arms one timer, whose signal is SIGALRM, and sleeps in sigsuspend (arch/um/os-Linux/time.c).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What reading the clock costs, in nanoseconds: whoever waits for time to pass without sleeping comes to an end. */
enum { READ = 10 };
enum { SIGNALS = 64 };

static int still;
/* Nanoseconds of CLOCK_MONOTONIC, what the wall clock has more, the timer's next expiry (0 for none) and its period (0 for once). */
static uint64_t now, wall, expiry, period;
static timer_t timer;

static int (*host_gettime)(clockid_t, struct timespec *);
static int (*host_create)(clockid_t, struct sigevent *, timer_t *);
static int (*host_settime)(timer_t, int, const struct itimerspec *, struct itimerspec *);
static int (*host_left)(timer_t, struct itimerspec *);
static int (*host_open)(const char *, int, ...);

__attribute__((constructor)) static void find(void) {
    host_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    host_create = dlsym(RTLD_NEXT, "timer_create");
    host_settime = dlsym(RTLD_NEXT, "timer_settime");
    host_left = dlsym(RTLD_NEXT, "timer_gettime");
    host_open = dlsym(RTLD_NEXT, "open64");
}

static uint64_t nanos(struct timespec at) {
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

static struct timespec spec(uint64_t ns) {
    return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
}

static uint64_t host(clockid_t clock) {
    struct timespec at;
    host_gettime(clock, &at);
    return nanos(at);
}

static void expire(void) {
    if (expiry && now >= expiry) {
        expiry = period ? expiry + period : 0;
        kill(getpid(), SIGALRM);
    }
}

/* From here on time passes only where the kernel sleeps. */
static void stop(void) {
    struct itimerspec left, none;
    memset(&none, 0, sizeof none);
    host_left(timer, &left);
    host_settime(timer, 0, &none, NULL);
    now = host(CLOCK_MONOTONIC);
    wall = host(CLOCK_REALTIME) - now;
    period = nanos(left.it_interval);
    expiry = now + nanos(left.it_value);
    still = 1;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!still)
        return host_gettime(clock, at);
    now += READ;
    *at = spec(now + (clock == CLOCK_REALTIME ? wall : 0));
    expire();
    return 0;
}

int timer_create(clockid_t clock, struct sigevent *event, timer_t *made) {
    int result = host_create(clock, event, made);
    timer = *made;
    return result;
}

int timer_settime(timer_t which, int flags, const struct itimerspec *value, struct itimerspec *old) {
    if (!still)
        return host_settime(which, flags, value, old);
    uint64_t ns = nanos(value->it_value);
    period = nanos(value->it_interval);
    expiry = ns == 0 ? 0 : (flags & TIMER_ABSTIME) ? ns : now + ns;
    return 0;
}

int timer_gettime(timer_t which, struct itimerspec *left) {
    if (!still)
        return host_left(which, left);
    left->it_interval = spec(period);
    left->it_value = spec(expiry == 0 ? 0 : expiry > now ? expiry - now : 1);
    return 0;
}

int sigsuspend(const sigset_t *mask) {
    if (still && expiry) {
        if (now < expiry)
            now = expiry;
        expire();
    }
    return (int)syscall(SYS_rt_sigsuspend, mask, SIGNALS / 8);
}

/* What hostfs puts in front of a path of the guest's depends on where that is mounted. */
static int ends_with(const char *path, const char *end) {
    size_t all = strlen(path), last = strlen(end);
    return all >= last && strcmp(path + all - last, end) == 0;
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    const char *from = getenv("STILL_FROM");
    if (!still && from && ends_with(path, from))
        stop();
    return host_open(path, flags, mode);
}
