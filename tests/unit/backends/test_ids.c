/* Ranges of user ids: no two folders that exist have the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "backends/native/ids.h"
#include "temporary.h"

static struct id_ranges ranges = {.first = ID_RANGE_FIRST, .size = ID_RANGE_SIZE, .count = ID_RANGE_COUNT};
static char *ids_file;

static int set_up(void **state)
{
    int failed = temporary_make(state);
    ranges.file = ids_file = temporary_path("lib/id-ranges");
    return failed;
}

static int tear_down(void **state)
{
    free(ids_file);
    return temporary_remove(state);
}

static uint32_t take(const char *name)
{
    _cleanup_(cleanup_free) char *folder = temporary_path(name);
    uint32_t base = 0;
    temporary_folder(name);
    assert_int_equal(ids_take(&ranges, folder, &base, NULL), 0);
    return base;
}

static void test_ranges(void **state)
{
    uint32_t bases[50];
    for (uint32_t i = 0; i < ARRAY_LEN(bases); i++) {
        char name[16];
        snprintf(name, sizeof(name), "c/%u", i);
        bases[i] = take(name);
        assert_in_range(bases[i], ID_RANGE_FIRST, ID_RANGE_FIRST + (ID_RANGE_COUNT - 1) * ID_RANGE_SIZE);
        assert_int_equal(bases[i] % ID_RANGE_SIZE, 0);
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(bases[i], bases[k]);
    }
    assert_int_equal(take("c/7"), bases[7]); /* who has one keeps it */
}

