/* What a guest is told with its start: it runs that without a word over the stream, which goes on behind it,
 * and nobody else gets to see it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base64_groups.h"
#include "guest_file.h"
#include "harness.h"
#include "stream.h"

#define BYTES_MAX (SERVE_EARLY_MAX / 4 * 3)

static struct {
    unsigned char bytes[BYTES_MAX];
    size_t size;
    char variable[sizeof(SERVE_EARLY) + SERVE_EARLY_MAX + 1];
} early;

static void add(const void *bytes, size_t size)
{
    assert_true(size <= BYTES_MAX - early.size);
    memcpy(early.bytes + early.size, bytes, size);
    early.size += size;
}

/* CONFIG, and a RUN of /bin/sh -c text with some input. */
static void tell(const char *text, size_t in_size)
{
    const struct serve_config config = {.flags = SERVE_ONCE};
    const struct serve_frame first = {.type = SERVE_CONFIG, .size = sizeof(config)};
    struct serve_run run = {.argc = 3, .output_limit = 65536, .stdin_bytes = (uint32_t)in_size};
    run.body_bytes = (uint32_t)(sizeof("") + sizeof("/bin/sh") + sizeof("-c") + strlen(text) + 1);
    run.flags = in_size > 0 ? SERVE_RUN_STDIN : 0;
    const struct serve_frame second = {
        .type = SERVE_RUN, .id = 1, .size = (uint32_t)(sizeof(run) + run.body_bytes + in_size)};
    early.size = 0;
    add(&first, sizeof(first));
    add(&config, sizeof(config));
    add(&second, sizeof(second));
    add(&run, sizeof(run));
    add("\0/bin/sh\0-c", sizeof("\0/bin/sh\0-c"));
    add(text, strlen(text) + 1);
    for (size_t i = 0; i < in_size; i++)
        add("x", 1);
}

/* The first `size` bytes of it as the guest's environment has them. */
static const char *letters_of(size_t size)
{
    char *at = stpcpy(early.variable, SERVE_EARLY "=");
    for (size_t done = 0; done < size; done += 3, at += 4)
        base64_encode_group(early.bytes + done, size - done < 3 ? size - done : 3, at);
    *at = '\0';
    return early.variable;
}

static struct stream start(const char *variable)
{
    const char *const env[] = {"PATH=/usr/bin:/bin", variable, NULL};
    return stream_open(&(struct stream_options){.env = env, .first = true, .unconfigured = true});
}

static void test_nothing_more_has_to_be_said(void **state)
{
    tell("echo here; echo [$" SERVE_EARLY "]; env | grep -c " SERVE_EARLY, 0);
    struct stream s = start(letters_of(early.size));
    const struct heard *h = stream_wait(&s, 1);
    assert_string_equal(heard_out(h), "here\n[]\n0\n");
    assert_int_equal(s.ready.has_shell[1], 1);
    stream_await_end(&s);
    assert_int_equal(stream_close(&s), 0);
}

static void test_as_much_as_may_be(void **state)
{
    tell("wc -c", 0);
    const size_t room = BYTES_MAX - early.size;
    tell("wc -c", room);
    struct stream s = start(letters_of(early.size));
    char size[32];
    snprintf(size, sizeof(size), "%zu\n", room);
    assert_string_equal(heard_out(stream_wait(&s, 1)), size);
    assert_int_equal(stream_close(&s), 0);
}

/* By anybody who looks, as root may, once the command has begun. */
static void test_nobody_can_read_it_in_proc(void **state)
{
    char path[64];
    static char seen[2 * sizeof(early.variable)];
    tell("echo up; read x; exec sleep 1000", 0);
    struct stream s = start(letters_of(early.size));
    const char *letters = early.variable + sizeof(SERVE_EARLY);
    stream_await(&s, 1, "up\n");
    snprintf(path, sizeof(path), "/proc/%d/environ", s.pid);
    FILE *file = fopen(path, "r");
    const size_t n = file ? fread(seen, 1, sizeof(seen) - 1, file) : 0;
    assert_true(n > strlen(letters));
    assert_memory_equal(seen, "PATH=", 5);
    assert_null(memmem(seen, n, letters + 8, 16));
    fclose(file);
    stream_send(&s, SERVE_KILL, 1, NULL, 0); /* the stream goes on behind it */
    assert_int_equal(stream_wait(&s, 1)->end.killed, 1);
    assert_int_equal(stream_close(&s), 0);
}

