/* The cap on a computer's disk: enforced by an image of its own (variant "disk"), or watched ("watched"). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native_world.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"

#define CAP (int64_t)(64 * MIB)

static void assert_record(const struct subject *s, const char *how, int64_t bytes)
{
    _cleanup_(cleanup_json_decref) json_t *record = world.backend->ops->record(s->i);
    const json_t *disk = json_object_get(json_object_get(record, "limits"), "disk");
    assert_string_equal(json_get_string(disk, "how"), how);
    assert_int_equal(json_integer_value(json_object_get(disk, "bytes")), bytes);
}

/* Loop devices on files of the computer. */
static int devices(const struct subject *s)
{
    _cleanup_(cleanup_free) char *command =
        xasprintf("cat /sys/block/loop*/loop/backing_file 2>/dev/null | grep -c '^%s/'", s->folder);
    char count[16] = "";
    FILE *found = popen(command, "r");
    assert_non_null(found);
    assert_non_null(fgets(count, sizeof(count), found));
    pclose(found);
    return atoi(count);
}

static void detach(struct subject *s, json_t **ret_record)
{
    struct error err = ERROR_INIT;
    *ret_record = world.backend->ops->record(s->i);
    assert_int_equal(world.backend->ops->detach(TAKE_PTR(s->i), &err), 0);
}

static void attach(struct subject *s, struct backend *b, json_t *record)
{
    struct error err = ERROR_INIT;
    if (b->ops->attach(b, &s->spec, record, &for_ever, &s->i, &err) < 0)
        fail_msg("attach: %s", err.msg);
}

static struct backend *backend_with(int64_t disk_bytes, bool no_images)
{
    struct native_machine machine = world.machine;
    machine.no_images = no_images;
    return native_new_on(&(struct native_options){.state_dir = world.state, .disk_bytes = disk_bytes},
                         &machine);
}

/* --- enforced --- */

static void test_device_goes_with_the_computer(void **state)
{
    struct subject s;
    subject_create(&s, "device");
    assert_record(&s, "image", CAP);
    assert_int_equal(devices(&s), 1);
    world.backend->ops->kill(s.i);
    subject_remove(&s);
    assert_int_equal(devices(&s), 0);
}

/* The layers are in the image, so nothing of it shows in the computer, and the host has back what is deleted.
 */
static void test_inside(void **state)
{
    struct subject s;
    subject_create(&s, "inside");
    assert_output(&s, "ls -d /lost+found /upper 2>/dev/null; df --output=fstype / | tail -1", "overlay\n");
    assert_output(&s, "head -c 20000000 /dev/urandom > /f; sync; rm /f; sync; echo ok", "ok\n");
    _cleanup_(cleanup_free) char *size =
        xasprintf("sync; test $(du -k %s/native/disk | cut -f1) -lt 8000", s.folder);
    assert_int_equal(system(size), 0);
    subject_remove(&s);
}

/* What it was made with, it keeps: also with a server that has no cap, or another. */
static void test_cap_of_birth_lasts(void **state)
{
    struct subject s;
    json_t *record;
    subject_create(&s, "birth");
    s.spec.temporary = false;
    assert_output(&s, "echo kept > /file", "");
    detach(&s, &record);
    assert_int_equal(devices(&s), 0);
    const int64_t caps[] = {0, 2 * CAP};
    for (size_t n = 0; n < ARRAY_LEN(caps); n++) {
        struct backend *other = backend_with(caps[n], false);
        attach(&s, other, record);
        json_decref(record);
        assert_record(&s, "image", CAP);
        assert_output(&s, "cat /file", "kept\n");
        detach(&s, &record);
        other->ops->free(other);
    }
    attach(&s, world.backend, record);
    json_decref(record);
    subject_remove(&s);
}

/* Two mounts of one image would destroy it: the second waits for the first. */
static void test_image_is_mounted_once(void **state)
{
    struct subject s;
    struct disk second;
    struct error err = ERROR_INIT;
    const struct wait now = {.deadline = 1};
    subject_create(&s, "once");
    _cleanup_(cleanup_free) char *path = xasprintf("%s/native", s.folder);
    _cleanup_fd_ int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(disk_open_image(fd, &now, &second, &err), -1);
    assert_int_equal(err.code, ERR_TIMEOUT);
    subject_remove(&s);
}

