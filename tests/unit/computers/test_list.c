/* What is listed, and how fast. */
#include "domain.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define IDS_MAX 64

struct listed {
    int count;
    char ids[IDS_MAX][SLUG_SIZE];
};

static void note(void *ctx, const struct computer_view *v)
{
    struct listed *l = ctx;
    assert_true(l->count < IDS_MAX);
    strcpy(l->ids[l->count++], v->id);
}

/* "a b c" and how many match. */
static void lists(struct computer_session *s, const struct computer_list_wish *wish, const char *expected,
                  size_t total)
{
    struct listed l = {0};
    const struct wait wait = long_wait();
    struct error err = ERROR_INIT;
    size_t matched = 0;
    char text[1024] = "";
    if (computers_list(s, wish, &wait, note, &l, &matched, &err) < 0)
        fail_msg("computers_list: %s", err.msg);
    for (int i = 0; i < l.count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, l.ids[i]);
    }
    assert_string_equal(text, expected);
    assert_int_equal(matched, total);
}

static void sorted_filtered_and_in_pages(void **state)
{
    struct domain first, d;
    domain_init(&first, NULL, NULL);
    must_have(&first, "delta", LIFETIME_PERMANENT);
    must_have(&first, "bravo", LIFETIME_PERMANENT);
    _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
    domain_done(&first, dir);

    domain_init(&d, NULL, dir);
    must_have(&d, "charlie", LIFETIME_TEMPORARY);
    must_have(&d, "alpha", LIFETIME_PERMANENT);
    must_have(&d, "bravo", LIFETIME_AS_IS); /* in memory and on disk */
    computers_prepare(d.computers);         /* a spare isn't a computer */
    lists(d.session, &(struct computer_list_wish){.condition = -1}, "alpha bravo charlie delta", 4);
    lists(d.session, &(struct computer_list_wish){.condition = CONDITION_RUNNING}, "alpha bravo charlie", 3);
    lists(d.session, &(struct computer_list_wish){.condition = CONDITION_STOPPED}, "delta", 1);
    lists(d.session, &(struct computer_list_wish){.condition = CONDITION_FAILED}, "", 0);
    lists(d.session, &(struct computer_list_wish){.condition = -1, .prefix = "b"}, "bravo", 1);
    lists(d.session, &(struct computer_list_wish){.condition = -1, .most = 2}, "alpha bravo", 4);
    lists(d.session, &(struct computer_list_wish){.condition = -1, .most = 2, .after = "bravo"},
          "charlie delta", 2);
    lists(d.session, &(struct computer_list_wish){.condition = -1, .after = "zulu"}, "", 0);
    lists(d.session, &(struct computer_list_wish){.condition = CONDITION_RUNNING, .most = 1}, "alpha", 3);
    domain_done(&d, NULL);
}

static void before_there_is_anything(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    lists(d.session, &(struct computer_list_wish){.condition = -1}, "", 0);
    domain_done(&d, NULL);
}

static int attach_fails(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                        struct error *err)
{
    const enum error_code *code = ctx;
    return *code == ERR_NONE ? 0 : error_set(err, *code, "no space left on device");
}

static void why_one_could_not_be_started(void **state)
{
    struct domain first, d;
    struct computer_view view;
    enum error_code code = ERR_TIMEOUT;
    domain_init(&first, NULL, NULL);
    must_have(&first, "otter", LIFETIME_PERMANENT);
    _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
    domain_done(&first, dir);

    domain_init(&d, &(struct fake_hooks){.attach = attach_fails, .ctx = &code}, dir);
    must_not_use(d.session, "otter", LIFETIME_AS_IS, ERR_TIMEOUT); /* which says nothing about it */
    assert_true(find_view(d.session, "otter", &view));
    assert_int_equal(view.condition, CONDITION_STOPPED);
    code = ERR_UNAVAILABLE;
    must_not_use(d.session, "otter", LIFETIME_AS_IS, ERR_UNAVAILABLE);
    assert_true(find_view(d.session, "otter", &view));
    assert_int_equal(view.condition, CONDITION_FAILED);
    assert_non_null(strstr(view.reason, "no space left on device"));
    code = ERR_NONE;
    must_have(&d, "otter", LIFETIME_AS_IS);
    assert_true(find_view(d.session, "otter", &view));
    assert_int_equal(view.condition, CONDITION_RUNNING);
    assert_false(view.reason[0]);
    domain_done(&d, dir);
    domain_init(&d, NULL, dir); /* put down in good order */
    assert_true(find_view(d.session, "otter", &view));
    assert_int_equal(view.condition, CONDITION_STOPPED);
    domain_done(&d, NULL);
}

