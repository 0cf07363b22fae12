/* One datagram per state, to a socket that systemd names. What can't be sent is not worth a word: a manager
 * that misses it says so itself. The variables are cleared, so that no child takes them for its own. */
#include "notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

struct notify {
    int fd;
    struct sockaddr_un to;
    socklen_t to_size;
    struct loop_timer *watchdog;
};

/* "@name" is an abstract one. */
static bool read_address(const char *path, struct notify *n)
{
    size_t length = strlen(path);
    if ((*path != '/' && *path != '@') || length >= sizeof(n->to.sun_path))
        return false;
    n->to = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(n->to.sun_path, path, length);
    if (*path == '@')
        n->to.sun_path[0] = '\0';
    n->to_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (*path == '/'));
    return true;
}

static void on_watchdog(void *arg)
{
    notify_tell(arg, "WATCHDOG=1");
}

static void start_watchdog(struct notify *n, struct loop *loop)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    int64_t period, whose;
    if (!usec || !str_parse_i64(usec, &period) || period < 2000)
        return;
    if (pid && (!str_parse_i64(pid, &whose) || whose != getpid()))
        return;
    n->watchdog = loop_timer_new(loop, on_watchdog, n);
    loop_timer_start(n->watchdog, period / 2000, period / 2000);
}

struct notify *notify_new(struct loop *loop)
{
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path)
        return NULL;
    struct notify *n = xcalloc(1, sizeof(*n));
    n->fd = -1;
    if (!read_address(path, n) || (n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        n = notify_free(n);
    else
        start_watchdog(n, loop);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return n;
}

void notify_tell(struct notify *n, const char *state)
{
    if (n)
        (void)!sendto(n->fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&n->to, n->to_size);
}

struct notify *notify_free(struct notify *n)
{
    if (!n)
        return NULL;
    loop_timer_free(n->watchdog);
    fd_close(n->fd);
    free(n);
    return NULL;
}
