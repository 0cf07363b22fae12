/* Speed and memory of the real server over stdio, against floors that every program on this machine has.
 *
 *   bench SERVER [--json FILE]
 *
 *   BENCH_RUNS   samples of each median (100)
 *   BENCH_DIR    for state (/var/lib, on a disk of our own)
 *   BENCH_ONLY   the one stage to run, without peers
 *
 * Exit status 0 if every `must` is met, 1 if one is missed, 2 if the bench itself failed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/mem.h"
#include "bench.h"
#include "measure.h"

#define RUNS_DEFAULT 100

/* clang-format off */
static struct figure figures[FIGURES] = {
    [START] = {"start", "process start to initialize reply / true", "x", .must = 4, .aim = 2},
    [FIRST_CALL] = {"first_call", "first call, computer made / bash -c true", "x", .must = 5, .aim = 3},
    [WARM_ARGS] = {"warm_args", "warm call of /bin/true / true", "x", .must = 1.5, .aim = 1.25},
    [WARM_COMMAND] = {"warm_command", "warm command / bash -c true", "x", .must = 1.4, .aim = 1.2},
    [CREATE_BWRAP] = {"create_bwrap", "`bwrap` / new computer, both with echo", "x", .must = 2, .aim = 3, .more_is_better = true},
    [CREATE_RUNSC] = {"create_runsc", "`runsc do` / new computer, both with echo", "x", .must = 30, .aim = 50, .more_is_better = true},
    [CREATE_DOCKER] = {"create_docker", "`docker run` / new computer, both with echo", "x", .must = 60, .aim = 100, .more_is_better = true},
    [CREATE_PODMAN] = {"create_podman", "`podman run` / new computer, both with echo", "x", .must = 25, .aim = 40, .more_is_better = true},
    [POOL] = {"pool", "new computer of the pool, true / warm call", "x", .must = 1.6, .aim = 1.2},
    [MEMORY_START] = {"memory_start", "server's memory after initialize", "MiB", .must = 12, .aim = 6},
    [MEMORY_100] = {"memory_100", "server's memory with 100 computers", "MiB", .must = 16, .aim = 8},
    [MEMORY_PRINTABLE] = {"memory_printable", "server's peak, 1 GiB of text printed", "MiB", .must = 24, .aim = 12},
    [MEMORY_WORST] = {"memory_worst", "server's peak, 1 GiB of worst bytes printed", "MiB", .must = 64, .aim = 32},
    [PARALLEL] = {"parallel", "20 sha256sum at once / the same started directly", "x", .must = 1.3, .aim = 1.1},
    [IDLE] = {"idle", "an idle computer, all told", "MiB", .must = 0.5, .aim = 0.35},
    [GROWTH_CREATE] = {"growth_create", "create: 951st-1000th computer / 1st-50th", "x", .must = 1.4, .aim = 1.2},
    [GROWTH_CALL] = {"growth_call", "warm call: 951st-1000th computer / 1st-50th", "x", .must = 1.4, .aim = 1.2},
    [END_1000] = {"end_1000", "end of input to end, with 1000 computers", "ms"},
    [RATE] = {"rate", "computers made each second, two calls at a time", "/s", .must = 120, .aim = 300, .more_is_better = true},
    [RESTART] = {"restart", "start to first call, 1000 permanent computers", "ms", .must = 1000, .aim = 300},
    [LIFE_CREATE] = {"life_create", "computer_create, permanent, with options / cold create", "x", .must = 3, .aim = 2},
    [LIFE_RESTART] = {"life_restart", "computer_restart / cold create", "x", .must = 4, .aim = 2},
    [LIFE_RESET] = {"life_reset", "computer_factory_reset / cold create", "x", .must = 5, .aim = 3},
    [LIFE_DELETE] = {"life_delete", "computer_delete / cold create", "x", .must = 2, .aim = 1},
    [LIST_1000] = {"list_1000", "computer_list, 1000 computers", "ms", .must = 10, .aim = 5},
    [LIST_GROWTH] = {"list_growth", "the same / with 100", "x", .must = 12, .aim = 10},
    [LIST_METRICS_1000] = {"list_metrics_1000", "computer_list with metrics, 1000 computers", "ms", .must = 100, .aim = 50},
    [LIST_METRICS_GROWTH] = {"list_metrics_growth", "the same / with 100", "x", .must = 12, .aim = 10},
    [POLL_CPU] = {"poll_cpu", "a dashboard's poll of 200 computers, server's CPU", "ms", .must = 5, .aim = 2.5},
    [HTTP_WARM] = {"http_warm", "http: warm command / the same over stdio", "x", .must = 1.15, .aim = 1.05},
    [HTTP_RATE] = {"http_rate", "http: tools/list each second / libmicrohttpd alone", "x", .must = 0.5, .aim = 0.8, .more_is_better = true},
    [HTTP_SESSIONS] = {"http_sessions", "http: 3000 commands of 1000 sessions, p99 / p50", "x", .must = 4, .aim = 3},
    [HTTP_SESSIONS_MEMORY] = {"http_sessions_memory", "http: server's peak with these", "MiB", .must = 64, .aim = 40},
    [HTTP_STREAMS] = {"http_streams", "http: server's memory for each of 10000 streams", "KiB", .must = 16, .aim = 10},
    [WASM_BUSYBOX] = {"wasm_busybox", "wasm: go-busybox's echo / true", "x", .must = 10, .aim = 6},
    [WASM_START] = {"wasm_start", "wasm: start to first go-busybox call, compiled before", "ms", .must = 150, .aim = 80},
    [WASM_GUEST] = {"wasm_guest", "wasm: a small C module / true", "x", .must = 5, .aim = 3},
    [WASM_COMPUTE] = {"wasm_compute", "wasm: a module that computes / the same natively", "x", .must = 1.4, .aim = 1.25},
    [DOCKER_WARM_CLI] = {"docker_warm_cli", "docker: `docker exec` / warm call of true", "x", .must = 30, .aim = 60, .more_is_better = true},
    [DOCKER_WARM_API] = {"docker_warm_api", "docker: its API's exec / warm call of true", "x", .must = 15, .aim = 40, .more_is_better = true},
    [DOCKER_WARM_PYTHON] = {"docker_warm_python", "docker: Python program's / our warm call of true", "x", .must = 40, .aim = 80, .more_is_better = true},
    [DOCKER_SHELL_PYTHON] = {"docker_shell_python", "docker: the same with a command, bash's start included", "x", .more_is_better = true},
    [DOCKER_CREATE] = {"docker_create", "docker: new computer and true / `docker run`", "x", .must = 1.2, .aim = 1},
    [DOCKER_END] = {"docker_end", "docker: end of a session with 6 computers", "ms", .must = 2000, .aim = 500},
    [DOCKER_END_PYTHON] = {"docker_end_python", "docker: Python program's / our end of such a session", "x", .must = 15, .aim = 60, .more_is_better = true},
    [DOCKER_PARALLEL] = {"docker_parallel", "docker: 20 sha256sum at once / from one shell", "x", .must = 1.5, .aim = 1.2},
    [DOCKER_MEMORY] = {"docker_memory", "docker: server's peak, 1 GiB of text printed", "MiB", .must = 32},
    [E2B_WARM] = {"e2b_warm", "e2b: warm command, requests", "", .must = 1, .aim = 1},
    [E2B_WARM_WALL] = {"e2b_warm_wall", "e2b: warm command / the latency of the fake", "x", .must = 4, .aim = 2},
    [E2B_CREATE] = {"e2b_create", "e2b: computer_create, requests", "", .must = 3, .aim = 3},
    [E2B_CPU] = {"e2b_cpu", "e2b: warm command, server's CPU", "ms", .must = 2, .aim = 1},
    [E2B_PARALLEL] = {"e2b_parallel", "e2b: 200 computers at once / one", "x", .must = 40, .aim = 20},
    [FLY_WARM] = {"fly_warm", "fly: warm command, requests", "", .must = 2, .aim = 1},
    [FLY_WARM_WALL] = {"fly_warm_wall", "fly: warm command / the latency of the fake", "x", .must = 6, .aim = 4},
    [FLY_CREATE] = {"fly_create", "fly: computer_create, requests", "", .must = 4, .aim = 3},
    [FLY_CPU] = {"fly_cpu", "fly: warm command, server's CPU", "ms", .must = 5, .aim = 2},
    [FLY_PARALLEL] = {"fly_parallel", "fly: 40 computers at once / one", "x", .must = 40, .aim = 20},
    [MODAL_WARM] = {"modal_warm", "modal: warm command, requests (both at once)", "", .must = 2, .aim = 2},
    [MODAL_WARM_WALL] = {"modal_warm_wall", "modal: warm command / the latency of the fake", "x", .must = 4, .aim = 2},
    [MODAL_CREATE] = {"modal_create", "modal: computer_create, requests (two look for it)", "", .must = 3, .aim = 3},
    [MODAL_CPU] = {"modal_cpu", "modal: warm command, server's CPU", "ms", .must = 2, .aim = 1},
    [MODAL_PARALLEL] = {"modal_parallel", "modal: 200 computers at once / one", "x", .must = 40, .aim = 20},
    /* Both pay one latency, so that no program could be three times as fast. */
    [E2B_PYTHON_WALL] = {"e2b_python_wall", "e2b: Python program's / our warm command", "x", .more_is_better = true},
    [E2B_PYTHON_CPU] = {"e2b_python_cpu", "e2b: the same, CPU of the servers", "x", .must = 10, .aim = 10, .more_is_better = true},
    [E2B_PYTHON_AT_ONCE] = {"e2b_python_at_once", "e2b: the same, 32 of them at once", "x", .must = 3, .aim = 10, .more_is_better = true},
    [MODAL_PYTHON_WALL] = {"modal_python_wall", "modal: Python program's / our warm command", "x", .must = 3, .aim = 3, .more_is_better = true},
    [MODAL_PYTHON_CPU] = {"modal_python_cpu", "modal: the same, CPU of the servers", "x", .must = 10, .aim = 10, .more_is_better = true},
    [MODAL_PYTHON_AT_ONCE] = {"modal_python_at_once", "modal: the same, 32 of them at once", "x", .must = 3, .aim = 10, .more_is_better = true},
};
static const struct {
    const char *title;
    void (*run)(struct bench *b);
} stages[] = {
    {"start", stage_start}, {"warm", stage_warm}, {"create", stage_create}, {"pool", stage_pool}, {"memory", stage_memory},
    {"parallel", stage_parallel}, {"many", stage_many}, {"restart", stage_restart}, {"lifecycle", stage_lifecycle}, {"http", stage_http}, {"wasm", stage_wasm}, {"docker", stage_docker}, {"clouds", stage_clouds}, {"cloud_peers", stage_cloud_peers},
};
/* clang-format on */

