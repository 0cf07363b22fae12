/* Records and folders on disk: whole or not there, locked, never thrown away. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "computers/settings.h"
#include "computers/store.h"

static char dir[64];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/store-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    return tree_remove(AT_FDCWD, dir, NULL);
}

static struct record example(void)
{
    return (struct record){.id = "otter",
                           .principal = "local",
                           .key = "0123456789abcdef",
                           .backend = "fake",
                           .network = "none",
                           .temporary = true,
                           .created_at = "2026-11-29T12:23:51.034Z",
                           .last_used = "2026-11-29T12:23:51.034Z",
                           .owner = {.machine = "m", .boot = "b", .pid = 12, .start = 34}};
}

/* Without a folder made ahead. */
static int create(const struct record *record, struct folder *ret, struct error *err)
{
    struct folder none = FOLDER_NONE;
    return store_create(dir, record, &none, ret, err);
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    _cleanup_(cleanup_free) char *path = xasprintf("%s/%s", dir, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void round_trip(void **state)
{
    struct record record = example(), read = {0};
    struct folder folder = FOLDER_NONE;
    umask(0077);
    assert_int_equal(create(&record, &folder, NULL), 0);
    assert_int_equal(mode_of("local"), 0711); /* whatever the umask */
    assert_int_equal(mode_of("local/otter"), 0711);
    assert_int_equal(mode_of("local/otter/record.json"), 0600);
    record.ready = true;
    record.data = json_pack("{s:i}", "pid", 7);
    assert_int_equal(store_write(&folder, &record, NULL), 0);
    folder_close(&folder);

    assert_int_equal(store_open(dir, "local", "otter", &folder, NULL), 0);
    assert_int_equal(store_read(&folder, &read, NULL), 0);
    assert_string_equal(read.id, "otter");
    assert_string_equal(read.key, "0123456789abcdef");
    assert_string_equal(read.created_at, record.created_at);
    assert_true(read.temporary && read.ready);
    assert_true(owner_equal(&read.owner, &record.owner));
    assert_int_equal(json_integer_value(json_object_get(read.data, "pid")), 7);
    record_done(&record);
    record_done(&read);
    assert_int_equal(store_remove(&folder, NULL), 0);
    assert_int_equal(store_open(dir, "local", "otter", &folder, NULL), -1);
}

/* Options and terms, all of them. */
static void settings_round_trip(void **state)
{
    char one[] = "A=1", two[] = "B=zwei \xC3\xA4", *env[] = {one, two, NULL};
    const struct computer_options options = {.given = ~0u >> 25,
                                             .image = "debian:12",
                                             .cpus = 0.1,
                                             .memory_bytes = 1 << 30,
                                             .pids = 77,
                                             .disk_bytes = 1LL << 40,
                                             .network = true,
                                             .env = env};
    const struct computer_terms terms = {.ttl_s = 0.5,
                                         .idle_s = 1e6,
                                         .on_idle = ON_IDLE_DELETE,
                                         .description = "words"},
                                none = {0};
    struct record record = example(), read = {0};
    struct folder folder = FOLDER_NONE;
    struct error err = ERROR_INIT;
    record.options = options_copy(&options);
    record.terms = terms_copy(&terms, &none);
    record_touch(&record);
    strcpy(record.image, "debian:12");
    record.idle_pids = 3;
    assert_int_equal(create(&record, &folder, NULL), 0);
    assert_int_equal(store_read(&folder, &read, NULL), 0);
    assert_int_equal(read.options.given, options.given);
    assert_int_equal(options_check_same("otter", &read.options, &options, &err), 0);
    assert_int_equal(options_check_same("otter", &options, &read.options, &err), 0);
    assert_int_equal(terms_check_same("otter", &read.terms, &terms, &err), 0);
    assert_int_equal(read.terms.on_idle, ON_IDLE_DELETE);
    assert_string_equal(read.terms.description, "words");
    assert_string_equal(read.image, "debian:12");
    assert_int_equal(read.idle_pids, 3);
    assert_string_equal(read.boot, record.boot);
    assert_memory_equal(&read.made, &record.made, sizeof(read.made));
    record_done(&record);
    record_done(&read);
    store_remove(&folder, NULL);
}

static void one_owner(void **state)
{
    struct record record = example();
    struct folder first = FOLDER_NONE, second = FOLDER_NONE;
    struct error err = ERROR_INIT;
    assert_int_equal(create(&record, &first, NULL), 0);
    assert_int_equal(create(&record, &second, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_int_equal(store_open(dir, "local", "otter", &second, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    folder_close(&first);
    assert_int_equal(store_open(dir, "local", "otter", &second, &err), 0);
    store_remove(&second, NULL);
    assert_int_equal(store_open(dir, "local", "otter", &second, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void count_name(void *ctx, const char *principal, const char *name)
{
    (*(int *)ctx)++;
}

static int count_names(void)
{
    int count = 0;
    store_scan(dir, count_name, &count);
    return count;
}

static void nothing_half_made_is_left(void **state)
{
    struct record record = example();
    struct folder first = FOLDER_NONE, second = FOLDER_NONE;
    assert_int_equal(create(&record, &first, NULL), 0);
    assert_int_equal(create(&record, &second, NULL), -1);
    assert_int_equal(count_names(), 1);
    store_remove(&first, NULL);
    assert_int_equal(count_names(), 0);
}

/* The next descriptor that would be given out: the same again if none was lost. */
static int next_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fd_close(fd);
    return fd;
}

static void a_prepared_folder_is_used_with_what_is_in_it(void **state)
{
    struct record record = example(), read = {0};
    struct folder ahead = FOLDER_NONE, folder = FOLDER_NONE, other = FOLDER_NONE;
    struct error err = ERROR_INIT;
    int fd = next_fd();
    assert_int_equal(store_prepare(dir, "local", &ahead, NULL), 0);
    assert_true(
        store_is_debris(path_basename(ahead.path))); /* whoever finds it without its lock removes it */
    assert_int_equal(store_open(dir, "local", path_basename(ahead.path), &other, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    _cleanup_(cleanup_free) char *inside = path_join(ahead.path, "inside");
    assert_int_equal(mkdir(inside, 0700), 0);

    assert_int_equal(store_create(dir, &record, &ahead, &folder, NULL), 0);
    assert_null(ahead.path);
    assert_int_equal(mode_of("local/otter"), 0711);
    assert_int_equal(mode_of("local/otter/inside"), 0700);
    assert_int_equal(store_read(&folder, &read, NULL), 0);
    assert_string_equal(read.id, "otter");
    record_done(&read);
    assert_int_equal(store_open(dir, "local", "otter", &other, &err), -1);
    assert_int_equal(err.code, ERR_BUSY);
    assert_int_equal(count_names(), 1);
    assert_int_equal(store_remove(&folder, NULL), 0);
    assert_int_equal(count_names(), 0);
    assert_int_equal(next_fd(), fd);
}

static void a_prepared_folder_that_was_removed_is_replaced(void **state)
{
    struct record record = example();
    struct folder ahead = FOLDER_NONE, folder = FOLDER_NONE;
    int fd = next_fd();
    for (int i = 0; i < 2; i++) { /* the folder; that of its principal too */
        _cleanup_(cleanup_free) char *principal = path_join(dir, "local");
        assert_int_equal(store_prepare(dir, "local", &ahead, NULL), 0);
        assert_int_equal(tree_remove(AT_FDCWD, i ? principal : ahead.path, NULL), 0);
        assert_int_equal(store_create(dir, &record, &ahead, &folder, NULL), 0);
        assert_null(ahead.path);
        assert_int_equal(mode_of("local/otter/record.json"), 0600);
        assert_int_equal(count_names(), 1);
        assert_int_equal(store_remove(&folder, NULL), 0);
        assert_int_equal(next_fd(), fd);
    }
}

static void a_prepared_folder_for_an_id_that_is_taken_goes(void **state)
{
    struct record record = example();
    struct folder ahead = FOLDER_NONE, first = FOLDER_NONE, second = FOLDER_NONE;
    struct error err = ERROR_INIT;
    assert_int_equal(create(&record, &first, NULL), 0);
    int fd = next_fd();
    assert_int_equal(store_prepare(dir, "local", &ahead, NULL), 0);
    assert_int_equal(store_create(dir, &record, &ahead, &second, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_null(ahead.path);
    assert_null(second.path);
    assert_int_equal(count_names(), 1);
    assert_int_equal(next_fd(), fd);
    store_remove(&first, NULL);
}

static void put_record(const char *text)
{
    _cleanup_(cleanup_free) char *folder = xasprintf("%s/local/otter", dir);
    _cleanup_(cleanup_free) char *path = xasprintf("%s/record.json", folder);
    assert_int_equal(dir_make(folder, 0711, NULL), 0);
    if (text)
        assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), false, NULL), 0);
}

/* Whole but for its key, which would be used as a name of folders. */
static const char HOSTILE_KEY[] =
    "{\"version\":1,\"id\":\"otter\",\"principal\":\"local\",\"key\":\"../../../../etc1\","
    "\"backend\":\"fake\",\"network\":\"none\",\"temporary\":true,\"state\":\"ready\",\"created_at\":\"\","
    "\"last_used\":\"\",\"owner\":{\"machine\":\"\",\"boot\":\"\",\"pid\":1,\"start\":1}}";

static void unreadable_records(void **state)
{
    static const char *const ROWS[] = {
        NULL, "", "{", "[]", "{}", "{\"version\":1}", HOSTILE_KEY,
    };
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        struct folder folder = FOLDER_NONE;
        struct record record = {0};
        struct error err = ERROR_INIT;
        put_record(ROWS[i]);
        assert_int_equal(store_open(dir, "local", "otter", &folder, NULL), 0);
        assert_int_equal(store_read(&folder, &record, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
        store_remove(&folder, NULL);
    }
}

static void newer_records_are_not_touched(void **state)
{
    struct folder folder = FOLDER_NONE;
    struct record record = {0};
    struct error err = ERROR_INIT;
    put_record("{\"version\":3,\"anything\":true}");
    assert_int_equal(store_open(dir, "local", "otter", &folder, NULL), 0);
    assert_int_equal(store_read(&folder, &record, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    store_remove(&folder, NULL);
}

static void setting_aside_keeps_everything(void **state)
{
    struct folder folder = FOLDER_NONE;
    char *aside = NULL;
    put_record("broken");
    assert_int_equal(store_open(dir, "local", "otter", &folder, NULL), 0);
    assert_int_equal(store_set_aside(&folder, &aside, NULL), 0);
    assert_int_equal(store_open(dir, "local", "otter", &folder, NULL), -1);
    _cleanup_(buf_done) struct buf text = BUF_INIT(100);
    _cleanup_(cleanup_free) char *path = xasprintf("%s/record.json", aside);
    assert_int_equal(file_read(AT_FDCWD, path, &text, NULL), 0);
    assert_string_equal(buf_str(&text), "broken");
    free(aside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(settings_round_trip),
        cmocka_unit_test(one_owner),
        cmocka_unit_test(nothing_half_made_is_left),
        cmocka_unit_test(a_prepared_folder_is_used_with_what_is_in_it),
        cmocka_unit_test(a_prepared_folder_that_was_removed_is_replaced),
        cmocka_unit_test(a_prepared_folder_for_an_id_that_is_taken_goes),
        cmocka_unit_test(unreadable_records),
        cmocka_unit_test(newer_records_are_not_touched),
        cmocka_unit_test(setting_aside_keeps_everything),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
