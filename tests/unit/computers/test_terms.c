/* How long computers last: as numbers, and as it happens. A computer is as old as its record says, so that
 * nothing has to be waited for. */
#include "domain.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define HOUR_NS (3600 * NSEC_PER_SEC)
#define LONG_S 1e6

static void numbers(void **state)
{
    static const struct {
        struct computer_terms terms;
        struct term_state now;
        double left;
        bool deletes;
    } ROWS[] = {
        {{0}, {.runs = true, .made_ns = HOUR_NS, .used_ns = HOUR_NS}, -1, false},
        {{.ttl_s = 7200}, {.runs = true, .made_ns = HOUR_NS}, 3600, true},
        {{.ttl_s = 7200}, {.runs = true, .used = true, .made_ns = HOUR_NS}, 3600, true},
        {{.ttl_s = 60}, {.made_ns = HOUR_NS}, 0, true},
        {{.idle_s = 7200}, {.runs = true, .used_ns = HOUR_NS}, 3600, false},
        {{.idle_s = 60}, {.runs = true, .used = true, .used_ns = HOUR_NS}, 60, false},
        {{.idle_s = 60}, {.runs = true, .temporary = true, .used_ns = HOUR_NS}, 0, true},
        {{.idle_s = 7200, .on_idle = ON_IDLE_DELETE}, {.used_ns = HOUR_NS}, 3600, true},
        {{.idle_s = 60}, {.used_ns = HOUR_NS}, -1, false}, /* it is stopped already */
        {{.ttl_s = 7200, .idle_s = 4000}, {.runs = true, .made_ns = HOUR_NS, .used_ns = HOUR_NS}, 400, false},
        {{.ttl_s = 4000, .idle_s = 7200}, {.runs = true, .made_ns = HOUR_NS, .used_ns = HOUR_NS}, 400, true},
    };
    for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
        bool deletes = false;
        double left = terms_left(&ROWS[i].terms, &ROWS[i].now, &deletes);
        assert_true(left >= ROWS[i].left && left <= ROWS[i].left);
        if (left >= 0)
            assert_int_equal(deletes, ROWS[i].deletes);
    }
}

static void clocks(void **state)
{
    struct record r = {.made = {0, 0}};
    record_touch(&r); /* an old record has no moments: it is as young as its first use by us */
    assert_true(record_age(&r, &r.made) < HOUR_NS);
    r.made.now -= HOUR_NS; /* within a boot the wall clock doesn't matter */
    r.made.wall += 5 * HOUR_NS;
    assert_true(record_age(&r, &r.made) >= HOUR_NS && record_age(&r, &r.made) < 2 * HOUR_NS);
    strcpy(r.boot, "00000000-0000-0000-0000-000000000000"); /* and across boots nothing else does */
    r.made = (struct moment){.now = 0, .wall = clock_wall() - 3 * HOUR_NS};
    assert_true(record_age(&r, &r.made) >= 3 * HOUR_NS && record_age(&r, &r.made) < 4 * HOUR_NS);
    r.used.wall = clock_wall() + HOUR_NS; /* set back meanwhile */
    assert_int_equal(record_age(&r, &r.used), 0);
    record_touch(&r);
    assert_string_equal(r.boot, clock_boot_id());
    assert_true(record_age(&r, &r.made) >= 3 * HOUR_NS && record_age(&r, &r.made) < 4 * HOUR_NS);
}

static void make(struct domain *d, const char *id, enum lifetime lifetime, const struct computer_terms *terms)
{
    const struct wait wait = long_wait();
    struct computer_use use;
    struct error err = ERROR_INIT;
    const struct computer_wish wish = {.id = id, .lifetime = lifetime, .terms = terms};
    if (computers_use(d->session, &wish, &wait, &use, &err) < 0)
        fail_msg("computers_use: %s", err.msg);
    computers_release(&use);
}

static struct computer *known(const struct domain *d, const char *id)
{
    char name[COMPUTER_NAME_SIZE];
    return map_get(d->computers->by_name, computer_name("local", id, name));
}

/* An hour passes, for this one. */
static void let_pass(const struct domain *d, const char *id)
{
    pthread_mutex_lock(&d->computers->lock);
    struct computer *c = known(d, id);
    assert_non_null(c);
    c->record.made.now -= HOUR_NS;
    c->used_at -= HOUR_NS;
    pthread_mutex_unlock(&d->computers->lock);
}

static bool is_known(const struct domain *d, const char *id)
{
    return computers_knows(d->computers, "local", id);
}

