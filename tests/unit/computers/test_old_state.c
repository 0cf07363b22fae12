/* A state directory as the first version left it (state-1, a copy that is never changed): its computers are
 * found with their files, and what can't be read is set aside. */
#include "domain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void copy(const char *to)
{
    const char *from = getenv("OLD_STATE");
    assert_non_null(from);
    _cleanup_(cleanup_free) char *command = xasprintf("cp -r '%s/.' '%s'", from, to);
    assert_int_equal(system(command), 0);
}

static void computers_are_there(void **state)
{
    struct domain d;
    struct computer_view view;
    domain_init(&d, NULL, NULL);
    copy(d.state_dir);
    assert_true(find_view(d.session, "keeper", &view));
    assert_int_equal(view.condition, CONDITION_STOPPED);
    assert_string_equal(view.created_at, "2026-11-20T12:23:51.034Z");
    assert_string_equal(view.last_used, "2026-11-21T08:00:00.000Z");
    assert_false(view.temporary);
    assert_true(view.expires_in_s < 0);
    assert_int_equal(computers_reap(d.computers), 0);
    must_have(&d, "keeper", LIFETIME_AS_IS);
    assert_true(has_file(&d, "keeper"));
    domain_done(&d, NULL);
}

static void what_cannot_be_read_is_set_aside(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    copy(d.state_dir);
    must_not_use(d.session, "broken", LIFETIME_AS_IS, ERR_GONE);
    _cleanup_(cleanup_free) char *command =
        xasprintf("test -f '%s'/computers/local/broken.bad-*/home/file", d.state_dir);
    assert_int_equal(system(command), 0);
    struct computer_use use = must_use(d.session, "broken", LIFETIME_AS_IS);
    assert_true(use.created);
    computers_release(&use);
    domain_done(&d, NULL);
}

/* What a computer without settings of its own has written is what the first version reads, too. */
static void records_without_settings_are_of_the_first_version(void **state)
{
    struct domain d;
    domain_init(&d, NULL, NULL);
    must_have(&d, "plain", LIFETIME_PERMANENT);
    _cleanup_(cleanup_free) char *command =
        xasprintf("grep -q '\"version\":1,' '%s/computers/local/plain/record.json'", d.state_dir);
    assert_int_equal(system(command), 0);
    domain_done(&d, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computers_are_there),
        cmocka_unit_test(what_cannot_be_read_is_set_aside),
        cmocka_unit_test(records_without_settings_are_of_the_first_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
