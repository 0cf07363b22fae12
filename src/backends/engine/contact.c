/* See contact.h. */
#include "backends/engine/contact.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#define HEAD_MAX (16 * KIB)
#define WORDS_MAX 300

int contact_connect(const char *unix_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(unix_path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, unix_path);
    _cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -1;
    return TAKE_FD(fd);
}

/* The head of an answer, up to its empty line. It has no body, and nothing else was asked for. */
static int read_head(int fd, struct buf *head, const struct wait *wait, struct error *err)
{
    static const char begin[] = "HTTP/1.";
    while (!str_has_suffix(buf_str(head), "\r\n\r\n")) {
        char bytes[1024];
        if (wait_fd(fd, POLLIN, wait, NULL, err) < 0)
            return -1;
        ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n < 0 && errno != ECONNRESET)
            return error_errno(err, ERR_UNAVAILABLE, errno, "read an answer");
        if (n <= 0)
            return error_set(err, ERR_UNAVAILABLE, "the connection was closed without an answer");
        bool full = buf_append(head, bytes, (size_t)n) < 0;
        size_t compared = head->len < strlen(begin) ? head->len : strlen(begin);
        if (full || memcmp(head->data, begin, compared) != 0) {
            _cleanup_(cleanup_free) char *words = contact_words(head->data, head->len);
            return error_set(err, ERR_UNAVAILABLE, "what answers there is no engine; it says: %.200s", words);
        }
    }
    return 0;
}

int contact_ping(int fd, const struct wait *wait, struct error *err)
{
    static const char request[] = "HEAD /_ping HTTP/1.1\r\nHost: docker\r\n\r\n";
    /* It is the first thing sent: there is room for all of it. */
    if (send(fd, request, strlen(request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EPIPE)
        return error_errno(err, ERR_UNAVAILABLE, errno, "send a ping");
    _cleanup_(buf_done) struct buf head = BUF_INIT(HEAD_MAX);
    return read_head(fd, &head, wait, err);
}

char *contact_words(const char *bytes, size_t n)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT(3 * n + 1); /* one bad byte becomes three */
    if (utf8_append_lossy(&text, bytes, n) < 0)
        return xstrdup("");
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (iscntrl(c))
            text.data[i] = ' ';
        else if (c == 0xc2 && (unsigned char)text.data[i + 1] < 0xa0) /* U+0080 to U+009F */
            text.data[i] = text.data[i + 1] = ' ';
    }
    _cleanup_(cleanup_free) char *line = str_trim(buf_str(&text));
    size_t len = strlen(line), skip = len > WORDS_MAX ? len - WORDS_MAX : 0;
    skip += utf8_leading_fragment(line + skip, len - skip);
    return xasprintf("%s%s", skip > 0 ? "..." : "", line + skip);
}

char *contact_beginning(const char *text, size_t most)
{
    return contact_words(text, utf8_boundary(text, strnlen(text, most)));
}
