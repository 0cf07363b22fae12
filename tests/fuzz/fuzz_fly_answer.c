/* Fuzz: what a machine at Fly answers, as the text that it is, and as the bytes that it stands for. What is
 * accepted must be in order within itself. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fly/answer.h"
#include "base/base64.h"

#define OFFSET 1000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text)
{
    struct buf bytes = BUF_INIT(FLY_ANSWER_BYTES);
    struct job_answer a;
    const char *said = NULL;
    struct error err = ERROR_INIT;
    if (fly_answer_parse(text, OFFSET, &bytes, &a, &said, &err) == 0) {
        assert(a.state >= JOB_KEPT && a.state <= JOB_FAILED && a.size <= JOB_ANSWER_MAX);
        assert(said >= bytes.data && said + a.size == bytes.data + bytes.len);
        assert(a.size == 0 || (a.offset == OFFSET && a.total >= a.offset + a.size));
        assert(strlen(a.error.stage) < sizeof(a.error.stage) && strlen(a.error.text) < sizeof(a.error.text));
    } else {
        assert(err.code == ERR_UNAVAILABLE && err.msg[0]);
    }
    buf_done(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf text = BUF_INIT(2 * size + 8);
    char *copy = strndup((const char *)data, size);
    assert(copy && base64_append(&text, data, size) == 0);
    check(copy);
    check(buf_str(&text));
    free(copy);
    buf_done(&text);
    return 0;
}