static int probe_waits(void *ctx, const struct wait *wait, struct error *err)
{
    return gate_pass(((struct gate **)ctx)[0], wait, err);
}

static int create_waits(void *ctx, const struct computer_spec *spec, const struct wait *wait,
                        struct error *err)
{
    return gate_pass(((struct gate **)ctx)[1], wait, err);
}

/* Before there is a record, and when there is one. */
static void what_is_being_made_is_told_and_not_waited_for(void **state)
{
    static const enum lifetime LIFETIMES[] = {LIFETIME_AS_IS, LIFETIME_TEMPORARY, LIFETIME_PERMANENT};
    for (size_t i = 0; i < ARRAY_LEN(LIFETIMES); i++) {
        struct domain d;
        struct gate gates[2];
        struct gate *ctx[] = {&gates[0], &gates[1]};
        struct caller caller;
        gate_init(&gates[0]);
        gate_init(&gates[1]);
        domain_init(&d, &(struct fake_hooks){.probe = probe_waits, .create = create_waits, .ctx = ctx}, NULL);
        caller_start_for(&caller, d.session, "slow", LIFETIMES[i]);
        for (size_t g = 0; g < ARRAY_LEN(gates); g++) {
            struct computer_view view;
            gate_await(&gates[g], 1);
            assert_true(find_view(d.session, "slow", &view));
            assert_int_equal(view.condition, CONDITION_CREATING);
            assert_int_equal(view.temporary, LIFETIMES[i] != LIFETIME_PERMANENT);
            assert_true(view.created_at[0]);
            gate_open(&gates[g]);
        }
        caller_join(&caller);
        computers_release(&caller.use);
        domain_done(&d, NULL);
        gate_done(&gates[0]);
        gate_done(&gates[1]);
    }
}

static void of_other_servers(void **state)
{
    struct domain theirs, d;
    struct computer_view view;
    domain_init(&theirs, NULL, NULL);
    must_have(&theirs, "keeper", LIFETIME_PERMANENT);
    must_have(&theirs, "passing", LIFETIME_TEMPORARY);
    domain_init(&d, NULL, theirs.state_dir);
    /* Both servers are this process; to have another owner, the record is made another's. */
    assert_true(find_view(d.session, "keeper", &view));
    _cleanup_(cleanup_free) char *path = xasprintf("%s/computers/local/keeper", d.state_dir);
    const struct folder folder = {.path = path, .lock = -1};
    _cleanup_(record_done) struct record r = {0};
    assert_int_equal(store_read(&folder, &r, NULL), 0);
    const struct owner ours = r.owner;
    r.owner.pid = getppid();
    r.owner.start = clock_process_start(getppid());
    assert_int_equal(store_write(&folder, &r, NULL), 0);
    assert_true(find_view(d.session, "keeper", &view));
    assert_true(view.elsewhere);
    assert_int_equal(view.condition, CONDITION_RUNNING);
    r.owner.start++; /* which has ended */
    assert_int_equal(store_write(&folder, &r, NULL), 0);
    assert_true(find_view(d.session, "keeper", &view));
    assert_false(view.elsewhere);
    assert_int_equal(view.condition, CONDITION_STOPPED);
    r.owner = ours;
    r.temporary = true;
    r.owner.start++;
    assert_int_equal(store_write(&folder, &r, NULL), 0);
    assert_true(find_view(d.session, "keeper", &view));
    assert_int_equal(view.condition, CONDITION_DELETING);
    assert_true(view.reason[0]);
    domain_done(&d, theirs.state_dir);
    domain_done(&theirs, NULL);
}

static void what_cannot_be_used_says_why(void **state)
{
    struct domain first, d;
    struct computer_view view;
    domain_init(&first, NULL, NULL);
    must_have(&first, "broken", LIFETIME_PERMANENT);
    must_have(&first, "docker", LIFETIME_PERMANENT);
    _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
    domain_done(&first, dir);
    _cleanup_(cleanup_free) char *path = xasprintf("%s/computers/local/docker", dir);
    _cleanup_(cleanup_free) char *broken = xasprintf("%s/computers/local/broken/record.json", dir);
    const struct folder folder = {.path = path, .lock = -1};
    _cleanup_(record_done) struct record r = {0};
    assert_int_equal(store_read(&folder, &r, NULL), 0);
    strcpy(r.backend, "docker");
    assert_int_equal(store_write(&folder, &r, NULL), 0);
    assert_int_equal(file_replace(AT_FDCWD, broken, "{", 1, false, NULL), 0);

    domain_init(&d, NULL, dir);
    assert_true(find_view(d.session, "docker", &view));
    assert_int_equal(view.condition, CONDITION_FAILED);
    assert_non_null(strstr(view.reason, "backend 'docker'"));
    assert_string_equal(view.backend, "docker");
    assert_true(find_view(d.session, "broken", &view));
    assert_int_equal(view.condition, CONDITION_FAILED);
    assert_true(view.reason[0]);
    domain_done(&d, NULL);
}

