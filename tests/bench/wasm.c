/* Modules: a small one of C, built here, and go-busybox. Both need what `make wasm` installs. */
#include <stdio.h>
#include <stdlib.h>

#include "base/macros.h"
#include "base/mem.h"
#include "bench.h"
#include "measure.h"

#define TOOL "terminal_execute"
#define END_SECONDS 60.0
#define COMPUTE "60" /* MiB and sieves */
#define COMPUTE_ARGS "{\"args\":[\"" COMPUTE "\"]}"
#define STARTS 20
#define COMPUTED 10

static const char *const true_argv[] = {"/bin/true", NULL};

static void not_measured(struct bench *b, enum figure_id first, enum figure_id last, const char *why)
{
    for (int id = (int)first; id <= (int)last; id++)
        b->figures[id].note = why;
}

/* One source, two programs: FOLDER/guest and FOLDER/guest.wasm. */
static bool build_guest(const struct bench *b)
{
    _cleanup_(cleanup_free) char *command =
        xasprintf("(clang-14 --target=wasm32-wasi -O2 -o %s/guest.wasm " GUEST_SOURCE
                  " && clang-14 -O2 -o %s/guest " GUEST_SOURCE ") >/dev/null 2>&1",
                  b->state_dir, b->state_dir);
    return system(command) == 0;
}

/* module NULL: go_busybox */
static void start(const struct bench *b, const char *module, struct subject *ret)
{
    const char *const args[] = {"--backend",  module ? "wasm" : "go_busybox", "--no-network", "--state-dir",
                                b->state_dir, module ? "--wasm-path" : NULL,  module,         NULL};
    subject_start(ret, b->server, args);
}

static void measure_calls(struct bench *b, enum figure_id id, const char *module, const char *arguments)
{
    struct series floor = {0}, calls = {0};
    struct subject s;
    start(b, module, &s);
    (void)subject_call(&s, TOOL, arguments, true);
    for (size_t i = 0; i < 2 * b->runs; i++) {
        series_add(&floor, measure_program(true_argv, false));
        series_add(&calls, subject_call(&s, TOOL, arguments, false));
    }
    (void)subject_end(&s, END_SECONDS);
    figure_set_ratio(b, id, series_median(&calls), series_median(&floor), 2 * b->runs);
    series_done(&floor);
    series_done(&calls);
}

/* The Python program compiles the module anew each time, which takes it seconds. */
static void measure_start(struct bench *b, const char *arguments)
{
    struct series starts = {0};
    for (int i = 0; i < STARTS; i++) {
        struct subject s;
        start(b, NULL, &s);
        series_add(&starts, s.initialize_ms + subject_call(&s, TOOL, arguments, true));
        (void)subject_end(&s, END_SECONDS);
    }
    figure_set(b, WASM_START, series_median(&starts), STARTS);
    series_done(&starts);
}

static void measure_compute(struct bench *b, const char *module)
{
    _cleanup_(cleanup_free) char *program = xasprintf("%s/guest", b->state_dir);
    const char *const argv[] = {program, COMPUTE, NULL};
    struct series native = {0}, guest = {0};
    struct subject s;
    start(b, module, &s);
    (void)subject_call(&s, TOOL, COMPUTE_ARGS, true);
    for (int i = 0; i < COMPUTED; i++) {
        series_add(&native, measure_program(argv, true));
        series_add(&guest, subject_call(&s, TOOL, COMPUTE_ARGS, false));
    }
    (void)subject_end(&s, END_SECONDS);
    figure_set_ratio(b, WASM_COMPUTE, series_median(&guest), series_median(&native), COMPUTED);
    series_done(&native);
    series_done(&guest);
}

void stage_wasm(struct bench *b)
{
    static const char echo[] = "{\"args\":[\"echo\",\"hi\"]}";
    const char *const check[] = {b->server, "--check-config", "--backend", "go_busybox", NULL};
    _cleanup_(cleanup_free) char *why = program_why_not(check);
    if (why) {
        not_measured(b, WASM_FIRST, WASM_LAST, "needs `make wasm`");
        return;
    }
    measure_calls(b, WASM_BUSYBOX, NULL, echo);
    measure_start(b, echo);
    if (!build_guest(b)) {
        not_measured(b, WASM_GUEST, WASM_COMPUTE,
                     "needs clang-14, lld-14, wasi-libc, libclang-rt-14-dev-wasm32");
        return;
    }
    _cleanup_(cleanup_free) char *module = xasprintf("%s/guest.wasm", b->state_dir);
    measure_calls(b, WASM_GUEST, module, "{}");
    measure_compute(b, module);
}