static void the_time_to_live(void **state)
{
    static const enum lifetime LIFETIMES[] = {LIFETIME_TEMPORARY, LIFETIME_PERMANENT};
    for (size_t i = 0; i < 2; i++) {
        struct domain d;
        domain_init(&d, NULL, NULL);
        make(&d, "otter", LIFETIMES[i], &(struct computer_terms){.ttl_s = 3000});
        assert_true(terms_expire(d.computers) > clock_now() + 2000 * NSEC_PER_SEC);
        let_pass(&d, "otter");
        terms_expire(d.computers);
        while (is_known(&d, "otter"))
            sched_yield();
        assert_false(folder_exists(&d, "otter"));
        must_not_use(d.session, "otter", LIFETIME_AS_IS, ERR_GONE); /* it is told, once */
        must_have(&d, "otter", LIFETIME_AS_IS);
        domain_done(&d, NULL);
    }
}

static void being_idle_stops_permanent_ones(void **state)
{
    struct domain d;
    struct computer_view view;
    domain_init(&d, NULL, NULL);
    make(&d, "keeper", LIFETIME_PERMANENT, &(struct computer_terms){.idle_s = 3000});
    make(&d, "passing", LIFETIME_TEMPORARY, &(struct computer_terms){.idle_s = 3000});
    make(&d, "doomed", LIFETIME_PERMANENT,
         &(struct computer_terms){.idle_s = 3000, .on_idle = ON_IDLE_DELETE});
    make(&d, "used", LIFETIME_PERMANENT, &(struct computer_terms){.idle_s = LONG_S});
    put_file(&d, "keeper");
    let_pass(&d, "keeper");
    let_pass(&d, "passing");
    let_pass(&d, "doomed");
    let_pass(&d, "used");
    terms_expire(d.computers);
    while (is_known(&d, "keeper") || is_known(&d, "passing") || is_known(&d, "doomed"))
        sched_yield();
    assert_true(has_file(&d, "keeper"));
    assert_false(folder_exists(&d, "passing"));
    assert_false(folder_exists(&d, "doomed"));
    assert_true(is_known(&d, "used"));
    assert_true(find_view(d.session, "keeper", &view));
    assert_int_equal(view.condition, CONDITION_STOPPED);
    assert_true(view.expires_in_s < 0);
    must_have(&d, "keeper", LIFETIME_AS_IS); /* and nothing is to be told */
    assert_true(has_file(&d, "keeper"));
    domain_done(&d, NULL);
}

static void calls_and_processes_are_use(void **state)
{
    struct domain d;
    const struct computer_terms terms = {.idle_s = 3000};
    domain_init(&d, NULL, NULL);
    make(&d, "held", LIFETIME_TEMPORARY, &terms);
    make(&d, "busy", LIFETIME_TEMPORARY, &terms);
    struct computer_use use = must_use(d.session, "busy", LIFETIME_AS_IS);
    struct exec_result result = {0};
    const struct exec_request request = {.command = "sleep 1000 >/dev/null 2>&1 </dev/null &",
                                         .command_len = 39,
                                         .output_limit = 1,
                                         .wait = long_wait()};
    assert_int_equal(computer_exec(&use, &request, &result, NULL), 0);
    assert_int_equal(result.background_count, 1);
    exec_result_done(&result);
    computers_release(&use);
    use = must_use(d.session, "held", LIFETIME_AS_IS);
    let_pass(&d, "held");
    let_pass(&d, "busy");
    terms_expire(d.computers);
    assert_true(is_known(&d, "held") && is_known(&d, "busy"));
    computers_release(&use);
    domain_done(&d, NULL);
}

static bool is_paused(void *ctx, const char *id)
{
    return *(atomic_bool *)ctx && strcmp(id, "heron") != 0;
}

/* A computer that somebody has paused isn't idle, until it has been seen to go on for all of its time. */
static void time_stands_still_while_it_is_paused(void **state)
{
    struct domain d;
    atomic_bool paused = true;
    domain_init(&d, &(struct fake_hooks){.paused = is_paused, .ctx = &paused}, NULL);
    make(&d, "otter", LIFETIME_PERMANENT, &(struct computer_terms){.idle_s = 3000});
    make(&d, "heron", LIFETIME_PERMANENT, &(struct computer_terms){.idle_s = 3000});
    for (int looks = 0; looks < 3; looks++) {
        paused = looks < 2;
        let_pass(&d, "otter");
        terms_expire(d.computers);
        assert_true(is_known(&d, "otter"));
    }
    let_pass(&d, "otter");
    let_pass(&d, "heron");
    terms_expire(d.computers);
    while (is_known(&d, "otter") || is_known(&d, "heron"))
        sched_yield();
    make(&d, "ibis", LIFETIME_PERMANENT, &(struct computer_terms){.ttl_s = 3000});
    paused = true; /* how long it is to live is about its age */
    let_pass(&d, "ibis");
    terms_expire(d.computers);
    while (is_known(&d, "ibis"))
        sched_yield();
    domain_done(&d, NULL);
}