/* Though nothing comes of the command with which it could go. */
static void test_the_guest_says_who_it_is_all_the_same(void **state)
{
    tell("exec sleep 1000", 0);
    struct stream s = start(letters_of(early.size));
    assert_int_equal(s.hello.version, SERVE_VERSION);
    stream_send(&s, SERVE_KILL, 1, NULL, 0);
    assert_int_equal(stream_wait(&s, 1)->end.killed, 1);
    assert_int_equal(stream_close(&s), 0);
}

static void test_the_rest_comes_over_the_stream(void **state)
{
    tell("echo whole", 0);
    for (size_t size = 1; size < early.size; size += early.size / 7) {
        struct stream s = start(letters_of(size));
        stream_send_raw(&s, early.bytes + size, early.size - size);
        assert_string_equal(heard_out(stream_wait(&s, 1)), "whole\n");
        assert_int_equal(stream_close(&s), 0);
    }
}

static void test_without_it_all_comes_over_the_stream(void **state)
{
    tell("echo whole", 0);
    struct stream s = start("OTHER=1");
    stream_send_raw(&s, early.bytes, early.size);
    assert_string_equal(heard_out(stream_wait(&s, 1)), "whole\n");
    assert_int_equal(stream_close(&s), 0);
}

/* Ended without a word. */
static void expect_refused(const char *variable)
{
    static char command[sizeof(early.variable) + 256];
    snprintf(command, sizeof(command), "%s '%s' " SERVE_COMMAND " " SERVE_FIRST " | wc -c | grep -qx 0",
             variable, guest_file());
    assert_int_equal(system(command), 0);
}

static void test_what_makes_no_sense_is_not_run(void **state)
{
    static const char *const bad[] = {"A", "AAA", "AA=A", "====", "QUJD!", "\\x80AAA"};
    char variable[64];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(variable, sizeof(variable), SERVE_EARLY "=%s", bad[i]);
        expect_refused(variable);
    }
    early.size = 0;
    add("GET / HTTP/1.1\r\n\r\n", 18);
    expect_refused(letters_of(early.size));
    tell("echo never", 0);
    early.bytes[0] ^= 1; /* the size of CONFIG */
    expect_refused(letters_of(early.size));
}

/* An image's own variable of that name is a variable as any other, and no way to speak for the server. */
static void test_it_is_not_heard_unasked(void **state)
{
    tell("echo never", 0);
    const char *const env[] = {letters_of(early.size), NULL};
    struct stream s = stream_open(&(struct stream_options){.env = env, .flags = SERVE_DIES});
    const struct heard *h = stream_shell(&s, "echo ${#" SERVE_EARLY "}");
    char size[32];
    snprintf(size, sizeof(size), "%zu\n", strlen(early.variable) - sizeof(SERVE_EARLY));
    assert_string_equal(heard_out(h), size);
    assert_int_equal(stream_close(&s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_more_has_to_be_said),
        cmocka_unit_test(test_as_much_as_may_be),
        cmocka_unit_test(test_nobody_can_read_it_in_proc),
        cmocka_unit_test(test_the_guest_says_who_it_is_all_the_same),
        cmocka_unit_test(test_the_rest_comes_over_the_stream),
        cmocka_unit_test(test_without_it_all_comes_over_the_stream),
        cmocka_unit_test(test_what_makes_no_sense_is_not_run),
        cmocka_unit_test(test_it_is_not_heard_unasked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
