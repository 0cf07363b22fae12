/* A computer's folder on disk. Owners are changed, so this needs root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "backends/native/folder.h"
#include "base/clock.h"
#include "temporary.h"
#include "tests/skip.h"

#define SKIPPED 77
#define ID 0x20010000U

static const struct disks no_cap = DISKS_NONE;

static void assert_owned(const char *name, mode_t mode)
{
    struct stat st;
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode, mode);
    assert_int_equal(st.st_uid, ID);
    assert_int_equal(st.st_gid, ID);
}

static bool exists(const char *name)
{
    struct stat st;
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    return lstat(path, &st) == 0;
}

static void test_overlay(void **state)
{
    struct error err = ERROR_INIT;
    assert_int_equal(folder_check(temporary, false, &err), -1);
    assert_int_equal(err.code, ERR_GONE);
    mode_t before = umask(077); /* the server's is not the computer's */
    int failed = folder_make(temporary, ID, NULL, &err);
    umask(before);
    assert_int_equal(failed, 0);
    assert_owned("native", S_IFDIR | 0700);
    assert_owned("native/upper", S_IFDIR | 0755);
    assert_owned("native/work", S_IFDIR | 0755);
    assert_int_equal(folder_check(temporary, false, &err), 0);
    assert_int_equal(folder_remove(temporary, &err), 0);
    assert_int_equal(rmdir(temporary), 0); /* nothing is left in it */
    assert_int_equal(folder_remove(temporary, &err), 0);
}

static void test_plain_copy(void **state)
{
    struct error err = ERROR_INIT;
    temporary_file("from/etc/hosts", "127.0.0.1 localhost\n");
    temporary_folder("from/tmp");
    _cleanup_(cleanup_free) char *from = temporary_path("from");
    _cleanup_(cleanup_free) char *tmp = temporary_path("from/tmp");
    _cleanup_(cleanup_free) char *link = temporary_path("from/bin");
    assert_int_equal(chmod(tmp, 01777), 0);
    assert_int_equal(symlink("usr/bin", link), 0);
    assert_int_equal(folder_make(temporary, ID, from, &err), 0);
    assert_owned("native/root", S_IFDIR | 0755);
    assert_owned("native/root/etc/hosts", S_IFREG | 0644);
    assert_owned("native/root/tmp", S_IFDIR | 01777);
    assert_owned("native/root/bin", S_IFLNK | 0777);
    assert_int_equal(folder_check(temporary, true, &err), 0);
    assert_int_equal(folder_check(temporary, false, &err), -1);
    assert_int_equal(folder_remove(temporary, &err), 0);
}

/* Also when an earlier removal was interrupted, and when it happens again. */
static void test_trash(void **state)
{
    struct error err = ERROR_INIT;
    temporary_file("native-trash/upper/file", "x");
    temporary_file("native/upper/file", "x");
    temporary_file("record.json", "{}");
    assert_int_equal(folder_remove(temporary, &err), 0);
    assert_false(exists("native"));
    assert_false(exists("native-trash"));
    assert_true(exists("record.json")); /* not ours */
}

static void test_made_empty(void **state)
{
    struct error err = ERROR_INIT;
    temporary_file("native/upper/old", "x");
    assert_int_equal(folder_make(temporary, ID, NULL, &err), 0);
    assert_false(exists("native/upper/old"));
}

static ino_t inode_of(const char *name)
{
    struct stat st;
    _cleanup_(cleanup_free) char *path = temporary_path(name);
    assert_int_equal(lstat(path, &st), 0);
    return st.st_ino;
}

static void test_prepared(void **state)
{
    struct error err = ERROR_INIT;
    mode_t before = umask(077);
    int failed = folder_prepare(temporary, &no_cap, &err);
    ino_t ahead = inode_of("native-ahead");
    if (failed == 0)
        failed = folder_make(temporary, ID, NULL, &err);
    umask(before);
    assert_int_equal(failed, 0);
    assert_int_equal(inode_of("native"), ahead);
    assert_owned("native", S_IFDIR | 0700);
    assert_owned("native/upper", S_IFDIR | 0755);
    assert_owned("native/work", S_IFDIR | 0755);
    assert_int_equal(folder_check(temporary, false, &err), 0);
    assert_int_equal(folder_remove(temporary, &err), 0);
    assert_int_equal(rmdir(temporary), 0); /* nothing is left in it */
}