static void stopped_ones_are_removed_in_time(void **state)
{
    struct domain first, d;
    domain_init(&first, NULL, NULL);
    make(&first, "aged", LIFETIME_PERMANENT, &(struct computer_terms){.ttl_s = 3000});
    make(&first, "idle", LIFETIME_PERMANENT,
         &(struct computer_terms){.idle_s = 3000, .on_idle = ON_IDLE_DELETE});
    make(&first, "stays", LIFETIME_PERMANENT, &(struct computer_terms){.idle_s = 3000});
    make(&first, "young", LIFETIME_PERMANENT, &(struct computer_terms){.ttl_s = LONG_S});
    _cleanup_(cleanup_free) char *dir = xstrdup(first.state_dir);
    domain_done(&first, dir);
    static const char *const IDS[] = {"aged", "idle", "stays", "young"};
    for (size_t i = 0; i < 4; i++) {
        _cleanup_(cleanup_free) char *path = xasprintf("%s/computers/local/%s", dir, IDS[i]);
        const struct folder folder = {.path = path, .lock = -1};
        _cleanup_(record_done) struct record r = {0};
        assert_int_equal(store_read(&folder, &r, NULL), 0);
        r.made.now -= HOUR_NS;
        r.used.now -= HOUR_NS;
        assert_int_equal(store_write(&folder, &r, NULL), 0);
    }
    domain_init(&d, NULL, dir);
    assert_int_equal(computers_reap(d.computers), 0); /* at the start: it notes what is due */
    while (folder_exists(&d, "aged") || folder_exists(&d, "idle") || find_unborn(dir).count > 0)
        sched_yield(); /* by the thread that looks after them */
    assert_true(folder_exists(&d, "stays") && folder_exists(&d, "young"));
    assert_int_equal(fake_backend_counts(d.backend).attached, 0);
    domain_done(&d, NULL);
}

static void what_is_the_servers_holds_for_all(void **state)
{
    struct domain d;
    struct computer_view view;
    const struct computers_options all = {.ttl_s = 5000, .idle_s = 900};
    domain_init_options(&d, NULL, NULL, &all);
    make(&d, "plain", LIFETIME_TEMPORARY, NULL);
    make(&d, "own", LIFETIME_PERMANENT,
         &(struct computer_terms){.ttl_s = 100, .on_idle = ON_IDLE_DELETE, .description = "mine"});
    assert_true(find_view(d.session, "plain", &view));
    assert_true(view.expires_in_s > 890 && view.expires_in_s <= 900 && view.expiry_deletes);
    assert_true(find_view(d.session, "own", &view));
    assert_true(view.expires_in_s > 90 && view.expires_in_s <= 100 && view.expiry_deletes);
    assert_string_equal(view.description, "mine");
    domain_done(&d, NULL);
}

static void what_differs_is_refused(void **state)
{
    struct domain d;
    struct computer_use use;
    struct error err = ERROR_INIT;
    const struct wait wait = long_wait();
    const struct computer_options small = {.given = COMPUTER_MEMORY, .memory_bytes = 1024},
                                  large = {.given = COMPUTER_MEMORY, .memory_bytes = 2048};
    domain_init(&d, &(struct fake_hooks){.options = COMPUTER_MEMORY}, NULL);
    make(&d, "otter", LIFETIME_PERMANENT, &(struct computer_terms){.ttl_s = 100});
    struct computer_wish wish = {.id = "otter", .options = &small};
    assert_int_equal(computers_use(d.session, &wish, &wait, &use, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_non_null(strstr(err.msg, "memory=1024"));
    assert_non_null(strstr(err.msg, "as the server has it"));
    wish = (struct computer_wish){.id = "otter", .terms = &(struct computer_terms){.ttl_s = 200}};
    assert_int_equal(computers_use(d.session, &wish, &wait, &use, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_non_null(strstr(err.msg, "ttl=100"));
    assert_non_null(strstr(err.msg, "ttl=200"));
    wish = (struct computer_wish){.id = "heron", .options = &small};
    assert_int_equal(computers_use(d.session, &wish, &wait, &use, &err), 0);
    computers_release(&use);
    wish.options = &large;
    assert_int_equal(computers_use(d.session, &wish, &wait, &use, &err), -1);
    assert_non_null(strstr(err.msg, "memory=1024"));
    assert_non_null(strstr(err.msg, "memory=2048"));
    const struct computer_options image = {.given = COMPUTER_IMAGE, .image = "x"};
    wish = (struct computer_wish){.id = "ibis", .options = &image};
    assert_int_equal(computers_use(d.session, &wish, &wait, &use, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_false(folder_exists(&d, "ibis"));
    domain_done(&d, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(clocks),
        cmocka_unit_test(the_time_to_live),
        cmocka_unit_test(being_idle_stops_permanent_ones),
        cmocka_unit_test(calls_and_processes_are_use),
        cmocka_unit_test(time_stands_still_while_it_is_paused),
        cmocka_unit_test(stopped_ones_are_removed_in_time),
        cmocka_unit_test(what_is_the_servers_holds_for_all),
        cmocka_unit_test(what_differs_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
