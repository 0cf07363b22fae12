/* The guest's keeping of output gives what the server's own does (backends/output.c), byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/output.h"
#include "guest/capture.h"
#include "guest/frames.h"

#define BYTES_MAX (1 << 20)

/* What the guest's queue would hold. */
static struct {
    char parts[2][2][BYTES_MAX];
    size_t sizes[2][2];
    size_t room;
} sent;

static struct {
    char bytes[BYTES_MAX];
    size_t size;
} spooled[2];

static char folder[64];

size_t frames_room(void)
{
    return sent.room;
}

bool frames_put(uint32_t type, uint32_t id, const void *head, size_t head_size, const void *bytes, size_t n)
{
    const struct serve_output *output = head;
    assert_int_equal(type, SERVE_OUTPUT);
    assert_int_equal(id, 7);
    assert_int_equal(head_size, sizeof(*output));
    assert_true(n > 0 && n <= sent.room);
    size_t *size = &sent.sizes[output->stream][output->part];
    memcpy(sent.parts[output->stream][output->part] + *size, bytes, n);
    *size += n;
    return true;
}

static void spool(void *ctx, enum output_stream stream, const void *bytes, size_t n, bool first)
{
    memcpy(spooled[stream].bytes + spooled[stream].size, bytes, n);
    spooled[stream].size += n;
}

static uint32_t number(uint32_t below)
{
    static uint64_t state = 20240229;
    state = state * 6364136223846793005U + 1442695040888963407U;
    return below ? (uint32_t)(state >> 33) % below : 0;
}

static void expect_file(const struct serve_end *end, unsigned stream, size_t limit)
{
    static char bytes[BYTES_MAX];
    size_t size = spooled[stream].size < limit ? spooled[stream].size : limit;
    assert_int_equal(end->spooled[stream], size);
    if (size == 0) {
        assert_string_equal(end->spool_path[stream], "");
        return;
    }
    struct stat st;
    assert_int_equal(strncmp(end->spool_path[stream], folder, strlen(folder)), 0);
    int fd = open(end->spool_path[stream], O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    assert_int_equal(st.st_mode, S_IFREG | 0600);
    assert_int_equal(read(fd, bytes, sizeof(bytes)), size);
    assert_memory_equal(bytes, spooled[stream].bytes, size);
    close(fd);
    unlink(end->spool_path[stream]);
}

static void expect_stream(const struct exec_stream *expected, const struct serve_end *end, unsigned stream)
{
    size_t head = sent.sizes[stream][0], tail = sent.sizes[stream][1];
    assert_int_equal(end->total[stream], expected->total);
    assert_int_equal(end->total[stream] - head - tail, expected->omitted);
    if (expected->omitted == 0) {
        memcpy(sent.parts[stream][0] + head, sent.parts[stream][1], tail);
        head += tail;
        tail = 0;
    }
    assert_int_equal(head, expected->head.len);
    assert_int_equal(tail, expected->tail.len);
    assert_memory_equal(sent.parts[stream][0], buf_str(&expected->head), head);
    assert_memory_equal(sent.parts[stream][1], buf_str(&expected->tail), tail);
}

/* Feeds both with the same pieces. */
static void compare(uint32_t limit, uint32_t spool_limit, unsigned pieces, uint32_t piece_max, unsigned skew)
{
    static char bytes[CAPTURE_CHUNK];
    struct capture c;
    struct serve_end end = {0};
    struct exec_result expected = {0};
    struct output *o = output_new(limit, spool, NULL);
    memset(sent.sizes, 0, sizeof(sent.sizes));
    spooled[0].size = spooled[1].size = 0;
    capture_init(&c, 7, limit, spool_limit, folder);
    for (unsigned i = 0; i < pieces; i++) {
        unsigned stream = number(10) < skew;
        uint32_t n = 1 + number(piece_max);
        for (uint32_t b = 0; b < n; b++)
            bytes[b] = (char)('a' + number(26));
        sent.room = CAPTURE_CHUNK;
        assert_true(capture_is_ready(&c));
        capture_add(&c, stream, bytes, n);
        output_add(o, stream, bytes, n);
    }
    do
        sent.room = 1 + number(40000);
    while (!capture_send_tails(&c));
    capture_tell(&c, &end);
    capture_done(&c);
    output_finish(o, &expected);
    output_free(o);
    expect_stream(&expected.out, &end, 0);
    expect_stream(&expected.err, &end, 1);
    expect_file(&end, 0, spool_limit);
    expect_file(&end, 1, spool_limit);
    exec_result_done(&expected);
}

static void test_small_limits(void **state)
{
    for (uint32_t limit = 0; limit < 40; limit++)
        for (unsigned round = 0; round < 60; round++)
            compare(limit, 1 << 20, number(12), 1 + number(20), number(11));
}

static void test_large_outputs(void **state)
{
    static const uint32_t limits[] = {4095, 4096, 4097, 65536, 100000, 300000};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        for (unsigned skew = 0; skew <= 10; skew += 5)
            for (unsigned round = 0; round < 4; round++)
                compare(limits[i], 1 << 20, 1 + number(24), CAPTURE_CHUNK / 2, skew);
}

static void test_a_file_ends_at_its_limit(void **state)
{
    for (unsigned round = 0; round < 20; round++)
        compare(100, 1 + number(3000), 10, 500, 5);
}

static void test_without_a_file_nothing_else_changes(void **state)
{
    compare(1000, 0, 20, 500, 5);
}

/* The file of a stream that may not have one, or can't: the output is cut all the same. */
static void test_a_file_that_can_not_be_made_is_no_error(void **state)
{
    static char bytes[3000];
    struct capture c;
    struct serve_end end = {0};
    memset(sent.sizes, 0, sizeof(sent.sizes));
    capture_init(&c, 7, 100, 1 << 20, "/proc/nowhere");
    sent.room = CAPTURE_CHUNK;
    capture_add(&c, 0, bytes, sizeof(bytes));
    assert_true(capture_send_tails(&c));
    capture_tell(&c, &end);
    capture_done(&c);
    assert_int_equal(end.total[0], sizeof(bytes));
    assert_int_equal(end.spooled[0], 0);
    assert_string_equal(end.spool_path[0], "");
    assert_int_equal(sent.sizes[0][0], 50);
    assert_int_equal(sent.sizes[0][1], 50);
}

static void test_heads_wait_for_room_and_tails_do_not(void **state)
{
    static char bytes[100];
    struct capture c;
    capture_init(&c, 7, 100, 0, "");
    sent.room = CAPTURE_CHUNK - 1;
    assert_false(capture_is_ready(&c));
    sent.room = CAPTURE_CHUNK;
    assert_true(capture_is_ready(&c));
    capture_add(&c, 1, bytes, 50);
    sent.room = 0;
    assert_true(capture_is_ready(&c));
    capture_add(&c, 1, bytes, sizeof(bytes));
    assert_false(capture_send_tails(&c));
    capture_done(&c);
}

static int set_up(void **state)
{
    snprintf(folder, sizeof(folder), "/tmp/capture-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    return rmdir(folder); /* fails if anything was left there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_limits),
        cmocka_unit_test(test_large_outputs),
        cmocka_unit_test(test_a_file_ends_at_its_limit),
        cmocka_unit_test(test_without_a_file_nothing_else_changes),
        cmocka_unit_test(test_a_file_that_can_not_be_made_is_no_error),
        cmocka_unit_test(test_heads_wait_for_room_and_tails_do_not),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
