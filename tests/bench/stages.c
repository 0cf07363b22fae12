/* Each stage measures a floor and a subject in turn, in one loop: what the machine does meanwhile falls on
 * both, and the ratio of their medians stays. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/mem.h"
#include "bench.h"
#include "client/host.h"
#include "measure.h"

#define TOOL "terminal_execute"
#define ARGS_TRUE "{\"args\":[\"/bin/true\"],\"computer_id\":\"bench\"}"
#define COMMAND_TRUE "{\"command\":\"true\",\"computer_id\":\"bench\"}"
#define END_SECONDS 60.0
#define AT_ONCE 20
#define POOL_REST_CALLS 5
#define SWEEP_TRIES 1200

static const char *const true_argv[] = {"/bin/true", NULL};
static const char *const bash_argv[] = {"/bin/bash", "-c", "true", NULL};
void native_start(const struct bench *b, const struct native *how, struct subject *ret)
{
    const char *args[12] = {"--backend", "native", "--no-network", "--state-dir"};
    size_t n = 4;
    args[n++] = how->state_dir ? how->state_dir : b->state_dir;
    args[n++] = "--warm-pool";
    args[n++] = how->pool ? how->pool : "0";
    if (how->lifecycle)
        args[n++] = "--lifecycle-tools";
    if (how->cpus) {
        args[n++] = "--cpu";
        args[n++] = how->cpus;
    }
    subject_start(ret, b->server, args);
}

static char *machine_cpus(void)
{
    return xasprintf("%ld", sysconf(_SC_NPROCESSORS_ONLN));
}

void stage_sweep(struct bench *b)
{
    struct subject s;
    if (state_dir_computers(b->state_dir) == 0)
        return;
    native_start(b, &(struct native){0}, &s);
    for (int i = 0; state_dir_computers(b->state_dir) > 0 && i < SWEEP_TRIES; i++)
        (void)poll(NULL, 0, 50);
    (void)subject_end(&s, END_SECONDS);
}

void stage_start(struct bench *b)
{
    struct series floor_true = {0}, floor_shell = {0}, start = {0}, first = {0};
    for (size_t i = 0; i < b->runs; i++) {
        struct subject s;
        series_add(&floor_true, measure_program(true_argv, false));
        series_add(&floor_shell, measure_program(bash_argv, false));
        native_start(b, &(struct native){0}, &s);
        series_add(&start, s.initialize_ms);
        series_add(&first, subject_call(&s, TOOL, "{\"command\":\"true\"}", true));
        (void)subject_end(&s, END_SECONDS);
    }
    figure_set_ratio(b, START, series_median(&start), series_median(&floor_true), b->runs);
    figure_set_ratio(b, FIRST_CALL, series_median(&first), series_median(&floor_shell), b->runs);
    series_done(&floor_true);
    series_done(&floor_shell);
    series_done(&start);
    series_done(&first);
}

void stage_warm(struct bench *b)
{
    struct series floor_true = {0}, floor_shell = {0}, args = {0}, command = {0};
    struct subject s;
    native_start(b, &(struct native){0}, &s);
    subject_do(&s, TOOL, COMMAND_TRUE);
    for (size_t i = 0; i < 2 * b->runs; i++) {
        series_add(&floor_true, measure_program(true_argv, false));
        series_add(&args, subject_call(&s, TOOL, ARGS_TRUE, false));
        series_add(&floor_shell, measure_program(bash_argv, false));
        series_add(&command, subject_call(&s, TOOL, COMMAND_TRUE, false));
    }
    (void)subject_end(&s, END_SECONDS);
    figure_set_ratio(b, WARM_ARGS, series_median(&args), series_median(&floor_true), 2 * b->runs);
    figure_set_ratio(b, WARM_COMMAND, series_median(&command), series_median(&floor_shell), 2 * b->runs);
    series_done(&floor_true);
    series_done(&floor_shell);
    series_done(&args);
    series_done(&command);
}

/* A computer that was made ahead gets its name and runs a command. After each, the pool has time to fill. */
void stage_pool(struct bench *b)
{
    struct series create = {0}, warm = {0};
    struct subject s;
    native_start(b, &(struct native){.pool = "4"}, &s);
    subject_do(&s, TOOL, ARGS_TRUE);
    for (size_t i = 0; i < b->runs; i++) {
        char arguments[128];
        for (int n = 0; n < POOL_REST_CALLS; n++)
            subject_do(&s, TOOL, ARGS_TRUE);
        series_add(&warm, subject_call(&s, TOOL, ARGS_TRUE, false));
        (void)snprintf(arguments, sizeof arguments, "{\"args\":[\"/bin/true\"],\"computer_id\":\"pool-%zu\"}",
                       i);
        series_add(&create, subject_call(&s, TOOL, arguments, false));
    }
    (void)subject_end(&s, END_SECONDS);
    figure_set_ratio(b, POOL, series_median(&create), series_median(&warm), b->runs);
    series_done(&create);
    series_done(&warm);
}