/* NULL: all. */
static const char *wanted_stage(void)
{
    const char *only = getenv("BENCH_ONLY");
    return only && *only ? only : NULL;
}

void figure_set(struct bench *b, enum figure_id id, double value, size_t samples)
{
    b->figures[id].measured = true;
    b->figures[id].value = value;
    b->figures[id].samples = samples;
}

void figure_set_ratio(struct bench *b, enum figure_id id, double subject, double floor, size_t samples)
{
    figure_set(b, id, subject / floor, samples);
    b->figures[id].subject = subject;
    b->figures[id].floor = floor;
}

static bool meets(const struct figure *f, double limit)
{
    return f->more_is_better ? f->value >= limit : f->value <= limit;
}

static const char *verdict(const struct figure *f)
{
    if (!f->measured)
        return "not measured";
    if (f->must == 0)
        return "";
    return meets(f, f->aim) ? "aim" : meets(f, f->must) ? "must" : "MISSED";
}

static void print_limit(const struct figure *f, double limit)
{
    char text[32] = "";
    if (limit > 0)
        (void)snprintf(text, sizeof text, "%s%g", f->more_is_better ? ">= " : "<= ", limit);
    printf(" %9s", text);
}

static void print_value(const struct figure *f)
{
    char text[32] = "-";
    if (f->measured)
        (void)snprintf(text, sizeof text, "%.*f", f->unit[0] == 'x' || f->unit[0] == 'M' ? 2 : 0, f->value);
    printf("%-50s %9s %-4s", f->title, text, f->unit);
}

