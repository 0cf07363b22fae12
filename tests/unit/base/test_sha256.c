/* SHA-256: the examples that NIST gives for FIPS 180-4, and the lengths around a block's end. */
#include "base/sha256.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/unit/base/check.h"

static void assert_digest(const void *bytes, size_t n, const char *expected)
{
    char hex[SHA256_HEX_SIZE];
    sha256_hex(bytes, n, hex);
    assert_string_equal(hex, expected);
}

static void the_standards_examples(void **state)
{
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
         "mnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_digest(cases[i].text, strlen(cases[i].text), cases[i].digest);
    assert_digest(NULL, 0, cases[0].digest);
}

static void a_million_letters(void **state)
{
    _cleanup_(cleanup_free) char *a = xmalloc(1000000);
    memset(a, 'a', 1000000);
    assert_digest(a, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* One byte less, and one more, than fits with the length into the last block, and whole blocks. */
static void lengths_around_a_block(void **state)
{
    static const struct {
        size_t n;
        const char *digest; /* of n times 'a' */
    } cases[] = {
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
    };
    char a[65];
    memset(a, 'a', sizeof(a));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_digest(a, cases[i].n, cases[i].digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_standards_examples),
        cmocka_unit_test(a_million_letters),
        cmocka_unit_test(lengths_around_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
