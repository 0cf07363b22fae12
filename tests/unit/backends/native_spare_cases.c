/* Computers of the native backend that are made without an id and get it later. */
#include "native_world.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/skip.h"

/* One without an id, in a folder like one that is being born; and what it is to become. */
struct spare {
    struct subject now, then;
    char rival[128]; /* a folder of another computer, that has no range */
    bool is_stuck;   /* the folder doesn't move */
    bool was_asked_to_move;
    pthread_t thread;
    struct error robbed; /* what the rival was told */
};

static void spare_name(struct spare *s, const char *id)
{
    char born_as[32];
    *s = (struct spare){0};
    snprintf(born_as, sizeof(born_as), ".new-%s", id);
    subject_name(&s->now, born_as);
    s->now.spec.id = "";
    subject_name(&s->then, id);
    assert_int_equal(rmdir(s->then.folder), 0);
    memcpy(s->then.key, s->now.key, sizeof(s->then.key));
    snprintf(s->rival, sizeof(s->rival), "%s/rival", world.state);
    assert_int_equal(dir_make(s->rival, 0700, NULL), 0);
}

static void spare_create(struct spare *s, const char *id)
{
    struct error err = ERROR_INIT;
    spare_name(s, id);
    if (world.backend->ops->create(world.backend, &s->now.spec, &for_ever, &s->now.i, &err) < 0)
        fail_msg("create: %s", err.msg);
    assert_output(&s->now, "echo early > /root/early; hostname", "\n");
}

static const struct id_ranges *ranges(void)
{
    return &native_of(world.backend)->ids;
}

static int rob(const struct spare *s, struct error *err)
{
    return ids_hold(ranges(), s->rival, instance_of(s->now.i)->id_base, err);
}

static void *rob_in_thread(void *arg)
{
    struct spare *s = arg;
    rob(s, &s->robbed);
    return NULL;
}

/* A rival tries to get the ids just when no folder speaks for them: it waits until one does again. */
static int move(void *ctx, struct error *err)
{
    struct spare *s = ctx;
    assert_int_equal(pthread_create(&s->thread, NULL, rob_in_thread, s), 0);
    s->was_asked_to_move = true;
    if (s->is_stuck)
        return error_set(err, ERR_EXISTS, "stuck");
    assert_int_equal(rename(s->now.folder, s->then.folder), 0);
    return 0;
}

static int give_id(struct spare *s, struct error *err)
{
    int failed = world.backend->ops->give_id(s->now.i, &s->then.spec, move, s, err);
    if (!s->was_asked_to_move)
        return failed;
    pthread_join(s->thread, NULL);
    assert_int_equal(s->robbed.code, ERR_UNAVAILABLE);
    return failed;
}

/* With nothing of its own. */
static int become(struct spare *s, struct error *err)
{
    return world.backend->ops->begin(s->now.i, NULL, err) < 0 ? -1 : give_id(s, err);
}

/* Nothing is left, and the ids are free. */
static void assert_removed(struct spare *s)
{
    const uint32_t base = instance_of(s->now.i)->id_base;
    struct error err = ERROR_INIT;
    if (world.backend->ops->remove(s->now.i, &err) < 0)
        fail_msg("remove: %s", err.msg);
    for (int moved = 0; moved < 2; moved++) {
        const struct subject *at = moved ? &s->then : &s->now;
        if (access(at->folder, F_OK) == 0) {
            assert_no_trace(at);
            assert_int_equal(rmdir(at->folder), 0);
        }
    }
    assert_int_equal(ids_hold(ranges(), s->rival, base, NULL), 0);
    assert_int_equal(ids_give_back(ranges(), s->rival, base, NULL), 0);
}

