/* Listening sockets. See listen.h. */
#include "transport/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"

#define BACKLOG 1024 /* the kernel's own limit (net.core.somaxconn) may be lower */
#define FIRST_INHERITED 3
#define PORT_ATTEMPTS 16 /* a port that is free for one family may be taken for the other */

static void name_address(char name[LISTEN_NAME_SIZE], const struct sockaddr_storage *a)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)a;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
        snprintf(name, LISTEN_NAME_SIZE, "%s:%u", text, ntohs(in->sin_port));
    } else if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)a;
        inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
        snprintf(name, LISTEN_NAME_SIZE, "[%s]:%u", text, ntohs(in6->sin6_port));
    } else {
        const struct sockaddr_un *un = (const struct sockaddr_un *)a;
        snprintf(name, LISTEN_NAME_SIZE, "unix:%.*s", (int)sizeof(un->sun_path) - 1, un->sun_path);
    }
}

static bool is_exposed(const struct sockaddr_storage *a)
{
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
    const uint8_t *v4 = (const uint8_t *)&((const struct sockaddr_in *)a)->sin_addr;
    if (a->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(v6))
        v4 = &v6->s6_addr[12];
    else if (a->ss_family == AF_INET6)
        return !IN6_IS_ADDR_LOOPBACK(v6);
    return a->ss_family != AF_UNIX && v4[0] != 127;
}

static int add(struct listening *l, int fd, struct error *err)
{
    struct sockaddr_storage a = {0};
    socklen_t size = sizeof(a) - 1; /* a path that fills its field keeps an end */
    if (l->count == LISTEN_MAX)
        return error_set(err, ERR_LIMIT, "more than %d listening sockets; use fewer", LISTEN_MAX);
    if (getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        return error_errno(err, ERR_INTERNAL, errno, "Can't ask a listening socket for its address");
    name_address(l->names[l->count], &a);
    l->is_exposed |= is_exposed(&a);
    l->fds[l->count++] = fd;
    return 0;
}

/* Back to what *l was before. */
static void forget_after(struct listening *l, size_t count)
{
    while (l->count > count)
        fd_close(l->fds[--l->count]);
}

/* -- TCP. */

static void set_port(struct sockaddr *a, int port)
{
    if (a->sa_family == AF_INET)
        ((struct sockaddr_in *)(void *)a)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)(void *)a)->sin6_port = htons((uint16_t)port);
}

static int port_of(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t size = sizeof(a);
    if (getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        return 0;
    return ntohs(a.ss_family == AF_INET ? ((struct sockaddr_in *)&a)->sin_port
                                        : ((struct sockaddr_in6 *)&a)->sin6_port);
}

/* -1 with errno. Each family has a socket of its own, so that peers of IPv4 are never seen as of IPv6. */
static int open_tcp(const struct addrinfo *ai)
{
    const int on = 1;
    _cleanup_fd_ int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (ai->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return -1;
    return TAKE_FD(fd);
}

/* 0, or an errno; -1 with *err. With *port 0 the first address chooses, the others follow. */
static int open_family(struct listening *l, struct addrinfo *list, int family, int *port, struct error *err)
{
    for (struct addrinfo *ai = list; ai; ai = ai->ai_next) {
        if (ai->ai_family != family)
            continue;
        set_port(ai->ai_addr, *port);
        int fd = open_tcp(ai);
        if (fd < 0)
            return errno;
        if (add(l, fd, err) < 0) {
            fd_close(fd);
            return -1;
        }
        if (*port == 0)
            *port = port_of(fd);
    }
    return 0;
}

static bool is_absent(int error)
{
    return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

/* As above. A family that this machine doesn't have is passed over, if the other has an address. */
static int open_all(struct listening *l, struct addrinfo *list, int port, struct error *err)
{
    size_t before = l->count;
    int v4 = open_family(l, list, AF_INET, &port, err);
    int v6 = v4 == 0 || is_absent(v4) ? open_family(l, list, AF_INET6, &port, err) : 0;
    int failed = is_absent(v4) && l->count > before ? 0 : v4;
    if (!failed && (!is_absent(v6) || l->count == before))
        failed = v6;
    if (failed)
        forget_after(l, before);
    return failed ? failed : l->count > before ? 0 : EADDRNOTAVAIL;
}

static int refuse_tcp(const char *host, int port, int error, struct error *err)
{
    const char *what = error == EADDRINUSE      ? "; another program has it: choose another --port"
                       : error == EACCES        ? "; ports below 1024 are root's: choose another --port"
                       : error == EADDRNOTAVAIL ? "; this machine has no such address: see --host"
                                                : "";
    return error_set(err, ERR_UNAVAILABLE, "Can't listen on %s, port %d: %s%s", host ? host : "all addresses",
                     port, strerror(error), what);
}

/* "localhost" is this machine whatever its files say, and in both families (RFC 6761, section 6.3). */
static int resolve(const char *host, struct addrinfo **ret)
{
    bool is_local = host && str_equal_nocase(host, "localhost");
    const struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | (is_local ? 0 : AI_PASSIVE),
                                   .ai_socktype = SOCK_STREAM};
    return getaddrinfo(is_local ? NULL : host, "0", &hints, ret);
}

int listen_tcp(struct listening *l, const char *host, int port, struct error *err)
{
    struct addrinfo *list = NULL;
    if (host && !host[0])
        host = NULL;
    int failed = resolve(host, &list);
    if (failed)
        return error_set(err, ERR_INVALID, "Can't listen on %s: %s; give an address of this machine",
                         host ? host : "all addresses", gai_strerror(failed));
    for (int i = 0; i < (port ? 1 : PORT_ATTEMPTS); i++) {
        failed = open_all(l, list, port, err);
        if (failed != EADDRINUSE)
            break;
    }
    freeaddrinfo(list);
    if (failed < 0)
        return -1;
    return failed ? refuse_tcp(host, port, failed, err) : 0;
}

/* -- Unix sockets. */

/* 1: somebody answers, 0: a socket that nobody answers on, or nothing at all; -1: something else. */
static int probe(const struct sockaddr_un *a)
{
    struct stat st;
    if (lstat(a->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : -1;
    if (!S_ISSOCK(st.st_mode))
        return -1;
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno == EAGAIN || errno == EACCES)
        return 1;
    return errno == ECONNREFUSED || errno == ENOENT ? 0 : -1;
}

/* Born with its mode: fchmod(2) of a socket before bind(2) counts for the file. */
static int bind_unix(int fd, const struct sockaddr_un *a)
{
    if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)a, sizeof(*a)) < 0)
        return -1;
    return listen(fd, BACKLOG);
}

