/* Image references, by table: what docker(1) takes and refuses. */
#include "backends/engine/reference.h"

#include <string.h>

#include "base/macros.h"
#include "tests/unit/base/check.h"

#define HEX16 "0123456789abcdef"
#define HEX64 HEX16 HEX16 HEX16 HEX16
#define A10 "aaaaaaaaaa"
#define A50 A10 A10 A10 A10 A10
#define A250 A50 A50 A50 A50 A50

static const struct good_row {
    const char *text, *registry, *path, *tag, *digest;
    const char *name; /* as the engine is asked for it */
} good_rows[] = {
    {"debian", "docker.io", "library/debian", "latest", "", "debian"},
    {"debian:bookworm-slim", "docker.io", "library/debian", "bookworm-slim", "", "debian"},
    {"team/tool", "docker.io", "team/tool", "latest", "", "team/tool"},
    {"team/sub/tool:1", "docker.io", "team/sub/tool", "1", "", "team/sub/tool"},
    {"docker.io/debian", "docker.io", "library/debian", "latest", "", "docker.io/debian"},
    {"docker.io/library/debian:12", "docker.io", "library/debian", "12", "", "docker.io/library/debian"},
    {"docker.io/team/tool", "docker.io", "team/tool", "latest", "", "docker.io/team/tool"},
    {"index.docker.io/debian", "docker.io", "library/debian", "latest", "", "index.docker.io/debian"},
    {"library/debian", "docker.io", "library/debian", "latest", "", "library/debian"},
    {"localhost/x", "localhost", "x", "latest", "", "localhost/x"},
    {"localhost:5000/x", "localhost:5000", "x", "latest", "", "localhost:5000/x"},
    {"localhost:5000/x:1", "localhost:5000", "x", "1", "", "localhost:5000/x"},
    {"localhost:5000/team/x:1", "localhost:5000", "team/x", "1", "", "localhost:5000/team/x"},
    {"127.0.0.1:5055/team/deb:1", "127.0.0.1:5055", "team/deb", "1", "", "127.0.0.1:5055/team/deb"},
    {"ghcr.io/a/b", "ghcr.io", "a/b", "latest", "", "ghcr.io/a/b"},
    {"quay.io/a/b/c/d:v1.2.3", "quay.io", "a/b/c/d", "v1.2.3", "", "quay.io/a/b/c/d"},
    {"registry.example:443/x", "registry.example:443", "x", "latest", "", "registry.example:443/x"},
    {"host:1/x", "host:1", "x", "latest", "", "host:1/x"},
    {"UPPER.example/x", "UPPER.example", "x", "latest", "", "UPPER.example/x"},
    {"[::1]:5000/x:1", "[::1]:5000", "x", "1", "", "[::1]:5000/x"},
    {"[fe80::1]/x", "[fe80::1]", "x", "latest", "", "[fe80::1]/x"},
    {"xn--n3h.example/x", "xn--n3h.example", "x", "latest", "", "xn--n3h.example/x"},
    {"localhost", "docker.io", "library/localhost", "latest", "", "localhost"},
    {"localhost:5000", "docker.io", "library/localhost", "5000", "", "localhost"},
    {"debian@sha256:" HEX64, "docker.io", "library/debian", "", "sha256:" HEX64, "debian"},
    {"debian:12@sha256:" HEX64, "docker.io", "library/debian", "12", "sha256:" HEX64, "debian"},
    {"localhost:5000/x@sha256:" HEX64, "localhost:5000", "x", "", "sha256:" HEX64, "localhost:5000/x"},
    {"localhost:5000/x:t@sha256:" HEX64, "localhost:5000", "x", "t", "sha256:" HEX64, "localhost:5000/x"},
    {"a/b@sha512:" HEX64 HEX64, "docker.io", "a/b", "", "sha512:" HEX64 HEX64, "a/b"},
    {"a/b@sha384:" HEX64 HEX16 HEX16, "docker.io", "a/b", "", "sha384:" HEX64 HEX16 HEX16, "a/b"},
    {"sha256:" HEX64, "docker.io", "library/sha256", HEX64, "", "sha256"}, /* an id, to engines */
    {"a.b", "docker.io", "library/a.b", "latest", "", "a.b"},
    {"a_b", "docker.io", "library/a_b", "latest", "", "a_b"},
    {"a__b", "docker.io", "library/a__b", "latest", "", "a__b"},
    {"a-b", "docker.io", "library/a-b", "latest", "", "a-b"},
    {"a----b", "docker.io", "library/a----b", "latest", "", "a----b"},
    {"1/2", "docker.io", "1/2", "latest", "", "1/2"},
    {"a:_x", "docker.io", "library/a", "_x", "", "a"},
    {"a:V1.0-RC_1", "docker.io", "library/a", "V1.0-RC_1", "", "a"},
    {"a:" A50 A50 A10 A10 "12345678", "docker.io", "library/a", A50 A50 A10 A10 "12345678", "", "a"},
    {"a/" A250 "123", "docker.io", "a/" A250 "123", "latest", "", "a/" A250 "123"},
};

