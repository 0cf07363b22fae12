/* One id that servers with different state directories make at the same instant, where the backend lets them:
 * whoever was first has it. */
#include "domain.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { OURS = 1 << 0, ELDER = 1 << 1, YOUNGER = 1 << 2, FAILS = 1 << 3 };
#define LOOKS_MAX 8

/* What the backend has under the id at each look, the first of which is before anything is made. */
struct world {
    unsigned at[LOOKS_MAX];
    int looks;
    char key[17]; /* of our last creation */
};

static int note_key(void *ctx, const struct computer_spec *spec, const struct wait *wait, struct error *err)
{
    struct world *w = ctx;
    snprintf(w->key, sizeof(w->key), "%s", spec->key);
    return 0;
}

static void tell(backend_found_fn *fn, void *fn_ctx, const char *key, const char *created_at)
{
    struct backend_found found = {
        .id = xstrdup("otter"), .principal = xstrdup("local"), .owner = {.machine = "another"}};
    snprintf(found.key, sizeof(found.key), "%s", key);
    snprintf(found.created_at, sizeof(found.created_at), "%s", created_at);
    fn(fn_ctx, &found);
    backend_found_done(&found);
}

static int find(void *ctx, const struct computer_spec *spec, backend_found_fn *fn, void *fn_ctx,
                struct error *err)
{
    struct world *w = ctx;
    assert_string_equal(spec->id, "otter");
    assert_in_range(w->looks, 0, LOOKS_MAX - 1);
    const unsigned at = w->at[w->looks++];
    if (at & YOUNGER)
        tell(fn, fn_ctx, "2222222222222222", "2026-11-30T00:00:02.000Z");
    if (at & OURS)
        tell(fn, fn_ctx, w->key, "2026-11-30T00:00:01.000Z");
    if (at & ELDER)
        tell(fn, fn_ctx, "0000000000000000", "2026-11-30T00:00:00.000Z");
    return at & FAILS ? error_set(err, ERR_UNAVAILABLE, "nobody answers") : 0;
}

static void whoever_was_first_has_it(void **state)
{
    static const struct {
        const char *what;
        struct world world;
        bool takes_id;
        enum lifetime lifetime;
        enum error_code code; /* ERR_NONE: we have it */
        int looks, created, removed;
    } cases[] = {
        {"nobody else wants it", {{0, OURS}}, false, LIFETIME_PERMANENT, ERR_NONE, 2, 1, 0},
        {"ours is the first, and the other goes",
         {{0, OURS | YOUNGER, OURS | YOUNGER, OURS}},
         false,
         LIFETIME_PERMANENT,
         ERR_NONE,
         4,
         1,
         0},
        {"another's is the first", {{0, OURS | ELDER, ELDER}}, false, LIFETIME_PERMANENT, ERR_BUSY, 3, 1, 1},
        {"one is before, one after ours",
         {{0, YOUNGER | OURS | ELDER, ELDER}},
         false,
         LIFETIME_PERMANENT,
         ERR_BUSY,
         3,
         1,
         1},
        {"ours isn't told of yet", {{0, YOUNGER, YOUNGER}}, false, LIFETIME_PERMANENT, ERR_BUSY, 3, 1, 1},
        {"another's is the first, and goes",
         {{0, OURS | ELDER, 0, OURS}},
         false,
         LIFETIME_PERMANENT,
         ERR_NONE,
         4,
         2,
         1},
        {"it can't be known", {{0, FAILS}}, false, LIFETIME_PERMANENT, ERR_UNAVAILABLE, 2, 1, 1},
        {"it was there before", {{ELDER}}, false, LIFETIME_PERMANENT, ERR_BUSY, 1, 0, 0},
        {"a temporary one", {{0}}, false, LIFETIME_TEMPORARY, ERR_NONE, 1, 1, 0},
        {"the backend sees to it", {{0}}, true, LIFETIME_PERMANENT, ERR_NONE, 1, 1, 0},
    };
    for (size_t n = 0; n < ARRAY_LEN(cases); n++) {
        struct domain d;
        struct world w = cases[n].world;
        struct error err = ERROR_INIT;
        struct computer_use use = {0};
        const struct wait wait = long_wait();
        const struct computer_wish wish = {.id = "otter", .lifetime = cases[n].lifetime};
        domain_init(
            &d,
            &(struct fake_hooks){.create = note_key, .find = find, .ctx = &w, .takes_id = cases[n].takes_id},
            NULL);
        const int r = computers_use(d.session, &wish, &wait, &use, &err);
        const struct fake_counts counts = fake_backend_counts(d.backend);
        if (err.code != cases[n].code || w.looks != cases[n].looks || counts.created != cases[n].created ||
            counts.removed != cases[n].removed)
            fail_msg("%s: %s (%s), %d looks, %d created, %d removed", cases[n].what,
                     error_code_name(err.code), err.msg, w.looks, counts.created, counts.removed);
        assert_int_equal(folder_exists(&d, "otter"), r == 0);
        if (r == 0)
            computers_release(&use);
        domain_done(&d, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_was_first_has_it),
    };
    return cmocka_run_group_tests_name("rivals", tests, NULL, NULL);
}
