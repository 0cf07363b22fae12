/* The native backend as its caller sees it, on real namespaces and groups: native_new(), create, exec, the
 * end. Run with the name of a variant: cgroup2 (what this machine has), reaper (as if no cgroup2 could be
 * written to), plain (as if overlayfs were refused), disk (with a cap on
 * their disks), watched (the same, as if no file could be mounted). Root only. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "native_world.h"

#include "backends/native/loop.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/skip.h"

#define SKIPPED 77

static void test_init_killed(void **state)
{
    struct subject s;
    struct exec_result r;
    struct error err = ERROR_INIT;
    struct exec_request q = request("sleep 1; sleep 300");
    subject_create(&s, "killed");
    assert_true(world.backend->ops->alive(s.i));
    kill(instance_of(s.i)->pid, SIGKILL);
    assert_int_equal(run_request(&s, &q, &r, &err), -1);
    assert_int_equal(err.code, ERR_GONE);
    assert_false(world.backend->ops->alive(s.i));
    subject_remove(&s);
}

static void test_zygote_killed(void **state)
{
    struct subject s;
    struct native *n = native_of(world.backend);
    kill(find_zygote(), SIGKILL);
    while (zygote_alive(n->zygote)) /* the signal is on its way */
        sched_yield();
    assert_output(&common, "echo lives on", "lives on\n");
    subject_create(&s, "after");
    assert_output(&s, "echo new", "new\n");
    subject_remove(&s);
}

/* The zygote that made a computer outlasts the turn to another kind of root. */
static void test_going_plain_ends_nothing(void **state)
{
    struct native *n = native_of(world.backend);
    const bool plain = n->plain;
    struct error err = ERROR_INIT;
    n->plain = false;
    assert_int_equal(native_go_plain(n, "for a test", &err), 0);
    assert_output(&common, "echo lives on", "lives on\n");
    n->plain = plain;
}

static void *create_thread(void *arg)
{
    struct subject *s = arg;
    struct exec_result r;
    struct error err = ERROR_INIT;
    if (world.backend->ops->create(world.backend, &s->spec, &for_ever, &s->i, &err) < 0) {
        print_error("create: %s\n", err.msg);
        return NULL;
    }
    run_command(s, "hostname", &r);
    bool good = strncmp(buf_str(&r.out.head), s->id, strlen(s->id)) == 0;
    exec_result_done(&r);
    return good ? s : NULL;
}

static void test_creates_at_once(void **state)
{
    static struct subject subjects[16];
    pthread_t threads[ARRAY_LEN(subjects)];
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++) {
        char id[16];
        snprintf(id, sizeof(id), "many-%zu", i);
        subject_name(&subjects[i], id);
    }
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++)
        pthread_create(&threads[i], NULL, create_thread, &subjects[i]);
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++)
        world.backend->ops->kill(subjects[i].i);
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++)
        subject_remove(&subjects[i]);
}

static void test_create_cancelled(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    struct cancel *cancel = cancel_new();
    struct wait wait = {.deadline = DEADLINE_NONE, .cancel = cancel};
    subject_name(&s, "cancelled");
    cancel_fire(cancel, ERR_CANCELLED);
    assert_int_equal(world.backend->ops->create(world.backend, &s.spec, &wait, &s.i, &err), -1);
    assert_int_equal(err.code, ERR_CANCELLED);
    cancel_unref(cancel);
    assert_no_trace(&s);
}

static void test_files_last(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    subject_create(&s, "kept");
    assert_output(&s, "echo data > /root/file; chmod 600 /root/file; mkfifo /root/pipe; echo ok", "ok\n");
    json_t *record = world.backend->ops->record(s.i);
    assert_int_equal(world.backend->ops->detach(s.i, &err), 0);
    assert_int_equal(world.backend->ops->attach(world.backend, &s.spec, record, &for_ever, &s.i, &err), 0);
    assert_output(&s, "cat /root/file; stat -c '%u %a' /root/file", "data\n0 600\n");
    subject_remove(&s);
    assert_int_equal(world.backend->ops->attach(world.backend, &s.spec, record, &for_ever, &s.i, &err), -1);
    assert_int_equal(err.code, ERR_GONE);
    json_decref(record);
}

