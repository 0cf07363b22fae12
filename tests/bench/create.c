/* A new computer and its first command, from nothing: beside what starts one command in a sandbox of its own.
 * How many times as long these take is the figure. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "bench.h"
#include "measure.h"

#define TOOL "terminal_execute"
#define IMAGE "sandbox-test/debian:1" /* that with-engine's engines have */
#define END_SECONDS 60.0
#define REST_MS 20 /* what the kernel still clears away after one isn't to be charged to the next */

struct peer {
    enum figure_id figure;
    const char *const *argv;
    size_t part; /* one sample for so many runs, and as many of ours: for what takes long */
};

static const char *const bwrap_argv[] = {
    "bwrap",     "--unshare-all", "--ro-bind", "/usr",   "/usr",      "--symlink", "usr/bin",
    "/bin",      "--symlink",     "usr/sbin",  "/sbin",  "--symlink", "usr/lib",   "/lib",
    "--symlink", "usr/lib64",     "/lib64",    "--proc", "/proc",     "--dev",     "/dev",
    "--tmpfs",   "/tmp",          "/bin/echo", "hi",     NULL};
static const char *const runsc_argv[] = {"runsc", "--network=none", "do", "/bin/echo", "hi", NULL};
static const char *const docker_argv[] = {"docker", "run",  "--rm", "--network", "none",
                                          IMAGE,    "echo", "hi",   NULL};
static const char *const podman_argv[] = {"podman", "run",  "--rm", "--network", "none",
                                          IMAGE,    "echo", "hi",   NULL};

static const struct peer local[] = {{CREATE_BWRAP, bwrap_argv, 1}, {CREATE_RUNSC, runsc_argv, 10}};
static const struct peer docker = {CREATE_DOCKER, docker_argv, 10}, podman = {CREATE_PODMAN, podman_argv, 10};

static void rest(void)
{
    (void)poll(NULL, 0, REST_MS);
}

static double create(struct subject *s, const struct peer *p, size_t number)
{
    char arguments[128];
    (void)snprintf(arguments, sizeof arguments,
                   "{\"args\":[\"/bin/echo\",\"hi\"],\"computer_id\":\"%s-%zu\"}", p->argv[0], number);
    rest();
    return subject_call(s, TOOL, arguments, false);
}

static void measure(struct bench *b, struct subject *s, const struct peer *p)
{
    struct series theirs = {0}, ours = {0};
    const char *why = program_why_not(p->argv);
    if (why) {
        b->figures[p->figure].note = why;
        return;
    }
    for (size_t i = 0; i < b->runs; i++) {
        if (i % p->part == 0) {
            rest();
            series_add(&theirs, measure_program(p->argv, true));
        }
        series_add(&ours, create(s, p, i));
    }
    figure_set_ratio(b, p->figure, series_median(&theirs), series_median(&ours), theirs.count);
    series_done(&theirs);
    series_done(&ours);
}

/* engine NULL: those that need none. */
static void measure_beside(struct bench *b, const char *engine)
{
    struct subject s;
    native_start(b, &(struct native){0}, &s);
    subject_do(&s, TOOL, "{\"command\":\"true\"}");
    for (size_t i = 0; !engine && i < ARRAY_LEN(local); i++)
        measure(b, &s, &local[i]);
    if (engine)
        measure(b, &s, strcmp(engine, "docker") == 0 ? &docker : &podman);
    (void)subject_end(&s, END_SECONDS);
}

void stage_create(struct bench *b)
{
    const char *engine = getenv("SANDBOX_ENGINE");
    (void)unsetenv("CONTAINER_HOST"); /* podman is to make its containers itself, not to ask a service */
    measure_beside(b, engine);
    if (engine)
        return;
    bench_beside_engine(b, "docker", "create", CREATE_DOCKER, CREATE_DOCKER);
    bench_beside_engine(b, "podman", "create", CREATE_PODMAN, CREATE_PODMAN);
}
