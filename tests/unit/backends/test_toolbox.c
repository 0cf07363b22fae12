/* The skeleton, made from a host that the test has built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "backends/native/toolbox.h"
#include "base/str.h"
#include "temporary.h"

static char *state_dir, *host;

static void host_link(const char *name, const char *target)
{
    _cleanup_(cleanup_free) char *path = path_join(host, name);
    assert_int_equal(symlink(target, path), 0);
}

static int set_up(void **state)
{
    if (temporary_make(state) < 0)
        return -1;
    state_dir = temporary_path("state");
    host = temporary_path("host");
    temporary_folder("state");
    temporary_folder("host/usr/bin");
    temporary_file("host/etc/shadow", "root:secret\n");
    temporary_file("host/etc/passwd", "someone:x:1000:1000::/home/someone:/bin/sh\n");
    temporary_file("host/etc/ld.so.cache", "cache");
    temporary_file("host/etc/ssl/certs/ca-certificates.crt", "bundle");
    temporary_file("host/etc/ssl/certs/private.pem", "key");
    temporary_file("host/etc/alternatives/README", "text");
    temporary_folder("host/lib64");
    host_link("bin", "usr/bin");
    host_link("etc/localtime", "/usr/share/zoneinfo/Etc/UTC");
    host_link("etc/alternatives/awk", "/usr/bin/mawk");
    host_link("etc/alternatives/evil", "/root/program");
    host_link("etc/ssl/certs/a.0", "a.pem");
    host_link("etc/ssl/certs/a.pem", "/usr/share/ca-certificates/a.crt");
    _cleanup_(cleanup_free) char *private = path_join(host, "etc/ssl/certs/private.pem");
    return chmod(private, 0600);
}

static int tear_down(void **state)
{
    free(state_dir);
    free(host);
    return temporary_remove(state);
}

static bool has(const struct toolbox *t, const char *name, struct stat *ret)
{
    _cleanup_(cleanup_free) char *path = path_join(t->path, name);
    return lstat(path, ret) == 0;
}

static void assert_mode(const struct toolbox *t, const char *name, mode_t mode)
{
    struct stat st;
    assert_true(has(t, name, &st));
    assert_int_equal(st.st_mode, mode);
}

static void assert_link(const struct toolbox *t, const char *name, const char *target)
{
    char found[256] = "";
    _cleanup_(cleanup_free) char *path = path_join(t->path, name);
    assert_true(readlink(path, found, sizeof(found) - 1) > 0);
    assert_string_equal(found, target);
}

static void assert_text(const struct toolbox *t, const char *name, const char *part)
{
    _cleanup_(cleanup_free) char *path = path_join(t->path, name);
    struct buf b = BUF_INIT(4096);
    assert_int_equal(file_read(AT_FDCWD, path, &b, NULL), 0);
    assert_non_null(strstr(buf_str(&b), part));
    buf_done(&b);
}

static void test_content(void **state)
{
    struct toolbox t;
    struct stat st;
    struct error err = ERROR_INIT;
    assert_int_equal(toolbox_open(state_dir, host, &t, &err), 0);
    assert_mode(&t, ".", S_IFDIR | 0755);
    assert_mode(&t, "tmp", S_IFDIR | 01777);
    assert_mode(&t, "root", S_IFDIR | 0700);
    assert_mode(&t, "usr", S_IFDIR | 0755);
    assert_mode(&t, "lib64", S_IFDIR | 0755); /* not merged there: a place to bind on */
    assert_mode(&t, "etc/passwd", S_IFREG | 0644);
    assert_link(&t, "bin", "usr/bin");
    assert_link(&t, "etc/localtime", "/usr/share/zoneinfo/Etc/UTC");
    assert_link(&t, "etc/os-release", "../usr/lib/os-release");
    assert_link(&t, "etc/alternatives/awk", "/usr/bin/mawk");
    assert_link(&t, "etc/ssl/certs/a.0", "a.pem");
    assert_link(&t, "etc/ssl/certs/a.pem", "/usr/share/ca-certificates/a.crt");
    assert_text(&t, "etc/passwd", "root:x:0:0:");
    assert_text(&t, "etc/ld.so.cache", "cache");
    assert_text(&t, "etc/ssl/certs/ca-certificates.crt", "bundle");
    assert_false(has(&t, "etc/shadow", &st));
    assert_false(has(&t, "etc/ssl/certs/private.pem", &st)); /* not for all to read */
    assert_false(has(&t, "etc/alternatives/evil", &st));
    assert_false(has(&t, "sbin", &st)); /* the host has none */
    toolbox_done(&t);
}