static void test_a_late_id_is_as_good_as_an_early_one(void **state)
{
    struct spare s;
    struct error err = ERROR_INIT;
    spare_create(&s, "late");
    if (become(&s, &err) < 0)
        fail_msg("begin, give_id: %s", err.msg);
    assert_output(&s.now, "hostname; uname -n; echo $HOSTNAME; cat /proc/sys/kernel/hostname",
                  "late\nlate\nlate\nlate\n");
    assert_output(&s.now, "cat /root/early; echo more > /root/more; hostname other 2>/dev/null; hostname",
                  "early\nlate\n");
    assert_int_not_equal(access(s.now.folder, F_OK), 0);
    assert_int_equal(access(s.then.folder, F_OK), 0);
    assert_int_equal(rob(&s, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_output(&common, "hostname", "common\n");
    assert_removed(&s);
}

static void test_a_computer_with_a_late_id_comes_back(void **state)
{
    const struct backend_ops *ops = world.backend->ops;
    struct spare s;
    struct error err = ERROR_INIT;
    spare_create(&s, "back");
    assert_int_equal(become(&s, &err), 0);
    _cleanup_(cleanup_json_decref) json_t *record = ops->record(s.now.i);
    assert_int_equal(ops->detach(s.now.i, &err), 0);
    if (ops->attach(world.backend, &s.then.spec, record, &for_ever, &s.now.i, &err) < 0)
        fail_msg("attach: %s", err.msg);
    assert_output(&s.now, "hostname; echo $HOSTNAME; cat /root/early", "back\nback\nearly\n");
    assert_removed(&s);
}

static void test_a_folder_that_does_not_move_keeps_all(void **state)
{
    struct spare s;
    struct error err = ERROR_INIT;
    spare_create(&s, "stuck");
    s.is_stuck = true;
    assert_int_equal(become(&s, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_string_equal(err.msg, "stuck");
    assert_output(&s.now, "cat /root/early", "early\n");
    assert_int_equal(access(s.then.folder, F_OK), -1);
    assert_int_equal(rob(&s, NULL), -1);
    assert_removed(&s);
}

static void test_a_dead_computer_gets_no_id(void **state)
{
    struct spare s;
    struct error err = ERROR_INIT;
    spare_create(&s, "dead");
    const pid_t init = instance_of(s.now.i)->pid;
    kill(init, SIGKILL);
    while (kill(init, 0) == 0) /* until the zygote has seen it, too */
        sched_yield();
    assert_int_equal(become(&s, &err), -1);
    assert_removed(&s);
}

static void test_without_its_zygote_there_is_no_id(void **state)
{
    struct spare s;
    struct error err = ERROR_INIT;
    subject_create(&s.now, "before"); /* the zygote is there, and the newest child */
    subject_remove(&s.now);
    spare_create(&s, "orphan");
    struct zygote *zygote = instance_of(s.now.i)->zygote;
    kill(find_zygote(), SIGKILL);
    while (zygote_alive(zygote))
        sched_yield();
    assert_int_equal(become(&s, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_output(&s.now, "cat /root/early", "early\n");
    assert_removed(&s);
    subject_create(&s.now, "after");
    subject_remove(&s.now);
}

/* A server that was killed has told where its spare is by what plan gave; or nothing at all. */
static void test_a_spare_is_reaped(void **state)
{
    const struct backend_ops *ops = world.backend->ops;
    for (int with_data = 0; with_data < 2; with_data++) {
        struct spare s;
        struct error err = ERROR_INIT;
        spare_create(&s, "reaped");
        _cleanup_(cleanup_json_decref) json_t *planned = ops->plan(world.backend, &s.now.spec);
        kill(instance_of(s.now.i)->pid, SIGKILL);
        while (ops->alive(s.now.i))
            sched_yield();
        if (ops->reap(world.backend, &s.now.spec, with_data ? planned : NULL, &err) < 0)
            fail_msg("reap: %s", err.msg);
        assert_no_trace(&s.now);
        assert_removed(&s);
    }
}

/* --- those that aren't complete --- */

/* Where all is made of the folder, or of an image, there is none. */
static void spare_prepare(struct spare *s, const char *id)
{
    struct error err = ERROR_INIT;
    const struct native *n = native_of(world.backend);
    if (n->plain || n->disks.way == DISK_IMAGE)
        skip_because("none is begun ahead where its files are made by its options");
    spare_name(s, id);
    if (world.backend->ops->prepare(world.backend, &s->now.spec, &s->now.i, &err) < 0)
        fail_msg("prepare: %s", err.msg);
    assert_non_null(s->now.i);
    assert_true(world.backend->ops->alive(s->now.i));
}

/* What holds it and what it sees is as if it had been made for its id. */
static void test_a_blank_one_becomes_like_any_other(void **state)
{
    static const char look[] = "sed 's,/e[0-9]*$,/e,' /proc/self/cgroup; cat /proc/self/limits; "
                               "grep '^Cap\\|^Seccomp\\|^NoNew\\|^Groups' /proc/self/status; "
                               "cut -d' ' -f5-8 /proc/self/mountinfo";
    struct exec_result theirs;
    struct spare s;
    struct error err = ERROR_INIT;
    spare_prepare(&s, "blank");
    if (become(&s, &err) < 0)
        fail_msg("begin, give_id: %s", err.msg);
    assert_output(&s.now, "hostname; cat /proc/sys/kernel/hostname", "blank\nblank\n");
    run_command(&common, look, &theirs);
    assert_output(&s.now, look, buf_str(&theirs.out.head));
    exec_result_done(&theirs);
    assert_int_equal(access(s.then.folder, F_OK), 0);
    assert_int_equal(rob(&s, &err), -1); /* its ids are its own */
    assert_removed(&s);
}

static void test_a_blank_one_is_held_by_its_groups(void **state)
{
    struct spare s;
    struct error err = ERROR_INIT;
    struct instance_stat stat;
    spare_prepare(&s, "held");
    assert_int_equal(world.backend->ops->begin(s.now.i, NULL, &err), 0);
    assert_int_equal(world.backend->ops->stat(s.now.i, true, &for_ever, &stat, &err), 0);
    if (stat.enforced & COMPUTER_PIDS)
        assert_int_equal(stat.pids, 1);
    assert_int_equal(give_id(&s, &err), 0);
    assert_output(&s.now, "hostname", "held\n");
    assert_removed(&s);
}

/* The kernel holds these, and no others. */
static void assert_held(const struct subject *s, const struct computer_options *o)
{
    const struct native *n = native_of(world.backend);
    const struct cgroup_values values = {o->memory_bytes, o->pids, o->cpus};
    const struct cgroup_birth all = {.is_unchecked = true};
    struct error err = ERROR_INIT;
    if (cgroup_check(&n->cgroups, s->key, &values, &all, &err) < 0)
        fail_msg("%s", err.msg);
    for (int limit = 0; limit < CGROUP_LIMITS; limit++)
        if (n->cgroups.places[limit].version)
            assert_int_equal(cgroup_check(&n->cgroups, s->key, &n->limits, &all, NULL), -1);
}

static void assert_recorded(const struct instance *i, const struct computer_options *o)
{
    _cleanup_(cleanup_json_decref) json_t *record = world.backend->ops->record(i);
    const json_t *limits = json_get_object(record, "limits");
    assert_int_equal(json_integer_value(json_object_get(json_get_object(limits, "memory"), "bytes")),
                     o->memory_bytes);
    assert_int_equal(json_integer_value(json_object_get(json_get_object(limits, "pids"), "count")), o->pids);
    assert_float_equal(json_real_value(json_object_get(json_get_object(limits, "cpu"), "cpus")), o->cpus, 0);
}

/* Lower and higher ones than all have; as if it had been made with them. */
static void test_a_blank_one_takes_limits_of_its_own(void **state)
{
    static const char look[] = "cat /proc/self/limits; echo $OWN";
    char own[] = "OWN=yes", *const env[] = {own, NULL};
    const unsigned given = COMPUTER_MEMORY | COMPUTER_PIDS | COMPUTER_CPUS | COMPUTER_ENV;
    const struct computer_options wanted[] = {
        {.given = given, .memory_bytes = 64 * MIB, .pids = 40, .cpus = 0.5, .env = env},
        {.given = given, .memory_bytes = 1024 * MIB, .pids = 2000, .cpus = 2, .env = env},
    };
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        struct exec_result theirs;
        struct spare s;
        struct subject born;
        struct error err = ERROR_INIT;
        spare_prepare(&s, "own");
        if (world.backend->ops->begin(s.now.i, &wanted[i], &err) < 0)
            fail_msg("begin: %s", err.msg);
        assert_recorded(s.now.i, &wanted[i]);
        assert_int_equal(give_id(&s, &err), 0);
        assert_held(&s.now, &wanted[i]);
        subject_name(&born, "born");
        born.spec.options = &wanted[i];
        assert_int_equal(world.backend->ops->create(world.backend, &born.spec, &for_ever, &born.i, &err), 0);
        assert_held(&born, &wanted[i]);
        run_command(&born, look, &theirs);
        assert_output(&s.now, look, buf_str(&theirs.out.head));
        exec_result_done(&theirs);
        subject_remove(&born);
        assert_removed(&s);
    }
}

/* Whoever made its groups unfit: it is not begun. */
static void test_a_blank_one_without_its_groups_is_not_begun(void **state)
{
    const struct computer_options wanted = {.given = COMPUTER_PIDS, .pids = 40};
    struct spare s;
    struct error err = ERROR_INIT;
    spare_prepare(&s, "ungrouped");
    const struct native *n = native_of(world.backend);
    const bool is_v1 = n->cgroups.places[CGROUP_PIDS].version == 1; /* else its process is in it */
    if (is_v1) {
        char name[64];
        cgroup_name(s.now.key, name, sizeof(name));
        _cleanup_(cleanup_free) char *group = xasprintf("%s/%s", n->cgroups.places[CGROUP_PIDS].v1, name);
        assert_int_equal(rmdir(group), 0);
        assert_int_equal(world.backend->ops->begin(s.now.i, &wanted, &err), -1);
        assert_int_equal(err.code, ERR_UNAVAILABLE);
    }
    assert_removed(&s);
}

static void test_a_blank_one_that_nobody_wants_leaves_nothing(void **state)
{
    struct spare s;
    spare_prepare(&s, "unwanted");
    assert_removed(&s);
}

static void test_a_dead_blank_one_gets_no_id(void **state)
{
    struct spare s;
    struct error err = ERROR_INIT;
    spare_prepare(&s, "stillborn");
    const pid_t init = instance_of(s.now.i)->pid;
    kill(init, SIGKILL);
    while (kill(init, 0) == 0)
        sched_yield();
    assert_false(world.backend->ops->alive(s.now.i));
    assert_int_equal(become(&s, &err), -1);
    assert_removed(&s);
}

const struct CMUnitTest native_spare_cases[] = {
    cmocka_unit_test(test_a_late_id_is_as_good_as_an_early_one),
    cmocka_unit_test(test_a_computer_with_a_late_id_comes_back),
    cmocka_unit_test(test_a_folder_that_does_not_move_keeps_all),
    cmocka_unit_test(test_a_dead_computer_gets_no_id),
    cmocka_unit_test(test_without_its_zygote_there_is_no_id),
    cmocka_unit_test(test_a_spare_is_reaped),
    cmocka_unit_test(test_a_blank_one_becomes_like_any_other),
    cmocka_unit_test(test_a_blank_one_is_held_by_its_groups),
    cmocka_unit_test(test_a_blank_one_takes_limits_of_its_own),
    cmocka_unit_test(test_a_blank_one_without_its_groups_is_not_begun),
    cmocka_unit_test(test_a_blank_one_that_nobody_wants_leaves_nothing),
    cmocka_unit_test(test_a_dead_blank_one_gets_no_id),
};
const size_t native_spare_case_count = ARRAY_LEN(native_spare_cases);
