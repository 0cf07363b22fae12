#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "transport/listen.h"

static int port_in(const char *name)
{
    return atoi(strrchr(name, ':') + 1);
}

/* 0, or -1 with errno. */
static int connect_to(const char *name)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port_in(name))};
    struct sockaddr_in6 in6 = {
        .sin6_family = AF_INET6, .sin6_port = in.sin_port, .sin6_addr = in6addr_loopback};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool is_unix = str_has_prefix(name, "unix:"), is_v6 = name[0] == '[';
    if (is_unix)
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", name + 5);
    _cleanup_fd_ int fd = socket(is_unix ? AF_UNIX
                                 : is_v6 ? AF_INET6
                                         : AF_INET,
                                 SOCK_STREAM | SOCK_CLOEXEC, 0);
    return is_unix ? connect(fd, (struct sockaddr *)&un, sizeof(un))
           : is_v6 ? connect(fd, (struct sockaddr *)&in6, sizeof(in6))
                   : connect(fd, (struct sockaddr *)&in, sizeof(in));
}

static bool has_ipv6(void)
{
    const struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    _cleanup_fd_ int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof(a)) == 0;
}

static void check_all(const struct listening *l)
{
    for (size_t i = 0; i < l->count; i++) {
        assert_int_equal(connect_to(l->names[i]), 0);
        assert_true(fcntl(l->fds[i], F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(l->fds[i], F_GETFL) & O_NONBLOCK);
    }
}

/* -- TCP. */

static void test_address(void **state)
{
    struct listening l = LISTENING_INIT;
    struct error err = ERROR_INIT;
    assert_int_equal(listen_tcp(&l, "127.0.0.1", 0, &err), 0);
    assert_int_equal(l.count, 1);
    assert_true(str_has_prefix(l.names[0], "127.0.0.1:"));
    assert_true(port_in(l.names[0]) > 0);
    check_all(&l);
    char name[LISTEN_NAME_SIZE];
    memcpy(name, l.names[0], sizeof(name));
    listening_done(&l);
    assert_int_equal(connect_to(name), -1);
}

static void test_both_families(void **state)
{
    static const char *const hosts[] = {"localhost", "LocalHost", "", NULL};
    static const char *const firsts[] = {"127.0.0.1:", "127.0.0.1:", "0.0.0.0:", "0.0.0.0:"};
    static const char *const seconds[] = {"[::1]:", "[::1]:", "[::]:", "[::]:"};
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
        struct listening l = LISTENING_INIT;
        struct error err = ERROR_INIT;
        assert_int_equal(listen_tcp(&l, hosts[i], 0, &err), 0);
        assert_int_equal(l.count, has_ipv6() ? 2 : 1);
        assert_true(str_has_prefix(l.names[0], firsts[i]));
        if (l.count == 2) {
            assert_true(str_has_prefix(l.names[1], seconds[i]));
            assert_int_equal(port_in(l.names[0]), port_in(l.names[1]));
        }
        check_all(&l);
        listening_done(&l);
    }
}

