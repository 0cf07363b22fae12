/* The world of a test of engine addresses: HOME and all that points to engines lie in a temporary folder;
 * `ssh` and `podman` are scripts there that run the test program again, as the fake (fake_programs.h) that
 * its first argument names. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "backends/engine/address.h"
#include "base/clock.h"
#include "temporary.h"

static char self[4096];
static const _unused_ struct wait forever = {.deadline = DEADLINE_NONE};

static _unused_ void point(const char *variable, const char *name)
{
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    assert_int_equal(setenv(variable, path, 1), 0);
}

static _unused_ int world_make(void **state)
{
    static const char *const unwanted[] = {"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG",
                                           "DOCKER_CERT_PATH", "CONTAINER_HOST"};
    if (temporary_make(state) < 0 || chmod(temporary, 0755) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(unwanted); i++)
        unsetenv(unwanted[i]);
    point("HOME", "home");
    point("XDG_RUNTIME_DIR", "run");
    temporary_folder("home");
    temporary_folder("run");
    temporary_folder("bin");
    temporary_folder("state");
    _cleanup_(cleanup_free) char *path = xasprintf("%s/bin:/usr/bin:/bin", temporary);
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return -1;
    return setenv("PATH", path, 1);
}

static _unused_ char *state_dir(void)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/state", temporary);
    return path;
}

/* A program in PATH that runs this one: "ssh" as `self ROLE ...`. */
static _unused_ void fake_program(const char *name, const char *role)
{
    _cleanup_(cleanup_free) char *file = xasprintf("bin/%s", name);
    _cleanup_(cleanup_free) char *text = xasprintf(
        "#!/bin/sh\necho \"$@\" >>%s/arguments\nexec %s %s %s \"$@\"\n", temporary, self, role, temporary);
    temporary_file(file, text);
    _cleanup_(cleanup_free) char *path = temporary_path(file);
    assert_int_equal(chmod(path, 0755), 0);
}

static _unused_ void assert_file(const char *name, const char *content)
{
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    _cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    assert_int_equal(file_read(AT_FDCWD, path, &b, NULL), 0);
    assert_string_equal(buf_str(&b), content);
}

/* A socket at a path; it listens unless it is a dead one. */
static _unused_ int socket_at(const char *name, bool listens)
{
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    _cleanup_(cleanup_free) char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    assert_int_equal(dir_make(parent, 0755, NULL), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(address.sun_path));
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(chmod(path, 0666), 0);
    if (listens)
        assert_int_equal(listen(fd, 8), 0);
    return fd;
}

static _unused_ void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in: %s", part, text);
}

static _unused_ struct engine_options options(const char *engine)
{
    return (struct engine_options){.engine = engine, .state_dir = state_dir()};
}

static _unused_ void find(const struct engine_options *o, struct engine_address *ret)
{
    struct error err = ERROR_INIT;
    if (engine_address_find(o, &forever, ret, &err) < 0)
        fail_msg("%s", err.msg);
}

static _unused_ void assert_not_found(const struct engine_options *o, enum error_code code, const char *words)
{
    struct engine_address a = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(engine_address_find(o, &forever, &a, &err), -1);
    assert_contains(err.msg, words);
    assert_int_equal(err.code, code);
    assert_null(a.text); /* nothing was handed out */
}

/* The process that wrote its number to the file, once it has. */
static _unused_ int open_process(const char *file)
{
    _cleanup_(cleanup_free) char *path = temporary_path(file);
    _cleanup_(buf_done) struct buf b = BUF_INIT(64);
    assert_int_equal(file_read(AT_FDCWD, path, &b, NULL), 0);
    int fd = pidfd_open(atoi(buf_str(&b)), 0);
    assert_true(fd >= 0);
    return fd;
}

static _unused_ void assert_ends(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 60000), 1);
}

static _unused_ bool have_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}