static void test_made_ahead(void **state)
{
    struct subject s;
    struct error err = ERROR_INIT;
    subject_name(&s, "ahead");
    assert_int_equal(world.backend->ops->prepare(world.backend, &s.spec, &s.i, &err), 0);
    assert_null(s.i); /* an image isn't mounted for nobody */
    assert_int_equal(world.backend->ops->create(world.backend, &s.spec, &for_ever, &s.i, &err), 0);
    assert_record(&s, "image", CAP);
    subject_remove(&s);
}

/* --- watched --- */

static void assert_ended(struct subject *s, const char *command, int signal, const char *note)
{
    struct exec_result r;
    run_command(s, command, &r);
    assert_int_equal(r.signal, signal);
    assert_true(r.disk_full);
    assert_non_null(strstr(r.note, note));
    exec_result_done(&r);
}

static void assert_fine(struct subject *s, const char *command)
{
    struct exec_result r;
    run_command(s, command, &r);
    assert_int_equal(r.exit_code, 0);
    assert_false(r.disk_full);
    exec_result_done(&r);
}

static void test_file_beyond_the_cap(void **state)
{
    struct subject s;
    subject_create(&s, "onefile");
    assert_record(&s, "watched", CAP);
    assert_ended(&s, "exec head -c 1G /dev/zero > /f", SIGXFSZ, "disk is full");
    assert_fine(&s, "rm /f");
    subject_remove(&s);
}

static void test_files_beyond_the_cap(void **state)
{
    struct subject s;
    struct exec_result r;
    subject_create(&s, "files");
    assert_ended(&s, "for i in 1 2 3 4 5 6 7 8; do head -c 20000000 /dev/zero > /f$i; done; exec sleep 300",
                 SIGKILL, "was ended, since the computer's disk is full");
    /* Who doesn't add to it may go on: else nobody could clean up. */
    run_command(&s, "sleep 1.2; rm /f?", &r);
    assert_int_equal(r.exit_code, 0);
    exec_result_done(&r);
    assert_fine(&s, "sleep 0.6");
    subject_remove(&s);
}

static void test_too_many_files(void **state)
{
    struct subject s;
    subject_create(&s, "many");
    assert_ended(&s, "cd /tmp && seq 20000 | xargs touch; exec sleep 300", SIGKILL, "was ended");
    subject_remove(&s);
}

/* A computer that was made without a cap has no image to go into. */
static void test_uncapped_becomes_watched(void **state)
{
    struct subject s;
    json_t *record;
    struct error err = ERROR_INIT;
    struct backend *uncapped = backend_with(0, false), *capped = backend_with(CAP, false);
    subject_name(&s, "uncapped");
    s.spec.temporary = false;
    assert_int_equal(uncapped->ops->create(uncapped, &s.spec, &for_ever, &s.i, &err), 0);
    assert_record(&s, "none", 0);
    detach(&s, &record);
    attach(&s, capped, record);
    json_decref(record);
    assert_record(&s, "watched", CAP);
    assert_ended(&s, "exec head -c 1G /dev/zero > /f", SIGXFSZ, "disk is full");
    subject_remove(&s);
    uncapped->ops->free(uncapped);
    capped->ops->free(capped);
}

const struct CMUnitTest native_image_cases[] = {
    cmocka_unit_test(test_device_goes_with_the_computer),
    cmocka_unit_test(test_inside),
    cmocka_unit_test(test_cap_of_birth_lasts),
    cmocka_unit_test(test_image_is_mounted_once),
    cmocka_unit_test(test_made_ahead),
};
const size_t native_image_case_count = ARRAY_LEN(native_image_cases);

const struct CMUnitTest native_watched_cases[] = {
    cmocka_unit_test(test_file_beyond_the_cap),
    cmocka_unit_test(test_files_beyond_the_cap),
    cmocka_unit_test(test_too_many_files),
    cmocka_unit_test(test_uncapped_becomes_watched),
};
const size_t native_watched_case_count = ARRAY_LEN(native_watched_cases);
