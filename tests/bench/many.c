/* A thousand computers at once, and a thousand that a server finds on disk when it starts. */
#include <stdio.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "base/mem.h"
#include "bench.h"
#include "client/host.h"
#include "measure.h"

#define TOOL "terminal_execute"
#define MANY 1000
#define WINDOW 50 /* computers at each end of the many, whose medians are compared */
#define AT_A_TIME 2
#define END_SECONDS 60.0
#define RESTARTS 10

static const char *const true_argv[] = {"/bin/true", NULL};

/* How much more the last ones take than the first ones, in units of a program started directly at the same
 * time. */
static void set_growth(struct bench *b, enum figure_id id, const struct series *s, const struct series *floor)
{
    double first = series_median_of(s, 0, WINDOW) / series_median_of(floor, 0, WINDOW);
    double last = series_median_of(s, MANY - WINDOW, MANY) / series_median_of(floor, MANY - WINDOW, MANY);
    figure_set_ratio(b, id, last, first, WINDOW);
}

static void measure_one_by_one(struct bench *b)
{
    struct series floor = {0}, create = {0}, call = {0};
    struct subject s;
    native_start(b, &(struct native){0}, &s);
    subject_do(&s, TOOL, "{\"command\":\"true\"}");
    double before = machine_available_mib();
    for (int i = 0; i < MANY; i++) {
        char arguments[128];
        (void)snprintf(arguments, sizeof arguments, "{\"args\":[\"/bin/true\"],\"computer_id\":\"many-%d\"}",
                       i);
        series_add(&floor, measure_program(true_argv, false));
        series_add(&create, subject_call(&s, TOOL, arguments, false));
        series_add(&call, subject_call(&s, TOOL, arguments, false));
        if (i + 2 == 100)
            figure_set(b, MEMORY_100, subject_memory_mib(&s, "VmRSS"), 1);
    }
    figure_set(b, IDLE, (before - machine_available_mib()) / MANY, MANY);
    set_growth(b, GROWTH_CREATE, &create, &floor);
    set_growth(b, GROWTH_CALL, &call, &floor);
    figure_set(b, END_1000, subject_end(&s, END_SECONDS), 1);
    if (state_dir_computers(b->state_dir) > 0)
        b->figures[END_1000].note = "not all were removed by then";
    series_done(&floor);
    series_done(&create);
    series_done(&call);
}

static void measure_rate(struct bench *b)
{
    struct subject s;
    native_start(b, &(struct native){0}, &s);
    subject_do(&s, TOOL, "{\"command\":\"true\"}");
    double ms = subject_make_computers(&s, TOOL, true, 0, MANY, AT_A_TIME);
    figure_set(b, RATE, MANY / (ms / 1000), MANY);
    (void)subject_end(&s, END_SECONDS);
}

void stage_many(struct bench *b)
{
    measure_one_by_one(b);
    stage_sweep(b);
    measure_rate(b);
}

/* The first call is for one of them. */
static void measure_restart(const struct bench *b, const struct native *how, struct series *ready)
{
    struct subject s;
    native_start(b, how, &s);
    double call = subject_call(&s, TOOL, "{\"args\":[\"/bin/true\"],\"computer_id\":\"computer-500\"}", true);
    series_add(ready, s.initialize_ms + call);
    (void)subject_end(&s, END_SECONDS);
}

void stage_restart(struct bench *b)
{
    struct series ready = {0};
    struct subject s;
    _cleanup_(cleanup_free) char *state_dir = xasprintf("%s/permanent", b->state_dir);
    const struct native how = {.state_dir = state_dir};
    if (mkdir(state_dir, 0711) < 0)
        die("can't make %s", state_dir);
    native_start(b, &how, &s);
    (void)subject_make_computers(&s, TOOL, false, 0, MANY, AT_A_TIME);
    (void)subject_end(&s, END_SECONDS);
    for (int i = 0; i < RESTARTS; i++)
        measure_restart(b, &how, &ready);
    figure_set(b, RESTART, series_median(&ready), ready.count);
    series_done(&ready);
}
