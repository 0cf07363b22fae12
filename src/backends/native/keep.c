/* A socket's address is short, a state directory's path may not be: the folder is opened first, and the
 * socket named through the descriptor. */
#include "backends/native/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define SOCKET_NAME "init"
#define LOCK_NAME "init.lock"
#define LOCK_TIMEOUT_NS (3 * NSEC_PER_SEC) /* of who cleans up */

static int open_folder(const char *folder, struct error *err)
{
    int fd = open(folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? error_errno(err, ERR_UNAVAILABLE, errno, "open the computer's folder %s", folder) : fd;
}

int keep_lock(const char *folder, const struct wait *wait, int *ret_lock, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_fd_ int dir = open_folder(folder, err);
    if (dir < 0)
        return -1;
    _cleanup_fd_ int fd = openat(dir, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open %s/" LOCK_NAME, folder);
    if (fd_lock(fd, LOCK_TIMEOUT_NS, wait, &why) < 0)
        return why.code == ERR_BUSY
                   ? error_set(err, ERR_BUSY,
                               "processes of the computer run where this server can't reach them: end the "
                               "server's container or namespace that they were started in")
                   : error_set(err, why.code, "%s/" LOCK_NAME ": %s", folder, why.msg);
    *ret_lock = TAKE_FD(fd);
    return 0;
}

static struct sockaddr_un address_in(int dir)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" SOCKET_NAME, dir);
    return address;
}

int keep_bind(const char *folder, int *ret_socket, struct error *err)
{
    _cleanup_fd_ int dir = open_folder(folder, err);
    if (dir < 0)
        return -1;
    const struct sockaddr_un address = address_in(dir);
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Before it has a name: whoever may write to the file may connect. */
    if (fd < 0 || fchmod(fd, 0600) < 0 || (unlinkat(dir, SOCKET_NAME, 0) < 0 && errno != ENOENT) ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "make the socket %s/" SOCKET_NAME, folder);
    *ret_socket = TAKE_FD(fd);
    return 0;
}

int keep_connect(const char *folder, int *ret_channel, pid_t *ret_pid, uid_t *ret_uid, struct error *err)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    _cleanup_fd_ int dir = open_folder(folder, err);
    if (dir < 0)
        return -1;
    const struct sockaddr_un address = address_in(dir);
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_errno(err, ERR_LIMIT, errno, "make a socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return error_errno(err, errno == ENOENT || errno == ECONNREFUSED ? ERR_GONE : ERR_UNAVAILABLE, errno,
                           "connect to %s/" SOCKET_NAME, folder);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "ask who listens on %s/" SOCKET_NAME, folder);
    *ret_channel = TAKE_FD(fd);
    *ret_pid = peer.pid;
    *ret_uid = peer.uid;
    return 0;
}

bool keep_has_socket(const char *folder)
{
    struct stat st;
    _cleanup_fd_ int dir = open_folder(folder, NULL);
    return dir >= 0 && fstatat(dir, SOCKET_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode);
}

void keep_remove(const char *folder)
{
    _cleanup_fd_ int dir = open_folder(folder, NULL);
    if (dir < 0)
        return;
    unlinkat(dir, SOCKET_NAME, 0);
    unlinkat(dir, LOCK_NAME, 0);
}