/* The server's high-water mark after one call that prints 1 GiB. */
static double flood(struct bench *b, const char *octal)
{
    _cleanup_(cleanup_free) char *cpus = machine_cpus();
    _cleanup_(cleanup_free) char *arguments =
        xasprintf("{\"command\":\"head -c 1G /dev/zero | tr '\\\\0' '\\\\%s'\",\"timeout\":240}", octal);
    struct subject s;
    native_start(b, &(struct native){.cpus = cpus}, &s);
    subject_do(&s, TOOL, arguments);
    double mib = subject_memory_mib(&s, "VmHWM");
    (void)subject_end(&s, END_SECONDS);
    return mib;
}

void stage_memory(struct bench *b)
{
    struct series idle = {0};
    for (size_t i = 0; i < 5; i++) {
        struct subject s;
        native_start(b, &(struct native){0}, &s);
        (void)machine_available_mib(); /* what follows the first reply has happened by then */
        series_add(&idle, subject_memory_mib(&s, "VmRSS"));
        (void)subject_end(&s, END_SECONDS);
    }
    figure_set(b, MEMORY_START, series_median(&idle), idle.count);
    series_done(&idle);
    figure_set(b, MEMORY_PRINTABLE, flood(b, "170"), 1); /* x */
    figure_set(b, MEMORY_WORST, flood(b, "001"), 1); /* six bytes of JSON, and seven in JSON within JSON */
}

void stage_parallel(struct bench *b)
{
    static const char sum[] = "{\"args\":[\"/usr/bin/sha256sum\",\"/root/block\"],\"computer_id\":\"bench\"}";
    _cleanup_(cleanup_free) char *cpus = machine_cpus();
    _cleanup_(cleanup_free) char *block = xasprintf("%s/block", b->state_dir);
    _cleanup_(cleanup_free) char *make = xasprintf("yes | head -c 4194304 > %s", block);
    const char *make_argv[] = {"/bin/sh", "-c", make, NULL};
    const char *sum_argv[] = {"/usr/bin/sha256sum", block, NULL};
    struct series direct = {0}, calls = {0};
    struct subject s;
    native_start(b, &(struct native){.cpus = cpus}, &s);
    subject_do(&s, TOOL, "{\"command\":\"yes | head -c 4194304 > /root/block\",\"computer_id\":\"bench\"}");
    (void)measure_program(make_argv, false);
    for (size_t i = 0; i < b->runs; i++) {
        series_add(&direct, measure_programs(sum_argv, AT_ONCE));
        series_add(&calls, subject_calls(&s, TOOL, sum, AT_ONCE));
    }
    (void)subject_end(&s, END_SECONDS);
    (void)unlink(block);
    figure_set_ratio(b, PARALLEL, series_median(&calls), series_median(&direct), b->runs);
    series_done(&direct);
    series_done(&calls);
}