static int list_nothing(void *ctx, void (*fn)(void *ctx, struct backend_found *f), void *fn_ctx,
                        struct error *err)
{
    return *(bool *)ctx ? error_set(err, ERR_UNAVAILABLE, "the engine is down") : 0;
}

static void what_the_backend_has_lost_is_missing(void **state)
{
    struct domain first, d;
    struct computer_view view;
    bool down = false;
    size_t total;
    struct error err = ERROR_INIT;
    const struct wait wait = long_wait();
    domain_init(&first, NULL, NULL);
    must_have(&first, "lost", LIFETIME_PERMANENT);
    _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
    domain_done(&first, dir);
    domain_init(&d, &(struct fake_hooks){.list = list_nothing, .ctx = &down}, dir);
    assert_true(find_view(d.session, "lost", &view));
    assert_int_equal(view.condition, CONDITION_MISSING);
    down = true;
    struct listed l = {0};
    assert_int_equal(computers_list(d.session, &(struct computer_list_wish){.condition = -1}, &wait, note, &l,
                                    &total, &err),
                     -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    domain_done(&d, NULL);
}

/* The backend's list is the truth, also of what nobody here has noticed yet. */
struct told {
    const char *id;
    bool running, aside;
    const char *paused;
};

static int list_told(void *ctx, void (*fn)(void *ctx, struct backend_found *f), void *fn_ctx,
                     struct error *err)
{
    for (const struct told *t = *(struct told **)ctx; t->id; t++) {
        struct backend_found f = {
            .id = xstrdup(t->id), .principal = xstrdup("local"), .running = t->running, .aside = t->aside};
        strcpy(f.provider_id, t->aside ? "aside" : "own");
        strcpy(f.paused, t->paused ? t->paused : "");
        fn(fn_ctx, &f);
        backend_found_done(&f);
    }
    return 0;
}

static void the_backend_knows_best(void **state)
{
    static const struct told both_first[] = {{"box", false, true}, {"box", true, false}, {NULL}},
                             both_last[] = {{"box", true, false}, {"box", false, true}, {NULL}},
                             stopped[] = {{"box", false, false}, {"other", true, false}, {NULL}},
                             beside[] = {{"box", true, true}, {"rest", true, true}, {NULL}},
                             none[] = {{NULL}};
    static const struct {
        const struct told *told;
        enum computer_condition condition;
        const char *listed;
    } cases[] = {
        {both_first, CONDITION_RUNNING, "box"},    {both_last, CONDITION_RUNNING, "box"},
        {stopped, CONDITION_STOPPED, "box other"}, {beside, CONDITION_RUNNING, "box"},
        {none, CONDITION_MISSING, "box"},
    };
    const struct told *told = none;
    struct domain d;
    domain_init(&d, &(struct fake_hooks){.list = list_told, .ctx = &told}, NULL);
    must_have(&d, "box", LIFETIME_PERMANENT);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct computer_view view;
        told = cases[i].told;
        lists(d.session, &(struct computer_list_wish){.condition = -1}, cases[i].listed,
              strchr(cases[i].listed, ' ') ? 2 : 1);
        assert_true(find_view(d.session, "box", &view));
        assert_int_equal(view.condition, cases[i].condition);
        assert_true(!view.reason[0] == (view.condition == CONDITION_RUNNING));
        if (view.condition == CONDITION_STOPPED)
            assert_string_equal(view.stat.provider_id, "own");
    }
    domain_done(&d, NULL);
}

