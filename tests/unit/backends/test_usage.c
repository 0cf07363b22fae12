/* Counting what lies in a tree, and what of it is too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "backends/native/usage.h"
#include "backends/native/watch.h"
#include "base/clock.h"
#include "base/limits.h"
#include "temporary.h"

#define MANY INT64_C(1000000)

static struct usage measure(int64_t max_files)
{
    struct usage u;
    struct error err = ERROR_INIT;
    if (usage_measure(AT_FDCWD, temporary, max_files, &u, &err) < 0)
        fail_msg("measure: %s", err.msg);
    return u;
}

static void fill(const char *name, size_t bytes)
{
    _cleanup_(cleanup_free) char *text = xmalloc(bytes + 1);
    memset(text, 'x', bytes);
    text[bytes] = '\0';
    temporary_file(name, text);
}

static void test_bytes_and_files(void **state)
{
    fill("a", 100000);
    fill("d/e/b", 200000);
    const struct usage u = measure(MANY);
    assert_int_equal(u.files, 4); /* with the folders d and e */
    assert_in_range(u.bytes, 300000, 300000 + 64 * KIB);
}

/* A file counts by what it takes: holes take nothing, and names of the same file share it. */
static void test_holes_and_names(void **state)
{
    _cleanup_(cleanup_free) char *hole = temporary_path("hole");
    fill("hole", 1);
    assert_int_equal(truncate(hole, 1 << 30), 0);
    fill("one", 400000);
    _cleanup_(cleanup_free) char *one = temporary_path("one"), *other = temporary_path("other");
    assert_int_equal(link(one, other), 0);
    assert_in_range(measure(MANY).bytes, 400000, 500000);
}

/* Links lead nowhere, fifos hold nobody up. */
static void test_strange_files(void **state)
{
    _cleanup_(cleanup_free) char *up = temporary_path("up"), *fifo = temporary_path("fifo");
    assert_int_equal(symlink("/usr", up), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(measure(MANY).files, 2);
}

static void test_bounds(void **state)
{
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%d", i);
        fill(name, 1);
    }
    assert_int_equal(measure(7).files, 7);
    char name[512] = "d";
    for (int i = 0; i < 150; i++)
        strcat(name, "/d");
    temporary_folder(name);
    assert_int_equal(measure(MANY).bytes, USAGE_UNKNOWN);
}

static void test_absent(void **state)
{
    struct usage u;
    assert_int_equal(usage_measure(AT_FDCWD, "/nonexistent/folder", MANY, &u, NULL), 0);
    assert_int_equal(u.files, 0);
}

/* As if its time to look had come. */
static bool look(struct watcher *r, struct watch *w)
{
    w->next = r->next = clock_now();
    return watcher_look(r);
}

static void test_watch(void **state)
{
    struct watch w = {0};
    struct watcher r;
    const struct usage limit = {.bytes = 1000000, .files = 10};
    fill("native/small", 100000);
    watcher_begin(&r, &w, temporary, &limit);
    assert_false(look(&r, &w));
    fill("native/large", 2000000);
    assert_true(look(&r, &w));
    assert_false(look(&r, &w)); /* it is too much, but no more than before */

    struct watcher next; /* nor is it the fault of whoever comes after */
    watcher_begin(&next, &w, temporary, &limit);
    assert_false(look(&next, &w));
    fill("native/more", 100000);
    assert_true(look(&next, &w));
    _cleanup_(cleanup_free) char *large = temporary_path("native/large");
    assert_int_equal(unlink(large), 0);
    assert_false(look(&next, &w));
    for (int i = 0; i < 12; i++) {
        char name[32];
        snprintf(name, sizeof(name), "native/f%d", i);
        fill(name, 1);
    }
    assert_true(look(&next, &w));
}

/* What is there from an earlier life is no command's fault, before the first look too. */
static void test_watch_of_a_full_one(void **state)
{
    struct watch w = {0};
    struct watcher r;
    const struct usage limit = {.bytes = 1000000, .files = 10};
    fill("native/large", 2000000);
    watcher_begin(&r, &w, temporary, &limit);
    assert_false(look(&r, &w));
}

static void test_nothing_to_watch(void **state)
{
    struct watcher none = {0};
    assert_false(watcher_look(&none));
    assert_int_equal(watcher_next(&none, 77), 77);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, temporary_make, temporary_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_bytes_and_files),
        CASE(test_holes_and_names),
        CASE(test_strange_files),
        CASE(test_bounds),
        CASE(test_watch),
        CASE(test_watch_of_a_full_one),
        cmocka_unit_test(test_absent),
        cmocka_unit_test(test_nothing_to_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
