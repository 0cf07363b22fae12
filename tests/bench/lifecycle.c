/* The lifecycle tools: what it takes to list many computers, what a dashboard's poll costs the server, and
 * what a computer's restart, reset and end take beside making one by a command. */
#include <stdio.h>

#include "base/macros.h"
#include "bench.h"
#include "measure.h"

#define TOOL "terminal_execute"
#define FEW 100
#define POLLED 200
#define MANY 1000
#define AT_A_TIME 2
#define END_SECONDS 60.0
#define LIST "{}"
#define LIST_METRICS "{\"metrics\":true}"
#define SAME "{\"computer_id\":\"same\"}"
#define OPTIONS "\"computer_id\":\"same\",\"temporary\":false,\"memory\":\"256m\",\"pids\":99"

/* -- Many computers. */

static double median_of_calls(const struct bench *b, struct subject *s, const char *tool,
                              const char *arguments)
{
    struct series took = {0};
    for (size_t i = 0; i < b->runs; i++)
        series_add(&took, subject_call(s, tool, arguments, false));
    double ms = series_median(&took);
    series_done(&took);
    return ms;
}

static void measure_poll(struct bench *b, struct subject *s)
{
    double before = subject_cpu_ms(s);
    for (size_t i = 0; i < b->runs; i++)
        subject_do(s, "computer_status", "{}");
    figure_set(b, POLL_CPU, (subject_cpu_ms(s) - before) / (double)b->runs, b->runs);
}

static void measure_lists(struct bench *b)
{
    struct subject s;
    native_start(b, &(struct native){.lifecycle = true}, &s);
    (void)subject_make_computers(&s, TOOL, true, 0, FEW, AT_A_TIME);
    double few = median_of_calls(b, &s, "computer_list", LIST);
    double few_metrics = median_of_calls(b, &s, "computer_list", LIST_METRICS);
    (void)subject_make_computers(&s, TOOL, true, FEW, POLLED, AT_A_TIME);
    measure_poll(b, &s);
    (void)subject_make_computers(&s, TOOL, true, POLLED, MANY, AT_A_TIME);
    double many = median_of_calls(b, &s, "computer_list", LIST);
    double many_metrics = median_of_calls(b, &s, "computer_list", LIST_METRICS);
    (void)subject_end(&s, END_SECONDS);
    figure_set(b, LIST_1000, many, b->runs);
    figure_set(b, LIST_METRICS_1000, many_metrics, b->runs);
    figure_set_ratio(b, LIST_GROWTH, many, few, b->runs);
    figure_set_ratio(b, LIST_METRICS_GROWTH, many_metrics, few_metrics, b->runs);
}

/* -- One computer's life. */

struct life {
    struct series cold, create, restart, reset, remove;
};

static void live_once(struct subject *s, struct life *l, size_t number)
{
    char arguments[128];
    (void)snprintf(arguments, sizeof arguments, "{\"args\":[\"/bin/true\"],\"computer_id\":\"cold-%zu\"}",
                   number);
    series_add(&l->cold, subject_call(s, TOOL, arguments, false));
    series_add(&l->create, subject_call(s, "computer_create", "{" OPTIONS "}", false));
    subject_do(
        s, TOOL,
        "{\"command\":\"echo kept >/root/file; sleep 300 >/dev/null 2>&1 & true\",\"computer_id\":\"same\"}");
    series_add(&l->restart, subject_call(s, "computer_restart", SAME, false));
    series_add(&l->reset, subject_call(s, "computer_factory_reset", SAME, false));
    series_add(&l->remove, subject_call(s, "computer_delete", SAME, false));
    (void)snprintf(arguments, sizeof arguments, "{\"computer_id\":\"cold-%zu\"}", number);
    subject_do(s, "computer_delete", arguments);
}

static void measure_life(struct bench *b)
{
    struct life l = {0};
    struct subject s;
    native_start(b, &(struct native){.lifecycle = true}, &s);
    subject_do(&s, TOOL, "{\"command\":\"true\"}");
    for (size_t i = 0; i < b->runs; i++)
        live_once(&s, &l, i);
    (void)subject_end(&s, END_SECONDS);
    const struct {
        enum figure_id figure;
        struct series *series;
    } kinds[] = {{LIFE_CREATE, &l.create},
                 {LIFE_RESTART, &l.restart},
                 {LIFE_RESET, &l.reset},
                 {LIFE_DELETE, &l.remove}};
    double cold = series_median(&l.cold);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        figure_set_ratio(b, kinds[i].figure, series_median(kinds[i].series), cold, b->runs);
        series_done(kinds[i].series);
    }
    series_done(&l.cold);
}

void stage_lifecycle(struct bench *b)
{
    measure_life(b);
    stage_sweep(b);
    measure_lists(b);
}
