/* See address_parse.h. Every part is held to the characters that such a part can have, so nothing needs
 * quoting later: not in a URL, not for ssh, not for the shell that sshd starts. */
#include "backends/engine/address_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/mem.h"
#include "base/str.h"

#define PORT_PLAIN 2375 /* IANA: docker, docker-s */
#define PORT_TLS 2376
#define PART_MAX 255

/* True if text is letters, digits and `others`, not empty, and no option of ssh. */
static bool made_of(const char *text, const char *others)
{
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || (text[n] && strchr(others, text[n])))
        n++;
    return n > 0 && n <= PART_MAX && !text[n] && text[0] != '-';
}

struct host_port {
    char *host; /* without brackets; "" if none was given */
    int port;   /* 0: not given */
    bool ipv6;
};
static void host_port_done(struct host_port *h)
{
    free(h->host);
}

static int split_host_port(const char *text, struct host_port *ret, struct error *err)
{
    bool bracket = *text == '[';
    const char *host = text + bracket;
    const char *end = host + strcspn(host, bracket ? "]" : ":");
    const char *behind = bracket && *end ? end + 1 : end;
    int64_t port = 0;
    bool good = *behind ? *behind == ':' && str_parse_i64(behind + 1, &port) && port >= 1 && port <= 65535
                        : !bracket || *end;
    if (!good)
        return error_set(err, ERR_INVALID,
                         "%.100s is not HOST or HOST:PORT (ports are 1 to 65535; an IPv6 address stands in "
                         "brackets)",
                         text);
    _cleanup_(cleanup_free) char *name = xstrndup(host, (size_t)(end - host));
    if ((*name || bracket) && !made_of(name, bracket ? ":." : "._-"))
        return error_set(err, ERR_INVALID, "%.100s is no name of a host", name);
    *ret = (struct host_port){.host = TAKE_PTR(name), .port = (int)port, .ipv6 = bracket};
    return 0;
}

static int parse_unix(const char *rest, bool tls, struct engine_address *ret, struct error *err)
{
    const char *path = *rest ? rest : "/var/run/docker.sock";
    if (*path != '/')
        return error_set(err, ERR_INVALID, "%.100s is no absolute path of a socket", path);
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return error_set(err, ERR_INVALID, "%.200s is too long for a socket's path", path);
    ret->unix_path = xstrdup(path);
    ret->url = xstrdup("http://docker");
    ret->text = xasprintf("unix://%s", path);
    return 0;
}

static int parse_tcp(const char *rest, bool tls, struct engine_address *ret, struct error *err)
{
    _cleanup_(host_port_done) struct host_port at = {0};
    size_t n = strlen(rest);
    _cleanup_(cleanup_free) char *place = xstrndup(rest, n > 0 && rest[n - 1] == '/' ? n - 1 : n);
    if (split_host_port(place, &at, err) < 0)
        return -1;
    int port = at.port ? at.port : tls ? PORT_TLS : PORT_PLAIN;
    const char *host = *at.host ? at.host : "localhost";
    _cleanup_(cleanup_free) char *where =
        xasprintf("%s%s%s:%d", at.ipv6 ? "[" : "", host, at.ipv6 ? "]" : "", port);
    ret->url = xasprintf("%s://%s", tls ? "https" : "http", where);
    ret->text = xasprintf("tcp://%s", where);
    return 0;
}

static int parse_https(const char *rest, bool tls, struct engine_address *ret, struct error *err)
{
    return parse_tcp(rest, true, ret, err);
}

static int parse_ssh(const char *rest, bool tls, struct engine_address *ret, struct error *err)
{
    _cleanup_(host_port_done) struct host_port at = {0};
    const char *slash = strchrnul(rest, '/');
    const char *socket = slash[0] && slash[1] ? slash : NULL;
    _cleanup_(cleanup_free) char *place = xstrndup(rest, (size_t)(slash - rest));
    char *sign = strrchr(place, '@');
    const char *user = sign ? place : NULL;
    if (sign)
        *sign = '\0';
    if (user && strchr(user, ':'))
        return error_set(err, ERR_INVALID, "ssh:// takes no password: use a key or an agent");
    if (user && !made_of(user, "._-+@"))
        return error_set(err, ERR_INVALID, "%.100s is no name of a user for ssh", user);
    if (split_host_port(sign ? sign + 1 : place, &at, err) < 0)
        return -1;
    if (!*at.host)
        return error_set(err, ERR_INVALID, "ssh:// names no host: ssh://[USER@]HOST[:PORT][/SOCKET]");
    if (socket && !made_of(socket, "/._-+:@,="))
        return error_set(err, ERR_INVALID,
                         "%.100s can't be the path of a socket over ssh: only letters, digits and /._-+:@,= "
                         "can be sent through any shell",
                         socket);
    ret->ssh = xasprintf("%s%s%s", user ? user : "", user ? "@" : "", at.host);
    ret->ssh_port = at.port ? xasprintf("%d", at.port) : NULL;
    ret->ssh_socket = xstrdup(socket);
    ret->url = xstrdup("http://docker");
    ret->text = xasprintf("ssh://%s", rest);
    return 0;
}

int address_parse(const char *text, bool tls, struct engine_address *ret, struct error *err)
{
    static const struct {
        const char *name;
        int (*parse)(const char *rest, bool tls, struct engine_address *ret, struct error *err);
    } schemes[] = {
        {"unix://", parse_unix},   {"tcp://", parse_tcp},  {"ssh://", parse_ssh},
        {"https://", parse_https}, {"http://", parse_tcp},
    };
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (str_has_prefix(text, schemes[i].name))
            return schemes[i].parse(text + strlen(schemes[i].name), tls, ret, err);
    if (strstr(text, "://") || (*text != '/' && !strchr(text, ':')))
        return error_set(err, ERR_INVALID,
                         "'%.100s' is no address; it must be unix:///PATH, tcp://HOST[:PORT] or "
                         "ssh://[USER@]HOST[:PORT][/SOCKET]",
                         text);
    return *text == '/' ? parse_unix(text, tls, ret, err) : parse_tcp(text, tls, ret, err);
}