static void print_table(void)
{
    printf("\n%-50s %9s %-4s %9s %9s  %-7s %s\n", "", "", "", "must", "aim", "meets", "subject / floor");
    for (size_t i = 0; i < FIGURES; i++) {
        const struct figure *f = &figures[i];
        if (!f->measured && !f->note && wanted_stage())
            continue;
        print_value(f);
        print_limit(f, f->must);
        print_limit(f, f->aim);
        printf("  %-7s", verdict(f));
        if (f->floor > 0)
            printf(" %.2f / %.2f", f->subject, f->floor);
        printf("%s%s\n", f->note ? " " : "", f->note ? f->note : "");
    }
}

static json_t *figures_as_json(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < FIGURES; i++) {
        const struct figure *f = &figures[i];
        if (f->measured)
            json_array_append_new(list, json_pack("{s:s, s:s, s:f, s:s, s:f, s:f, s:s, s:f, s:f, s:I}", "key",
                                                  f->key, "title", f->title, "value", f->value, "unit",
                                                  f->unit, "must", f->must, "aim", f->aim, "meets",
                                                  verdict(f), "subject", f->subject, "floor", f->floor,
                                                  "samples", (json_int_t)f->samples));
    }
    return list;
}

static void write_json(const char *path, size_t runs)
{
    struct utsname host;
    (void)uname(&host);
    json_t *all = json_pack("{s:{s:s, s:s, s:I}, s:I, s:o}", "machine", "kernel", host.release,
                            "architecture", host.machine, "cpus", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
                            "runs", (json_int_t)runs, "figures", figures_as_json());
    if (json_dump_file(all, path, JSON_INDENT(2)) < 0)
        die("can't write %s", path);
    json_decref(all);
}