static const struct bad_row {
    const char *text;
    const char *word; /* of what is said about it */
} bad_rows[] = {
    {"", "empty"},
    {" ", "lower-case letters"},
    {"debian ", "lower-case letters"},
    {" debian", "lower-case letters"},
    {"debian\n", "lower-case letters"},
    {"Debian", "lower case"},
    {"Team/tool", "lower case"},
    {"team/Tool", "lower case"},
    {"localhost:5000/Team/x", "lower case"},
    {"ghcr.io/A/b:1", "lower case"},
    {":tag", "names no repository"},
    {"@sha256:" HEX64, "names no repository"},
    {"localhost:5000/", "names no repository"},
    {"debian:", "a tag has"},
    {"debian:.x", "a tag has"},
    {"debian:-x", "a tag has"},
    {"debian:a b", "a tag has"},
    {"debian:a+b", "a tag has"},
    {"debian:\xc3\xa9", "a tag has"},
    {"a:b:c", "a tag has"},
    {"a:" A50 A50 A10 A10 "123456789", "tag is too long"},
    {"debian@", "no digest"},
    {"debian@sha256", "no digest"},
    {"debian@sha256:", "no digest"},
    {"debian@sha256:" HEX16, "no digest"},
    {"debian@sha256:" HEX64 "0", "no digest"},
    {"debian@sha256:" HEX16 HEX16 HEX16 "0123456789ABCDEF", "no digest"},
    {"debian@sha256:" HEX16 HEX16 HEX16 "0123456789abcdeg", "no digest"},
    {"debian@md5:" HEX16 HEX16, "no digest"},
    {"debian@sha512:" HEX64, "no digest"},
    {"debian@sha256:" HEX64 "@sha256:" HEX64, "no digest"},
    {"debian@sha256:" HEX64 ":tag", "no digest"},
    {HEX64, "id"},
    {"a//b", "lower-case letters"},
    {"a/b/", "lower-case letters"},
    {"/a", "lower-case letters"},
    {"a..b", "lower-case letters"},
    {"a___b", "lower-case letters"},
    {"a._b", "lower-case letters"},
    {"-a", "lower-case letters"},
    {"a-", "lower-case letters"},
    {".a", "lower-case letters"},
    {"a$b", "lower-case letters"},
    {"../etc", "no registry"},
    {"a/../b", "lower-case letters"},
    {"d\xc3\xa9"
     "bian",
     "lower-case letters"},
    {"https://ghcr.io/a", "no registry"},
    {"host:/x", "no registry"},
    {"host:port/x", "no registry"},
    {"host:1:2/x", "no registry"},
    {":5000/x", "no registry"},
    {"-h.example/x", "no registry"},
    {"h-.example/x", "no registry"},
    {"h..example/x", "no registry"},
    {"h.example./x", "no registry"},
    {"h_h.example/x", "no registry"},
    {"[::1/x", "no registry"},
    {"[]:5000/x", "no registry"},
    {"[::g]:1/x", "no registry"},
    {"[::1]5000/x", "no registry"},
    {"[::1]:/x", "no registry"},
    {A250 "123456", "name is too long"},
    {A250 "." A10 "/x", "registry's name is too long"},
    {A250 "." A250 "/" A10 "12345", "at most 511"},
};

static void good_ones_are_taken_apart(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(good_rows); i++) {
        const struct good_row *row = &good_rows[i];
        struct reference r;
        struct error err = ERROR_INIT;
        if (reference_parse(row->text, &r, &err) < 0)
            fail_msg("%s: %s", row->text, err.msg);
        assert_string_equal(r.text, row->text);
        assert_string_equal(r.registry, row->registry);
        assert_string_equal(r.path, row->path);
        assert_string_equal(r.tag, row->tag);
        assert_string_equal(r.digest, row->digest);
        assert_int_equal(r.name_len, strlen(row->name));
        assert_memory_equal(r.text, row->name, r.name_len);
    }
}

static void bad_ones_are_refused_with_the_reason(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(bad_rows); i++) {
        struct reference r = {.tag = "untouched"};
        struct error err = ERROR_INIT;
        if (reference_parse(bad_rows[i].text, &r, &err) == 0)
            fail_msg("'%s' was taken", bad_rows[i].text);
        assert_int_equal(err.code, ERR_INVALID);
        if (!strstr(err.msg, bad_rows[i].word))
            fail_msg("'%s': '%s' is not in: %s", bad_rows[i].text, bad_rows[i].word, err.msg);
        assert_string_equal(r.tag, "untouched");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_ones_are_taken_apart),
        cmocka_unit_test(bad_ones_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