/* Whoever has it: this server, nobody, another one. */
static void what_is_paused_says_so(void **state)
{
    static const struct told paused[] = {{"box", true, false, "fake unpause 1"},
                                         {"found", true, false, "fake unpause 2"},
                                         {NULL}},
                             again[] = {{"box", true, false, NULL}, {"found", true, false, NULL}, {NULL}},
                             beside[] = {{"box", true, true, "fake unpause 3"},
                                         {"box", true, false, NULL},
                                         {NULL}},
                             stopped[] = {{"box", false, false, NULL}, {NULL}};
    const struct told *told = paused;
    struct computer_view view;
    struct domain d;
    domain_init_options(&d, &(struct fake_hooks){.list = list_told, .ctx = &told}, NULL,
                        &(struct computers_options){.idle_s = 3000});
    must_have(&d, "box", LIFETIME_PERMANENT);
    for (int is_stored = 0; is_stored < 2; is_stored++) {
        _cleanup_(cleanup_free) char *dir = xstrdup(d.state_dir);
        told = paused;
        assert_true(find_view(d.session, "box", &view));
        assert_true(view.condition == CONDITION_RUNNING && view.paused);
        assert_non_null(strstr(view.reason, "paused"));
        assert_non_null(strstr(view.reason, "fake unpause 1"));
        assert_true(view.expires_in_s >= 3000); /* its time stands still */
        assert_true(find_view(d.session, "found", &view));
        assert_true(view.paused && strstr(view.reason, "fake unpause 2"));
        const struct told *const others[] = {again, beside, stopped};
        for (size_t i = 0; i < ARRAY_LEN(others); i++) {
            told = others[i];
            assert_true(find_view(d.session, "box", &view));
            assert_false(view.paused || strstr(view.reason, "paused"));
        }
        if (is_stored)
            break;
        told = again;
        domain_done(&d, dir);
        domain_init_options(&d, &(struct fake_hooks){.list = list_told, .ctx = &told}, dir,
                            &(struct computers_options){.idle_s = 3000});
    }
    domain_done(&d, NULL);
}

static void usage_is_told_when_asked_for(void **state)
{
    struct domain d;
    struct computer_view view;
    domain_init(&d, NULL, NULL);
    struct computer_use use = must_use(d.session, "otter", LIFETIME_TEMPORARY);
    computer_look(&use, &view);
    assert_false(view.has_usage);
    assert_true(view.stat.provider_id[0] && view.sessions == 1);
    struct listed l = {0};
    size_t total;
    const struct wait wait = long_wait();
    assert_int_equal(computers_list(d.session, &(struct computer_list_wish){.condition = -1, .usage = true},
                                    &wait, note, &l, &total, NULL),
                     0);
    assert_int_equal(l.count, 1);
    computers_release(&use);
    domain_done(&d, NULL);
}

/* Paths are the business of the machine's own user. */
static void only_the_local_user_is_told_of_paths(void **state)
{
    static const char *const PRINCIPALS[] = {"local", "bob"};
    for (size_t i = 0; i < 2; i++) {
        struct domain d;
        struct computer_view view;
        struct computer_use use = {0};
        struct error err = ERROR_INIT;
        const struct wait wait = long_wait();
        domain_init(&d, NULL, NULL);
        struct computer_session *s = computer_session_new(d.computers, PRINCIPALS[i]);
        _cleanup_(cleanup_free) char *folder =
            xasprintf("%s/computers/%s/broken", d.state_dir, PRINCIPALS[i]);
        _cleanup_(cleanup_free) char *path = xasprintf("%s/record.json", folder);
        assert_int_equal(dir_make(folder, 0700, NULL), 0);
        assert_int_equal(file_replace(AT_FDCWD, path, "{", 1, false, NULL), 0);
        const bool is_local = i == 0;
        assert_true(find_view(s, "broken", &view));
        assert_int_equal(!!strstr(view.reason, d.state_dir), is_local);
        assert_int_equal(computers_use(s, &(struct computer_wish){.id = "broken"}, &wait, &use, &err), -1);
        assert_int_equal(err.code, ERR_GONE);
        assert_int_equal(!!strstr(err.msg, d.state_dir), is_local);
        assert_int_equal(computer_session_end(s, DEADLINE_NONE, NULL), 0);
        domain_done(&d, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_there_is_anything),
        cmocka_unit_test(sorted_filtered_and_in_pages),
        cmocka_unit_test(what_is_being_made_is_told_and_not_waited_for),
        cmocka_unit_test(of_other_servers),
        cmocka_unit_test(what_cannot_be_used_says_why),
        cmocka_unit_test(why_one_could_not_be_started),
        cmocka_unit_test(what_the_backend_has_lost_is_missing),
        cmocka_unit_test(the_backend_knows_best),
        cmocka_unit_test(what_is_paused_says_so),
        cmocka_unit_test(usage_is_told_when_asked_for),
        cmocka_unit_test(only_the_local_user_is_told_of_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
