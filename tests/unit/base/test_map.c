/* The hash map, small, full, churned, and under iteration. */
#include "base/map.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tests/unit/base/check.h"

static int values[3000];

static const char *name(int i)
{
    static char text[32];
    snprintf(text, sizeof(text), "key-%d", i);
    return text;
}

static void entries_are_found_until_removed(void **state)
{
    struct map *m = map_new(3000);
    assert_null(map_get(m, "key-0"));
    assert_null(map_remove(m, "key-0"));
    for (int i = 0; i < 3000; i++)
        assert_int_equal(map_put(m, name(i), &values[i]), 0);
    assert_int_equal(map_count(m), 3000);
    for (int i = 0; i < 3000; i++)
        assert_ptr_equal(map_get(m, name(i)), &values[i]);
    for (int i = 0; i < 3000; i += 2)
        assert_ptr_equal(map_remove(m, name(i)), &values[i]);
    for (int i = 0; i < 3000; i++)
        assert_ptr_equal(map_get(m, name(i)), i % 2 ? &values[i] : NULL);
    for (int i = 1; i < 3000; i += 2)
        map_remove(m, name(i));
    assert_int_equal(map_count(m), 0);
    assert_null(map_free(m));
}

static void twice_and_too_many_are_refused(void **state)
{
    struct map *m = map_new(2);
    assert_int_equal(map_put(m, "a", &values[0]), 0);
    assert_int_equal(map_put(m, "a", &values[1]), -1);
    assert_ptr_equal(map_get(m, "a"), &values[0]);
    assert_int_equal(map_put(m, "", &values[1]), 0);
    assert_int_equal(map_put(m, "c", &values[2]), -1);
    assert_ptr_equal(map_remove(m, "a"), &values[0]);
    assert_int_equal(map_put(m, "c", &values[2]), 0);
    assert_ptr_equal(map_remove(m, ""), &values[1]);
    assert_ptr_equal(map_remove(m, "c"), &values[2]);
    map_free(m);
}

static void keys_are_copied(void **state)
{
    struct map *m = map_new(2);
    char key[] = "key";
    assert_int_equal(map_put(m, key, &values[0]), 0);
    key[0] = 'x';
    assert_ptr_equal(map_remove(m, "key"), &values[0]);
    map_free(m);
}

static void long_churn_keeps_it_working(void **state)
{
    struct map *m = map_new(4);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(map_put(m, name(i), &values[0]), 0);
        if (i >= 3)
            assert_non_null(map_remove(m, name(i - 3)));
    }
    assert_int_equal(map_count(m), 3);
    for (int i = 99997; i < 100000; i++)
        assert_non_null(map_remove(m, name(i)));
    map_free(m);
}

static void iteration_sees_each_once_and_allows_removal(void **state)
{
    struct map *m = map_new(1000);
    bool seen[1000] = {false};
    for (int i = 0; i < 1000; i++)
        assert_int_equal(map_put(m, name(i), &values[i]), 0);
    size_t cursor = 0, count = 0;
    const char *key;
    void *value;
    while (map_next(m, &cursor, &key, &value)) {
        int i = (int)((int *)value - values);
        assert_false(seen[i]);
        seen[i] = true;
        assert_string_equal(key, name(i));
        _cleanup_(cleanup_free) char *copy = xstrdup(key);
        assert_ptr_equal(map_remove(m, copy), value);
        count++;
    }
    assert_int_equal(count, 1000);
    assert_int_equal(map_count(m), 0);
    map_free(m);
    assert_null(map_free(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_found_until_removed),
        cmocka_unit_test(twice_and_too_many_are_refused),
        cmocka_unit_test(keys_are_copied),
        cmocka_unit_test(long_churn_keeps_it_working),
        cmocka_unit_test(iteration_sees_each_once_and_allows_removal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