static void test_give_back(void **state)
{
    _cleanup_(cleanup_free) char *folder = temporary_path("a");
    _cleanup_(cleanup_free) char *other = temporary_path("b");
    uint32_t base = take("a");
    struct error err = ERROR_INIT;
    temporary_folder("b");

    assert_int_equal(ids_give_back(&ranges, other, base, &err), 0); /* not its own: nothing happens */
    assert_int_equal(ids_hold(&ranges, other, base, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_int_equal(ids_hold(&ranges, folder, base, &err), 0);
    assert_int_equal(ids_give_back(&ranges, folder, base, &err), 0);
    assert_int_equal(ids_hold(&ranges, other, base, &err), 0); /* free, so it may be held by the other now */
    assert_int_equal(ids_hold(&ranges, folder, base, &err), -1);
    assert_int_equal(ids_give_back(&ranges, other, base, &err), 0);
}

static void test_folder_gone(void **state)
{
    _cleanup_(cleanup_free) char *heir = temporary_path("heir");
    uint32_t base = take("lost");
    temporary_folder("heir");
    assert_int_equal(ids_hold(&ranges, heir, base, NULL), -1);
    _cleanup_(cleanup_free) char *folder = temporary_path("lost");
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(ids_hold(&ranges, heir, base, NULL), 0);
}

static void test_bad_base(void **state)
{
    static const uint32_t wrong[] = {0,
                                     1000,
                                     ID_RANGE_FIRST + 1,
                                     ID_RANGE_FIRST - ID_RANGE_SIZE,
                                     ID_RANGE_FIRST + ID_RANGE_COUNT * ID_RANGE_SIZE,
                                     UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct error err = ERROR_INIT;
        assert_int_equal(ids_hold(&ranges, "/x", wrong[i], &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        assert_int_equal(ids_give_back(&ranges, "/x", wrong[i], &err), -1);
    }
}

/* -- A folder that gets another name */

struct moving {
    const char *from, *to;
    bool fails;
    uint32_t base;
    pthread_t rival;
    struct error refused; /* what the rival was told */
};

static void *take_the_range(void *arg)
{
    struct moving *m = arg;
    _cleanup_(cleanup_free) char *rival = temporary_path("rival");
    ids_hold(&ranges, rival, m->base, &m->refused);
    return NULL;
}

/* The rival comes while neither path speaks for the range. */
static int move(void *ctx, struct error *err)
{
    struct moving *m = ctx;
    assert_int_equal(pthread_create(&m->rival, NULL, take_the_range, m), 0);
    if (m->fails)
        return error_set(err, ERR_EXISTS, "does not move");
    assert_int_equal(rename(m->from, m->to), 0);
    return 0;
}

static void test_a_range_goes_along(void **state)
{
    for (int fails = 0; fails < 2; fails++) {
        _cleanup_(cleanup_free) char *from = temporary_path("from");
        _cleanup_(cleanup_free) char *to = temporary_path("to");
        struct moving m = {.from = from, .to = to, .fails = fails, .base = take("from")};
        struct error err = ERROR_INIT;
        temporary_folder("rival");
        assert_int_equal(ids_move(&ranges, m.base, to, move, &m, &err), fails ? -1 : 0);
        assert_int_equal(err.code, fails ? ERR_EXISTS : ERR_NONE);
        pthread_join(m.rival, NULL);
        assert_int_equal(m.refused.code, ERR_UNAVAILABLE);
        const char *holder = fails ? from : to;
        assert_int_equal(ids_hold(&ranges, holder, m.base, NULL), 0);
        assert_int_equal(ids_give_back(&ranges, holder, m.base, NULL), 0);
        assert_int_equal(rmdir(holder), 0);
    }
}

static int die(void *ctx, struct error *err)
{
    const struct moving *m = ctx;
    if (!m->fails)
        assert_int_equal(rename(m->from, m->to), 0);
    _exit(0);
}

static void be_killed_while_moving(struct moving *m)
{
    pid_t pid = fork();
    if (pid == 0)
        ids_move(&ranges, m->base, m->to, die, m, NULL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Killed before the folder has its new name, or after: it has its range, whoever takes the new name has
 * another, and what is given back is free again. */
static void test_killed_while_a_range_moves(void **state)
{
    for (int fails = 0; fails < 2; fails++) {
        _cleanup_(cleanup_free) char *from = temporary_path("from");
        _cleanup_(cleanup_free) char *to = temporary_path("to");
        struct moving m = {.from = from, .to = to, .fails = fails, .base = take("from")};
        be_killed_while_moving(&m);
        _cleanup_(cleanup_free) char *rival = temporary_path("rival");
        const char *holder = fails ? from : to;
        temporary_folder("rival");
        assert_int_equal(ids_hold(&ranges, rival, m.base, NULL), -1);
        const uint32_t of_name = fails ? take("to") : 0;
        assert_int_not_equal(of_name, m.base);
        assert_int_equal(ids_give_back(&ranges, holder, m.base, NULL), 0);
        assert_int_equal(ids_hold(&ranges, rival, m.base, NULL), 0);
        assert_int_equal(ids_give_back(&ranges, rival, m.base, NULL), 0);
        if (fails)
            assert_int_equal(ids_give_back(&ranges, to, of_name, NULL), 0);
        rmdir(from);
        rmdir(to);
    }
}

/* Who clears up puts the folder aside first. */
static void test_killed_before_a_move_and_put_aside(void **state)
{
    _cleanup_(cleanup_free) char *from = temporary_path("from");
    _cleanup_(cleanup_free) char *to = temporary_path("to");
    _cleanup_(cleanup_free) char *aside = temporary_path("aside");
    struct moving m = {.from = from, .to = to, .fails = true, .base = take("from")};
    be_killed_while_moving(&m);
    assert_int_equal(rename(from, aside), 0);
    assert_int_equal(ids_give_back(&ranges, aside, m.base, NULL), 0);
    temporary_folder("to"); /* which has other ids, or none */
    _cleanup_(cleanup_free) char *rival = temporary_path("rival");
    temporary_folder("rival");
    assert_int_equal(ids_hold(&ranges, rival, m.base, NULL), 0);
    assert_int_equal(ids_give_back(&ranges, rival, m.base, NULL), 0);
    rmdir(aside);
    rmdir(to);
}

/* Two ranges under one name: the first is of one whose server was killed after its folder had the name. */
static void test_who_is_taken_up_holds_one_range(void **state)
{
    _cleanup_(cleanup_free) char *from = temporary_path("from");
    _cleanup_(cleanup_free) char *to = temporary_path("to");
    struct moving m = {.from = from, .to = to, .base = take("from")};
    be_killed_while_moving(&m);
    assert_int_equal(rmdir(to), 0);
    const uint32_t base = take("to");
    _cleanup_(cleanup_free) char *rival = temporary_path("rival");
    temporary_folder("rival");
    if (base != m.base)
        assert_int_equal(ids_hold(&ranges, rival, m.base, NULL), -1);
    assert_int_equal(ids_hold(&ranges, to, base, NULL), 0);
    assert_int_equal(ids_hold(&ranges, rival, m.base, NULL), base == m.base ? -1 : 0);
    assert_int_equal(ids_give_back(&ranges, rival, m.base, NULL), 0);
    assert_int_equal(ids_give_back(&ranges, to, base, NULL), 0);
    rmdir(to);
}

static int count_move(void *ctx, struct error *err)
{
    return ++*(int *)ctx > 1 ? error_set(err, ERR_EXISTS, "once is enough") : 0;
}

/* Two folders change names: the range of the one that lost its name isn't held by the other for that. */
static void test_a_name_is_taken_over(void **state)
{
    _cleanup_(cleanup_free) char *named = temporary_path("named"), *unborn = temporary_path("unborn");
    const uint32_t of_old = take("named"), of_new = take("unborn");
    int moves = 0;
    assert_int_equal(ids_move(&ranges, of_new, named, count_move, &moves, NULL), 0);
    assert_int_equal(ids_give_back(&ranges, unborn, of_old, NULL), 0);
    assert_int_equal(ids_hold(&ranges, unborn, of_old, NULL), 0); /* it is free */
    assert_int_equal(ids_hold(&ranges, unborn, of_new, NULL), -1);
    assert_int_equal(ids_hold(&ranges, named, of_new, NULL), 0);
}

static int must_not_move(void *ctx, struct error *err)
{
    fail_msg("moved all the same");
    return 0;
}

static void test_what_has_no_range_does_not_move(void **state)
{
    char long_path[600];
    struct error err = ERROR_INIT;
    memset(long_path, '/', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = '\0';
    assert_int_equal(ids_move(&ranges, ID_RANGE_FIRST, long_path, must_not_move, NULL, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(ids_move(&ranges, ID_RANGE_FIRST + 1, "/x", must_not_move, NULL, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
}

/* Where all computers have the same range there is no list. */
static void test_the_only_range_needs_no_list(void **state)
{
    const struct id_ranges only = {.first = 0, .size = 1, .count = 1};
    struct error err = ERROR_INIT;
    int moves = 0;
    assert_int_equal(ids_move(&only, 0, "/x", count_move, &moves, &err), 0);
    assert_int_equal(ids_move(&only, 0, "/x", count_move, &moves, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
}

static void *take_some(void *arg)
{
    uint32_t *bases = arg;
    for (uint32_t i = 0; i < 20; i++) {
        char name[40];
        snprintf(name, sizeof(name), "t/%lx-%u", (unsigned long)pthread_self(), i);
        bases[i] = take(name);
    }
    return NULL;
}

static void test_at_once(void **state)
{
    pthread_t threads[4];
    static uint32_t bases[4][20];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, take_some, bases[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 80; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(bases[i / 20][i % 20], bases[k / 20][k % 20]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_give_back),
        cmocka_unit_test(test_folder_gone),
        cmocka_unit_test(test_bad_base),
        cmocka_unit_test(test_a_range_goes_along),
        cmocka_unit_test(test_killed_while_a_range_moves),
        cmocka_unit_test(test_killed_before_a_move_and_put_aside),
        cmocka_unit_test(test_who_is_taken_up_holds_one_range),
        cmocka_unit_test(test_a_name_is_taken_over),
        cmocka_unit_test(test_what_has_no_range_does_not_move),
        cmocka_unit_test(test_the_only_range_needs_no_list),
        cmocka_unit_test(test_at_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