/* Until it is made a computer's own it is nobody's but root's. */
static void test_prepared_is_closed(void **state)
{
    struct stat st;
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_free) char *path = temporary_path("native-ahead");
    assert_int_equal(folder_prepare(temporary, &no_cap, &err), 0);
    assert_int_equal(lstat(path, &st), 0);
    assert_int_equal(st.st_mode, S_IFDIR | 0700);
    assert_int_equal(st.st_uid, 0);
    assert_int_equal(folder_check(temporary, false, &err), -1); /* and no computer yet */
}

/* Also when it was prepared before it turned out that overlayfs can't be used. */
static void test_prepared_plain(void **state)
{
    struct error err = ERROR_INIT;
    temporary_file("from/etc/hosts", "127.0.0.1 localhost\n");
    _cleanup_(cleanup_free) char *from = temporary_path("from");
    assert_int_equal(folder_prepare(temporary, &no_cap, &err), 0);
    assert_int_equal(folder_make(temporary, ID, from, &err), 0);
    assert_owned("native/root/etc/hosts", S_IFREG | 0644);
    assert_false(exists("native/upper"));
    assert_int_equal(folder_check(temporary, true, &err), 0);
}

static void assert_in_image(const struct disk *disk, const char *name, mode_t mode)
{
    struct stat st;
    assert_int_equal(fstatat(disk->fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH), 0);
    assert_int_equal(st.st_mode, mode);
    assert_int_equal(st.st_uid, ID);
}

/* The same, in a file system of its own: with layers, or as a copy. */
static void test_image(void **state)
{
    struct error err = ERROR_INIT;
    struct disks disks;
    struct disk disk, again;
    const struct wait wait = {.deadline = DEADLINE_NONE};
    temporary_file("from/etc/hosts", "127.0.0.1 localhost\n");
    _cleanup_(cleanup_free) char *from = temporary_path("from");
    disks_foresee(&disks, 64 << 20);
    disks_prepare(&disks, temporary, NULL);
    if (disks.way != DISK_IMAGE)
        skip_because("no image can be mounted here");
    assert_int_equal(folder_has_image(temporary, &err), 0);
    for (int plain = 0; plain < 2; plain++) {
        assert_int_equal(folder_prepare(temporary, &disks, &err), 0);
        assert_int_equal(folder_make_image(temporary, ID, plain ? from : NULL, &disks, &wait, &disk, &err),
                         0);
        assert_int_equal(folder_has_image(temporary, &err), 1);
        assert_int_equal(disk.limit.bytes, 64 << 20);
        assert_false(disk_is_full(&disk));
        assert_in_image(&disk, "", S_IFDIR | 0700);
        assert_in_image(&disk, plain ? "root/etc/hosts" : "upper", plain ? S_IFREG | 0644 : S_IFDIR | 0755);
        disk_close(&disk);
        assert_int_equal(folder_open_image(temporary, &wait, &again, &err), 0);
        assert_in_image(&again, "work", S_IFDIR | 0755);
        assert_int_equal(again.limit.files, disks.limit.files);
        disk_close(&again);
        assert_int_equal(folder_remove(temporary, &err), 0);
        assert_int_equal(folder_has_image(temporary, &err), 0);
    }
    disks_done(&disks);
}

/* What is no file system is told by name, and nothing hangs on it. */
static void test_broken_image(void **state)
{
    struct error err = ERROR_INIT;
    struct disk disk;
    const struct wait wait = {.deadline = DEADLINE_NONE};
    if (access("/dev/loop-control", R_OK | W_OK) < 0)
        skip_because("no loop devices here");
    temporary_file("native/disk", "no file system");
    assert_int_equal(folder_open_image(temporary, &wait, &disk, &err), -1);
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "/native/disk"));
    assert_int_equal(folder_remove(temporary, &err), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, temporary_make, temporary_remove)

int main(void)
{
    if (geteuid() != 0) {
        printf("skipped: needs root\n");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        CASE(test_overlay),        CASE(test_plain_copy), CASE(test_trash),
        CASE(test_made_empty),     CASE(test_prepared),   CASE(test_prepared_is_closed),
        CASE(test_prepared_plain), CASE(test_image),      CASE(test_broken_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