static void test_tcp_refusals(void **state)
{
    struct listening l = LISTENING_INIT;
    struct error err = ERROR_INIT;
    assert_int_equal(listen_tcp(&l, "127.0.0.1", 0, &err), 0);
    const struct {
        const char *host;
        int port;
        enum error_code code;
        const char *says;
    } cases[] = {
        {"127.0.0.1", port_in(l.names[0]), ERR_UNAVAILABLE, "choose another --port"},
        {"192.0.2.1", 0, ERR_UNAVAILABLE, "no such address"},
        {"no such name", 0, ERR_INVALID, "give an address"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_int_equal(listen_tcp(&l, cases[i].host, cases[i].port, &err), -1);
        assert_int_equal(err.code, cases[i].code);
        assert_non_null(strstr(err.msg, cases[i].says));
        assert_int_equal(l.count, 1);
    }
    listening_done(&l);
}

/* -- Unix sockets, in a folder of their own. */

struct folder {
    char dir[32], path[64];
};

static void folder_make(struct folder *f)
{
    snprintf(f->dir, sizeof(f->dir), "/tmp/listen-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/socket", f->dir);
}

static void folder_remove(struct folder *f)
{
    assert_int_equal(rmdir(f->dir), 0); /* so nothing was left there */
}

static void test_unix(void **state)
{
    struct folder f;
    folder_make(&f);
    struct listening l = LISTENING_INIT;
    struct error err = ERROR_INIT;
    struct stat st;
    mode_t mask = umask(0);
    assert_int_equal(listen_unix(&l, f.path, &err), 0);
    umask(mask);
    assert_int_equal(lstat(f.path, &st), 0);
    assert_int_equal(st.st_mode, S_IFSOCK | 0600);
    assert_true(str_has_prefix(l.names[0], "unix:/tmp/listen-"));
    check_all(&l);

    struct listening second = LISTENING_INIT;
    assert_int_equal(listen_unix(&second, f.path, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    assert_int_equal(second.count, 0);
    listening_done(&second);
    check_all(&l); /* the socket is still there */
    listening_done(&l);
    folder_remove(&f);
}

static void test_stale_socket(void **state)
{
    struct folder f;
    folder_make(&f);
    struct listening l = LISTENING_INIT, next = LISTENING_INIT;
    struct error err = ERROR_INIT;
    assert_int_equal(listen_unix(&l, f.path, &err), 0);
    l.fds[0] = fd_close(l.fds[0]); /* as if we had been killed */
    assert_int_equal(listen_unix(&next, f.path, &err), 0);
    check_all(&next);
    listening_done(&l); /* it isn't ours any more */
    check_all(&next);
    int given = next.fds[0];
    listening_give(&next);
    fd_close(given);
    listening_done(&next);
    folder_remove(&f);
}

static void test_unix_refusals(void **state)
{
    struct folder f;
    folder_make(&f);
    struct listening l = LISTENING_INIT;
    struct error err = ERROR_INIT;
    fd_close(open(f.path, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    assert_int_equal(listen_unix(&l, f.path, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_int_equal(access(f.path, F_OK), 0);
    assert_int_equal(unlink(f.path), 0);

    assert_int_equal(symlink("/tmp", f.path), 0);
    assert_int_equal(listen_unix(&l, f.path, &err), -1);
    assert_int_equal(unlink(f.path), 0);

    char long_path[200];
    memset(long_path, 'a', sizeof(long_path));
    long_path[sizeof(long_path) - 1] = '\0';
    assert_int_equal(listen_unix(&l, long_path, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(listen_unix(&l, "", &err), -1);
    assert_int_equal(listen_unix(&l, "/no/such/folder/socket", &err), -1);
    assert_int_equal(l.count, 0);
    listening_done(&l);
    folder_remove(&f);
}

static void test_exposure(void **state)
{
    static const struct {
        const char *host;
        bool exposed;
    } cases[] = {
        {"127.0.0.1", false}, {"127.8.9.10", false}, {"localhost", false}, {"0.0.0.0", true}, {NULL, true}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct listening l = LISTENING_INIT;
        struct error err = ERROR_INIT;
        assert_int_equal(listen_tcp(&l, cases[i].host, 0, &err), 0);
        assert_int_equal(l.is_exposed, cases[i].exposed);
        listening_done(&l);
    }
}

/* -- From a service manager, in a process of its own, as the descriptors have fixed numbers. */

enum inherited { NOTHING, TWO_SOCKETS, FOR_ANOTHER, NO_SOCKET, NOT_LISTENING, TOO_MANY, NO_NUMBER };

static int inherit(enum inherited what)
{
    struct listening made = LISTENING_INIT, l = LISTENING_INIT;
    struct error err = ERROR_INIT;
    char pid[20];
    if (listen_tcp(&made, "127.0.0.1", 0, &err) < 0 || dup2(made.fds[0], 100) < 0 ||
        dup2(made.fds[0], 101) < 0)
        return 1;
    if (what == NOT_LISTENING && dup2(socket(AF_INET, SOCK_STREAM, 0), 101) < 0)
        return 2;
    if (what == NO_SOCKET && dup2(0, 101) < 0)
        return 3;
    dup2(100, 3);
    dup2(101, 4);
    snprintf(pid, sizeof(pid), "%d", (int)getpid() + (what == FOR_ANOTHER));
    if (what != NOTHING) {
        setenv("LISTEN_PID", pid, 1);
        setenv("LISTEN_FDS", what == TOO_MANY ? "17" : what == NO_NUMBER ? "2x" : "2", 1);
        setenv("LISTEN_FDNAMES", "a:b", 1);
    }
    int result = listen_inherited(&l, &err);
    if (getenv("LISTEN_PID") || getenv("LISTEN_FDS") || getenv("LISTEN_FDNAMES"))
        return 4;
    if (what == NOTHING || what == FOR_ANOTHER)
        return result == 0 && l.count == 0 ? 0 : 5;
    if (what != TWO_SOCKETS)
        return result < 0 && l.count == 0 && err.code == ERR_INVALID && err.msg[0] ? 0 : 6;
    if (result < 0 || l.count != 2 || l.fds[0] != 3 || l.fds[1] != 4 || !(fcntl(4, F_GETFD) & FD_CLOEXEC))
        return 7;
    return strcmp(l.names[1], made.names[0]) == 0 && connect_to(l.names[1]) == 0 ? 0 : 8;
}

static void test_inherited(void **state)
{
    for (enum inherited what = NOTHING; what <= NO_NUMBER; what++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(inherit(what));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status)
            fail_msg("case %d: %d", what, WEXITSTATUS(status));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address),      cmocka_unit_test(test_both_families),
        cmocka_unit_test(test_tcp_refusals), cmocka_unit_test(test_unix),
        cmocka_unit_test(test_stale_socket), cmocka_unit_test(test_unix_refusals),
        cmocka_unit_test(test_exposure),     cmocka_unit_test(test_inherited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