static char folder[PATH_MAX]; /* of this run, also gone when a stage dies */

static void remove_folder(void)
{
    (void)umount2(folder, MNT_DETACH);
    (void)tree_remove(AT_FDCWD, folder, NULL);
}

/* A new ext4 as mkfs.ext4 makes it, for us alone. The machine's own may be one without a journal (hosted VMs
 * have them), which looks at every inode freed within the last minute before it gives out a new one: what was
 * removed before would count as much as what is measured. */
static bool mount_disk(void)
{
    static const char command[] =
        "(truncate -s 2G $D.disk && mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 $D.disk &&"
        " mount -o loop $D.disk $D && chmod 711 $D) >/dev/null 2>&1; r=$?; rm -f $D.disk; exit $r";
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           setenv("D", folder, 1) == 0 && system(command) == 0;
}

static void make_folder(void)
{
    const char *parent = getenv("BENCH_DIR");
    bool own = !parent || !*parent;
    (void)snprintf(folder, sizeof folder, "%s/mcp-sandbox-bench-XXXXXX", own ? "/var/lib" : parent);
    if (!mkdtemp(folder) || chmod(folder, 0711) < 0)
        die("can't make a folder %s: %s", folder, strerror(errno));
    (void)atexit(remove_folder);
    if (own && !mount_disk())
        printf("no disk of our own (mkfs.ext4, loop device): state is in %s\n", folder);
}

static size_t wanted_runs(void)
{
    const char *text = getenv("BENCH_RUNS");
    long runs = text ? strtol(text, NULL, 10) : RUNS_DEFAULT;
    return runs > 0 && runs <= 100000 ? (size_t)runs : RUNS_DEFAULT;
}

static void run_stages(struct bench *b)
{
    bool terminal = isatty(STDERR_FILENO);
    const char *only = wanted_stage();
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
        int64_t start = clock_now();
        if (only && strcmp(only, stages[i].title) != 0)
            continue;
        any = true;
        if (terminal)
            fprintf(stderr, "%s ...", stages[i].title);
        stages[i].run(b);
        stage_sweep(b);
        if (terminal)
            fprintf(stderr, " %.1f s\n", (double)(clock_now() - start) / NSEC_PER_SEC);
    }
    if (!any)
        die("there is no stage '%s'", only);
}

static bool all_met(void)
{
    for (size_t i = 0; i < FIGURES; i++)
        if (figures[i].measured && figures[i].must > 0 && !meets(&figures[i], figures[i].must))
            return false;
    return true;
}

int main(int argc, char **argv)
{
    const char *json = argc == 4 && strcmp(argv[2], "--json") == 0 ? argv[3] : NULL;
    if (argc != 2 && !json) {
        fprintf(stderr, "usage: bench SERVER [--json FILE]\n");
        return 2;
    }
    make_folder();
    /* What is compared with is started as commands in computers are: a locale takes files to load. */
    (void)setenv("LANG", "C.UTF-8", 1);
    struct bench b = {.server = argv[1], .state_dir = folder, .runs = wanted_runs(), .figures = figures};
    struct utsname host;
    (void)uname(&host);
    printf("%s, Linux %s, %ld CPUs, medians of %zu\n", host.machine, host.release,
           sysconf(_SC_NPROCESSORS_ONLN), b.runs);
    run_stages(&b);
    print_table();
    fflush(stdout);
    if (!wanted_stage())
        compare_peers(&b);
    if (json)
        write_json(json, b.runs);
    return all_met() ? 0 : 1;
}