static int replace_stale(const struct sockaddr_un *a, const char *path, struct error *err)
{
    int found = probe(a);
    if (found > 0)
        return error_set(err, ERR_BUSY,
                         "Can't listen on %s: another server answers there; stop it, or choose "
                         "another --unix-socket",
                         path);
    if (found < 0)
        return error_set(err, ERR_EXISTS,
                         "Can't listen on %s: it is there and no socket of a server; move it "
                         "away, or choose another --unix-socket",
                         path);
    if (unlink(path) < 0 && errno != ENOENT)
        return error_errno(err, ERR_DENIED, errno, "Can't replace %s, which no server answers on", path);
    return 0;
}

/* Two servers that start at once must not take each other's new socket for a stale one. Who else locks the
 * folder doesn't keep us from starting. */
static int lock_folder(const char *path, struct error *err)
{
    _cleanup_(cleanup_free) char *folder = xstrdup(path);
    char *slash = strrchr(folder, '/');
    const char *name = !slash ? "." : slash == folder ? "/" : folder;
    if (slash)
        *slash = '\0';
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "Can't listen on %s", path);
    flock(fd, LOCK_EX | LOCK_NB);
    return fd;
}

int listen_unix(struct listening *l, const char *path, struct error *err)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;
    if (!path[0] || strlen(path) >= sizeof(a.sun_path))
        return error_set(err, ERR_INVALID, "Can't listen on '%s': a unix socket's path has 1 to %zu bytes",
                         path, sizeof(a.sun_path) - 1);
    memcpy(a.sun_path, path, strlen(path) + 1);
    _cleanup_fd_ int lock = lock_folder(path, err);
    if (lock < 0 || replace_stale(&a, path, err) < 0)
        return -1;
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind_unix(fd, &a) < 0 || lstat(path, &st) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "Can't listen on %s", path);
    if (add(l, fd, err) < 0)
        return -1;
    fd = -1;
    l->path = xstrdup(path);
    l->device = st.st_dev;
    l->inode = st.st_ino;
    return 0;
}

/* -- From a service manager. */

static int take_inherited(struct listening *l, int fd, struct error *err)
{
    int listening = 0, type = 0;
    socklen_t size = sizeof(int);
    struct sockaddr_storage a = {0};
    socklen_t room = sizeof(a);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0 || !listening ||
        getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM ||
        getsockname(fd, (struct sockaddr *)&a, &room) < 0 ||
        (a.ss_family != AF_INET && a.ss_family != AF_INET6 && a.ss_family != AF_UNIX))
        return error_set(err, ERR_INVALID,
                         "Descriptor %d, passed by the service manager, is no listening stream socket; the "
                         "socket unit needs ListenStream= and no Accept=yes",
                         fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fd_set_nonblocking(fd, true);
    return add(l, fd, err);
}

int listen_inherited(struct listening *l, struct error *err)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    int64_t for_pid = 0, count = 0;
    bool ours = pid && fds && str_parse_i64(pid, &for_pid) && for_pid == getpid();
    bool valid = ours && str_parse_i64(fds, &count) && count >= 0 && count <= LISTEN_MAX;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (!ours)
        return 0;
    if (!valid)
        return error_set(err, ERR_INVALID, "LISTEN_FDS of the service manager is no number from 0 to %d",
                         LISTEN_MAX);
    size_t before = l->count;
    for (int fd = FIRST_INHERITED; fd < FIRST_INHERITED + count; fd++) {
        if (take_inherited(l, fd, err) < 0) {
            forget_after(l, before);
            return -1;
        }
    }
    return 0;
}

/* -- The end. */

void listening_give(struct listening *l)
{
    for (size_t i = 0; i < l->count; i++)
        l->fds[i] = -1;
}

/* An inode's number may be another's by now, so what answers is not ours either. */
static void remove_own_socket(const struct listening *l)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct stat st;
    _cleanup_fd_ _unused_ int lock = lock_folder(l->path, NULL);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", l->path);
    if (lstat(l->path, &st) == 0 && st.st_dev == l->device && st.st_ino == l->inode && probe(&a) == 0)
        unlink(l->path);
}

void listening_done(struct listening *l)
{
    forget_after(l, 0);
    if (l->path)
        remove_own_socket(l);
    free(l->path);
    *l = (struct listening)LISTENING_INIT;
}
