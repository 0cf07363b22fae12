/* Random bytes: all bits move, bounds hold. */
#include "base/random.h"

#include <stdbool.h>
#include <string.h>

#include "tests/unit/base/check.h"

static void every_bit_is_seen_both_ways(void **state)
{
    unsigned char ones[16] = {0}, zeros[16] = {0};
    for (int i = 0; i < 128; i++) {
        unsigned char bytes[16];
        random_bytes(bytes, sizeof(bytes));
        for (size_t j = 0; j < sizeof(bytes); j++) {
            ones[j] |= bytes[j];
            zeros[j] |= (unsigned char)~bytes[j];
        }
    }
    for (size_t j = 0; j < 16; j++)
        assert_int_equal(ones[j] & zeros[j], 0xFF);
}

static void below_stays_below_and_reaches_all(void **state)
{
    bool seen[7] = {false};
    for (int i = 0; i < 2000; i++) {
        uint32_t v = random_below(7);
        assert_true(v < 7);
        seen[v] = true;
    }
    for (int i = 0; i < 7; i++)
        assert_true(seen[i]);
    assert_int_equal(random_below(1), 0);
}

static void hex_has_its_length_and_differs(void **state)
{
    char a[RANDOM_HEX_SIZE(16)], b[RANDOM_HEX_SIZE(16)], one[RANDOM_HEX_SIZE(1)];
    random_hex(a, 16);
    random_hex(b, 16);
    random_hex(one, 1);
    assert_int_equal(strlen(a), 32);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_not_equal(a, b);
    assert_int_equal(strspn(one, "0123456789abcdef"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_is_seen_both_ways),
        cmocka_unit_test(below_stays_below_and_reaches_all),
        cmocka_unit_test(hex_has_its_length_and_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
