/* A machine costs money as long as its main process lives. The server touches a file now and then
 * (place_touch()); when it has died, nobody does, and the machine ends. Whether what the server starts sees
 * the memory that we lay over the file's folder is the provider's affair, so both places count, and what is
 * beside the program by now, since its folder may be removed and put back at any time. The lease is counted
 * in steps, each of them waited for whole: a clock that jumps, since the machine was suspended, costs one
 * step at most, and whoever has woken it up has time to touch it.
 *
 * It is also where orphans fall to, and where the environment of the image is known, which execs need not
 * have: it is put down for the jobs. */
#include "guest/machine.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/init.h"
#include "guest/environment.h"
#include "guest/place.h"
#include "guest/signals.h"
#include "guest/sys.h"

#define STEPS 8

static const int stop_signals[] = {SIGINT, SIGQUIT, SIGHUP}; /* and SIGTERM */

static int set_up(void)
{
    sigset_t stop;
    sigemptyset(&stop);
    for (unsigned i = 0; i < ARRAY_LEN(stop_signals); i++)
        sigaddset(&stop, stop_signals[i]);
    sys_close_range(STDERR_FILENO + 1, ~0U);
    if (signals_take(&stop) < 0)
        return -1;
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static bool told_to_end(void)
{
    struct signalfd_siginfo info;
    bool told = false;
    while (read(FD_SIGNALS, &info, sizeof(info)) == (ssize_t)sizeof(info))
        told |= info.ssi_signo != SIGCHLD;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    return told;
}

/* False: it was told to end. */
static bool wait_until(int64_t due)
{
    struct pollfd polled = {.fd = FD_SIGNALS, .events = POLLIN};
    for (int64_t now = sys_clock_ns(); now < due; now = sys_clock_ns()) {
        const int64_t ms = (due - now + NS_PER_MS - 1) / NS_PER_MS;
        if (poll(&polled, 1, ms < INT32_MAX ? (int)ms : INT32_MAX) > 0 && told_to_end())
            return false;
    }
    return true;
}

struct place {
    int fd; /* -1: there is none */
    struct stat seen;
};

enum { ON_DISK, BY_NAME, PLACES };

static void open_places(struct place places[PLACES], const char *program)
{
    struct guest_error unused;
    places[ON_DISK].fd = place_open(program, &unused);
    places[BY_NAME].fd = places[ON_DISK].fd < 0 ? -1 : place_open_in_memory(program, places[ON_DISK].fd);
    for (unsigned n = 0; n < PLACES; n++) {
        environment_keep(places[n].fd, true);
        place_touch(places[n].fd);
    }
}

static bool was_touched(struct place places[PLACES], const char *program)
{
    struct guest_error unused;
    bool touched = false;
    sys_close(places[BY_NAME].fd);
    places[BY_NAME].fd = place_open(program, &unused);
    environment_keep(places[BY_NAME].fd, false);
    for (unsigned n = 0; n < PLACES; n++)
        touched |= place_was_touched(places[n].fd, &places[n].seen);
    return touched;
}

int machine_run(const char *program, unsigned lease_s)
{
    struct place places[PLACES] = {0};
    if (set_up() < 0)
        return 1;
    open_places(places, program);
    const int64_t step = lease_s > 0 ? lease_s * NS_PER_S / STEPS : INT32_MAX * NS_PER_S / 2;
    for (unsigned untouched = 0; lease_s == 0 || untouched < STEPS;) {
        untouched = was_touched(places, program) ? 0 : untouched + 1;
        if (!wait_until(sys_clock_ns() + step))
            break;
    }
    return 0;
}
