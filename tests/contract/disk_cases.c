/* A cap on the disk, where there is one that is enforced: met, told, nobody else's affair, and lasting. */
#include "contract/contract.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define FILL "head -c 100G /dev/zero > big; status=$?; stat -c %s big; exit $status"

/* The record's limits.disk.MEMBER. */
static int64_t cap(struct contract_computer *c, const char *member)
{
    _cleanup_(cleanup_json_decref) json_t *record = c->instance->ops->record(c->instance);
    const json_t *disk = json_object_get(json_object_get(record, "limits"), "disk");
    assert_true(json_is_true(json_object_get(disk, "enforced")));
    int64_t value = json_integer_value(json_object_get(disk, member));
    assert_true(value > 0);
    return value;
}

static void assert_disk(struct contract_computer *c, const char *command, int exit_code, bool full)
{
    struct exec_request request = shell_request(command);
    struct exec_result result = must_run(c, &request);
    assert_int_equal(result.exit_code, exit_code);
    assert_int_equal(result.disk_full, full);
    assert_true(!full || strstr(result.note, "disk is full"));
    exec_result_done(&result);
}

static void a_full_disk_is_told(struct contract *t)
{
    struct contract_computer c, other;
    computer_make(t, &c, true);
    computer_make(t, &other, true);
    struct exec_request fill = shell_request(FILL);
    struct exec_result result = must_run(&c, &fill);
    assert_int_equal(result.exit_code, 1);
    assert_non_null(strstr(buf_str(&result.err.head), "No space left on device"));
    assert_true(result.disk_full);
    assert_non_null(strstr(result.note, "disk is full"));
    int64_t written = atoll(buf_str(&result.out.head));
    assert_in_range(written, cap(&c, "bytes") / 2, cap(&c, "bytes"));
    exec_result_done(&result);

    assert_disk(&other, "head -c 1000000 /dev/zero > file", 0, false);
    assert_disk(&c, "true", 0, true); /* told as long as it is so */
    assert_disk(&c, "rm big", 0, false);
    assert_disk(&c, "head -c 1000000 /dev/zero > file", 0, false);
    computer_remove(&c);
    computer_remove(&other);
}

/* Programs clean up when they fail, and then it would seem that there was room. */
static void a_disk_that_was_full_is_told(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    struct exec_request request =
        shell_request("head -c 100G /dev/zero > big || echo failed; sleep 0.5; rm big; exit 4");
    struct exec_result result = must_run(&c, &request);
    assert_int_equal(result.exit_code, 4);
    assert_true(result.disk_full);
    assert_non_null(strstr(result.note, "was full while"));
    exec_result_done(&result);
    computer_remove(&c);
}

static void files_run_out(struct contract *t)
{
    struct contract_computer c;
    computer_make(t, &c, true);
    _cleanup_(cleanup_free) char *touch =
        xasprintf("mkdir d && cd d && seq %lld | xargs touch 2>&1 | tail", (long long)cap(&c, "files") + 1);
    assert_disk(&c, touch, 0, true);
    _cleanup_(cleanup_free) char *count = must_shell(&c, "ls d | wc -l");
    assert_in_range(atoll(count), cap(&c, "files") / 2, cap(&c, "files"));
    assert_disk(&c, "rm -r d", 0, false);
    computer_remove(&c);
}

static void a_cap_lasts(struct contract *t)
{
    struct contract_computer c;
    struct error err = ERROR_INIT;
    const struct wait wait = {.deadline = clock_deadline_after(30)};
    computer_make(t, &c, false);
    const int64_t bytes = cap(&c, "bytes"), files = cap(&c, "files");
    free(must_shell(&c, "echo kept > file"));
    assert_disk(&c, FILL, 1, true);
    _cleanup_(cleanup_json_decref) json_t *data = c.instance->ops->record(c.instance);
    assert_int_equal(c.instance->ops->detach(TAKE_PTR(c.instance), &err), 0);
    assert_int_equal(t->backend->ops->attach(t->backend, &c.spec, data, &wait, &c.instance, &err), 0);
    assert_int_equal(cap(&c, "bytes"), bytes);
    assert_int_equal(cap(&c, "files"), files);
    assert_disk(&c, "test $(cat file) = kept && ! echo more > new", 0, true);
    computer_remove(&c);
}

const struct contract_case DISK_CASES[] = {
    {"a full disk is told", a_full_disk_is_told, BACKEND_DISK_LIMIT},
    {"a disk that was full for a while is told", a_disk_that_was_full_is_told, BACKEND_DISK_LIMIT},
    {"files run out", files_run_out, BACKEND_DISK_LIMIT},
    {"a cap lasts", a_cap_lasts, BACKEND_DISK_LIMIT | BACKEND_PERSISTENT},
    {NULL, NULL, 0},
};