/* The host's own resolver is of no use inside, and a link to it would lead nowhere. */
static void b41_resolver_of_the_host(void **state)
{
    struct toolbox t;
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_free) char *own = path_join(host, "etc/resolv.conf");
    static const char *const kinds[] = {"link", "file"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        (void)unlink(own);
        if (i == 0)
            host_link("etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf");
        else
            temporary_file("host/etc/resolv.conf", "nameserver 127.0.0.53\n");
        assert_int_equal(toolbox_open(state_dir, host, &t, &err), 0);
        struct stat st;
        assert_true(has(&t, "etc/resolv.conf", &st));
        assert_true(S_ISREG(st.st_mode));
        assert_int_equal(st.st_size, 0);
        toolbox_done(&t);
    }
}

static int count_skeletons(void)
{
    int count = 0;
    DIR *dir = opendir(state_dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        count += str_has_prefix(e->d_name, "toolbox-");
    closedir(dir);
    return count;
}

static void test_reused(void **state)
{
    struct toolbox first, second;
    assert_int_equal(toolbox_open(state_dir, host, &first, NULL), 0);
    assert_int_equal(toolbox_open(state_dir, host, &second, NULL), 0);
    assert_string_equal(first.path, second.path);
    assert_int_equal(count_skeletons(), 1);
    toolbox_done(&first);
    toolbox_done(&second);
}

/* A host that has changed gets a new one; the old one stays as long as somebody holds it. */
static void test_host_changes(void **state)
{
    struct toolbox old, new, newest;
    assert_int_equal(toolbox_open(state_dir, host, &old, NULL), 0);
    temporary_file("host/etc/ld.so.cache", "another cache");
    assert_int_equal(toolbox_open(state_dir, host, &new, NULL), 0);
    assert_string_not_equal(old.path, new.path);
    assert_text(&new, "etc/ld.so.cache", "another cache");
    assert_text(&old, "etc/ld.so.cache", "cache");
    assert_int_equal(count_skeletons(), 2);
    toolbox_done(&old);
    toolbox_done(&new);
    temporary_file("host/etc/ld.so.cache", "a third cache");
    assert_int_equal(toolbox_open(state_dir, host, &newest, NULL), 0);
    assert_int_equal(count_skeletons(), 1);
    toolbox_done(&newest);
}

static void *open_one(void *arg)
{
    struct toolbox *t = arg;
    return toolbox_open(state_dir, host, t, NULL) == 0 ? t : NULL;
}

static void test_at_once(void **state)
{
    struct toolbox toolboxes[8];
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, open_one, &toolboxes[i]);
    for (int i = 0; i < 8; i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_non_null(good);
        assert_text(&toolboxes[i], "etc/passwd", "root:x:0:0:");
    }
    assert_int_equal(count_skeletons(), 1);
    for (int i = 0; i < 8; i++)
        toolbox_done(&toolboxes[i]);
}

/* What a server had half built when it was killed goes with the next start; what one is building stays. */
static void test_half_built(void **state)
{
    struct toolbox t;
    assert_int_equal(toolbox_open(state_dir, host, &t, NULL), 0);
    _cleanup_(cleanup_free) char *half = xasprintf("%s.new-0123456789abcdef", t.path);
    assert_int_equal(mkdir(half, 0755), 0);
    toolbox_done(&t);

    int builder = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(builder, LOCK_SH), 0);
    assert_int_equal(toolbox_open(state_dir, host, &t, NULL), 0);
    assert_int_equal(access(half, F_OK), 0);
    toolbox_done(&t);

    fd_close(builder);
    assert_int_equal(toolbox_open(state_dir, host, &t, NULL), 0);
    assert_int_equal(access(half, F_OK), -1);
    toolbox_done(&t);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_content), CASE(test_reused),     CASE(test_host_changes),
        CASE(test_at_once), CASE(test_half_built), CASE(b41_resolver_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