/* A zygote without descriptors can't make computers: that is no reason to call a computer's files lost. */
static void test_failed_attach_loses_nothing(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    struct rlimit before, few;
    subject_create(&s, "careful");
    assert_output(&s, "echo data > /root/file", "");
    json_t *record = world.backend->ops->record(s.i);
    assert_int_equal(world.backend->ops->detach(s.i, &err), 0);

    pid_t zygote = find_zygote();
    assert_int_equal(prlimit(zygote, RLIMIT_NOFILE, NULL, &before), 0);
    few = (struct rlimit){7, before.rlim_max}; /* as many as it has, and one */
    assert_int_equal(prlimit(zygote, RLIMIT_NOFILE, &few, NULL), 0);
    assert_int_equal(world.backend->ops->attach(world.backend, &s.spec, record, &for_ever, &s.i, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_int_equal(prlimit(zygote, RLIMIT_NOFILE, &before, NULL), 0);

    assert_int_equal(world.backend->ops->attach(world.backend, &s.spec, record, &for_ever, &s.i, &err), 0);
    assert_output(&s, "cat /root/file", "data\n");
    json_decref(record);
    subject_remove(&s);
}

/* The server died without an end: init lives on, its groups too. */
static void test_attach_after_crash(void **state)
{
    struct subject s, again;
    struct error err = ERROR_INIT;
    subject_create(&s, "survivor");
    assert_output(&s, "echo data > /root/file; sleep 300 >/dev/null 2>&1 & echo ok", "ok\n");
    again = s;
    disk_close(&instance_of(s.i)->disk); /* as the kernel does for the dead */
    json_t *record = world.backend->ops->record(s.i);
    int failed = world.backend->ops->attach(world.backend, &again.spec, record, &for_ever, &again.i, &err);
    if (failed)
        print_error("attach: %s\n", err.msg);
    assert_int_equal(failed, 0);
    assert_false(world.backend->ops->alive(s.i));
    assert_output(&again, "cat /root/file; ps ax | grep -c '[s]leep'", "data\n0\n");
    json_decref(record);
    subject_remove(&again);
    assert_int_equal(world.backend->ops->detach(s.i, &err), 0);
}

static void test_record(void **state)
{
    json_t *record = world.backend->ops->record(common.i);
    assert_int_equal(json_integer_value(json_object_get(record, "pid")), instance_of(common.i)->pid);
    assert_string_equal(json_get_string(record, "network"), "none");
    json_t *memory = json_get_object(json_get_object(record, "limits"), "memory");
    assert_int_equal(json_integer_value(json_object_get(memory, "bytes")), 256 * MIB);
    assert_true(json_is_boolean(json_object_get(memory, "enforced")));
    json_decref(record);
}

static struct instance_stat look_at(struct subject *s)
{
    struct instance_stat stat;
    struct error err = ERROR_INIT;
    if (world.backend->ops->stat(s->i, true, &for_ever, &stat, &err) < 0)
        fail_msg("stat: %s", err.msg);
    return stat;
}

/* Then it isn't asked for its time any more. */
static struct instance_stat look_until_it_rests(struct subject *s)
{
    struct instance_stat stat = look_at(s);
    while (!instance_of(s->i)->figures.rests)
        stat = look_at(s);
    assert_int_equal(stat.pids, 1);
    return stat;
}

static void *wait_for_file(void *arg)
{
    assert_output(arg, "while ! [ -e /root/go ]; do :; done; echo gone", "gone\n");
    return NULL;
}

static void test_figures_of_one_that_rested(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    pthread_t thread;
    subject_create(&s, "rested");
    struct instance_stat before = look_at(&s);
    if (!(before.enforced & COMPUTER_PIDS) || before.cpu_ns == 0) {
        subject_remove(&s);
        skip_because("nobody counts processes or their time here");
    }
    before = look_until_it_rests(&s);
    assert_output(&s, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", "");
    assert_true(look_at(&s).cpu_ns > before.cpu_ns + 10 * NSEC_PER_MSEC);

    before = look_until_it_rests(&s); /* a command that runs */
    assert_int_equal(pthread_create(&thread, NULL, wait_for_file, &s), 0);
    while (look_at(&s).pids < 2 || look_at(&s).cpu_ns < before.cpu_ns + 10 * NSEC_PER_MSEC)
        ;
    assert_output(&s, "touch /root/go", "");
    pthread_join(thread, NULL);

    before = look_until_it_rests(&s); /* what a command has left */
    assert_output(&s, "while :; do :; done >/dev/null 2>&1 & echo $! > /root/pid", "");
    for (int i = 0; i < 2; i++) {
        while (look_at(&s).cpu_ns < before.cpu_ns + 10 * NSEC_PER_MSEC)
            ;
        do /* the shell's end may still be counted */
            before = look_at(&s);
        while (before.pids != 2);
    }
    assert_output(&s, "kill -9 $(cat /root/pid)", "");
    look_until_it_rests(&s);
    assert_int_equal(world.backend->ops->restart(s.i, &for_ever, &err), 0);
    assert_false(instance_of(s.i)->figures.rests);
    assert_true(look_until_it_rests(&s).cpu_ns < before.cpu_ns); /* of the new group */
    subject_remove(&s);
}

/* As after a crash of the server: the record is all that is known, and init still lives. */
static void test_reap(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    subject_create(&s, "crashed");
    json_t *record = world.backend->ops->record(s.i);
    int failed = world.backend->ops->reap(world.backend, &s.spec, record, &err);
    if (failed)
        print_error("reap: %s\n", err.msg);
    assert_int_equal(failed, 0);
    assert_false(world.backend->ops->alive(s.i));
    assert_no_trace(&s);
    assert_int_equal(world.backend->ops->reap(world.backend, &s.spec, record, &err),
                     0); /* nothing there: fine */
    assert_int_equal(world.backend->ops->reap(world.backend, &s.spec, NULL, &err), 0);
    json_decref(record);
    subject_remove(&s);
    assert_output(&common, "echo untouched", "untouched\n");
}

static void test_leftover_is_not_revived(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    subject_create(&s, "again");
    assert_output(&s, "touch /root/old; echo ok", "ok\n");
    assert_int_equal(world.backend->ops->detach(s.i, &err), 0);
    subject_create(&s, "again");
    assert_output(&s, "ls /root", "");
    subject_remove(&s);
}

/* A root with dash and nothing else: no bash to begin with, so /bin/sh is found instead. */
static void test_rootfs(void **state)
{
    static const char build[] =
        "set -e; root=%s; mkdir -p $root/etc $root/tmp; echo 'PRETTY_NAME=Tiny' > $root/etc/os-release;"
        "for f in /bin/sh /usr/bin/env $(ldd /bin/dash /usr/bin/env | grep -o '/[^ :)]*' | grep -v bin/); do"
        " mkdir -p $root$(dirname $f); cp -L $f $root$f; done";
    _cleanup_(cleanup_free) char *root = xasprintf("%s/rootfs", world.state);
    _cleanup_(cleanup_free) char *command = xasprintf(build, root);
    assert_int_equal(system(command), 0);
    struct native_options options = {
        .state_dir = world.state, .rootfs = root, .memory_bytes = 64 * MIB, .pids = 50, .cpus = 1.0};
    struct backend *toolbox = world.backend;
    struct native_machine machine = world.machine;
    machine.no_overlay = false;
    world.backend = native_new_on(&options, &machine);
    struct backend_description d;
    struct subject s;
    world.backend->ops->describe(world.backend, &d);
    assert_string_equal(d.environment, "an isolated Tiny computer");
    assert_string_equal(d.shell, "/bin/sh");
    subject_create(&s, "tiny");
    assert_output(&s, "echo here; echo data > /etc/new; test -e /usr/bin/python3 || echo alone",
                  "here\nalone\n");
    assert_output(&s, "read line < /etc/new; echo $line", "data\n");
    _cleanup_(cleanup_free) char *written = xasprintf("%s/etc/new", root);
    assert_int_not_equal(access(written, F_OK), 0);
    subject_remove(&s);
    world.backend->ops->free(world.backend);
    world.backend = toolbox;
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void test_descriptors(void **state)
{
    struct subject s;
    struct exec_result r;
    int before = open_descriptors();
    subject_create(&s, "frugal");
    for (int i = 0; i < 3; i++) {
        run_command(&s, "sleep 100 & true", &r);
        exec_result_done(&r);
    }
    assert_in_range(open_descriptors() - before, 1, 8);
    subject_remove(&s);
    assert_int_equal(open_descriptors(), before);
}

static void test_describe(void **state)
{
    struct backend_description d;
    world.backend->ops->describe(world.backend, &d);
    assert_non_null(strstr(d.environment, "isolated"));
    assert_non_null(strstr(d.network, "no network"));
    assert_non_null(strstr(d.limits, "256 MiB of memory"));
    assert_string_equal(d.shell, "/bin/bash");
}

/* A state directory that can't be is no computer that isn't found. */
static void test_impossible_state_is_unavailable(void **state)
{
    struct error err = ERROR_INIT;
    struct native_options options = {
        .state_dir = "/proc/version/state", .memory_bytes = MIB, .pids = 1, .cpus = 1};
    struct backend *b = native_new_on(&options, &world.machine);
    assert_int_equal(b->ops->probe(b, &for_ever, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    b->ops->free(b);
}

static int set_up(void **state)
{
    struct error err = ERROR_INIT;
    strcpy(world.state, "/var/tmp/test-native-XXXXXX");
    if (!mkdtemp(world.state) || chmod(world.state, 0711) < 0)
        return -1;
    snprintf(world.ids_file, sizeof(world.ids_file), "%s/id-ranges", world.state);
    world.machine.ids_file = world.ids_file;
    struct native_options options = {.state_dir = world.state,
                                     .memory_bytes = 256 * MIB,
                                     .pids = 200,
                                     .cpus = 2.0,
                                     .disk_bytes = world.disk_bytes,
                                     .network_wanted = false};
    world.backend = native_new_on(&options, &world.machine);
    if (world.backend->ops->probe(world.backend, &for_ever, &err) < 0) {
        print_error("probe: %s\n", err.msg);
        return -1;
    }
    subject_create(&common, "common");
    return 0;
}

static int tear_down(void **state)
{
    subject_remove(&common);
    world.backend = world.backend->ops->free(world.backend);
    _cleanup_(cleanup_free) char *mounts = xasprintf("grep -q %s /proc/self/mountinfo", world.state);
    assert_int_not_equal(system(mounts), 0);
    struct error err = ERROR_INIT;
    return tree_remove(AT_FDCWD, world.state, &err);
}

static size_t add_cases(struct CMUnitTest *to, size_t count, const struct CMUnitTest *from, size_t more)
{
    memcpy(to + count, from, more * sizeof(*from));
    return count + more;
}

int main(int argc, char **argv)
{
    const char *variant = argc > 1 ? argv[1] : "cgroup2";
    if (geteuid() != 0) {
        printf("skipped: needs root\n");
        return SKIPPED;
    }
    if (strcmp(variant, "disk") == 0 && access(LOOP_CONTROL, R_OK | W_OK) < 0) {
        printf("skipped: there are no loop devices\n");
        return SKIPPED;
    }
    signal(SIGPIPE, SIG_IGN); /* as the server does */
    world.machine.no_cgroup2 = strcmp(variant, "reaper") == 0;
    world.machine.no_overlay = strcmp(variant, "plain") == 0;
    world.machine.no_images = strcmp(variant, "watched") == 0;
    world.disk_bytes = world.machine.no_images || strcmp(variant, "disk") == 0 ? (int64_t)(64 * MIB) : 0;
    const struct CMUnitTest life_cases[] = {
        cmocka_unit_test(test_init_killed),
        cmocka_unit_test(test_zygote_killed),
        cmocka_unit_test(test_going_plain_ends_nothing),
        cmocka_unit_test(test_creates_at_once),
        cmocka_unit_test(test_create_cancelled),
        cmocka_unit_test(test_files_last),
        cmocka_unit_test(test_failed_attach_loses_nothing),
        cmocka_unit_test(test_attach_after_crash),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_figures_of_one_that_rested),
        cmocka_unit_test(test_reap),
        cmocka_unit_test(test_leftover_is_not_revived),
        cmocka_unit_test(test_rootfs),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_impossible_state_is_unavailable),
    };
    struct CMUnitTest cases[64];
    size_t count = add_cases(cases, 0, native_exec_cases, native_exec_case_count);
    count = add_cases(cases, count, life_cases, ARRAY_LEN(life_cases));
    count = add_cases(cases, count, native_spare_cases, native_spare_case_count);
    if (world.disk_bytes > 0 && world.machine.no_images)
        count = add_cases(cases, count, native_watched_cases, native_watched_case_count);
    else if (world.disk_bytes > 0)
        count = add_cases(cases, count, native_image_cases, native_image_case_count);
    assert_true(count <= ARRAY_LEN(cases));
    return _cmocka_run_group_tests(variant, cases, count, set_up, tear_down);
}
