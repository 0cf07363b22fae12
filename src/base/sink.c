/* See sink.h. How a line goes out is chosen once, by what is there when it is opened. */
#include "base/sink.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

/* Chooses how standard error is written to. */
static struct sink open_stderr(void)
{
    struct sink s = SINK_INIT;
    struct stat st;
    if (fstat(STDERR_FILENO, &st) < 0)
        return s;
    if (S_ISREG(st.st_mode)) {
        s.kind = SINK_PLAIN;
    } else if (S_ISSOCK(st.st_mode)) {
        s.kind = SINK_SOCKET;
    } else {
        int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_APPEND | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0)
            s = (struct sink){.fd = fd, .kind = SINK_PLAIN};
    }
    return s;
}

int sink_open(struct sink *ret, const char *path)
{
    if (!path) {
        *ret = open_stderr();
        return 0;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    *ret = (struct sink){.fd = fd, .kind = SINK_PLAIN};
    return 0;
}

void sink_close(struct sink *s)
{
    if (s->fd != STDERR_FILENO)
        fd_close(s->fd);
    *s = (struct sink)SINK_INIT;
}

/* Bytes written, at once or not at all. */
static ssize_t write_now(const struct sink *s, const char *bytes, size_t n)
{
    if (s->kind == SINK_SOCKET)
        return send(s->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    if (s->kind == SINK_POLLED && (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT)))
        return -1;
    return write(s->fd, bytes, n);
}

bool sink_write(struct sink *s, const char *line, size_t n)
{
    if (s->torn && write_now(s, "\n", 1) != 1)
        return false;
    s->torn = false;
    const ssize_t written = write_now(s, line, n);
    s->torn = written > 0 && (size_t)written < n;
    return written == (ssize_t)n;
}
