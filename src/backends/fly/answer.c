/* See answer.h. */
#include "backends/fly/answer.h"

#include <stdbool.h>
#include <string.h>

#include "base/base64.h"

static bool is_text(const char *bytes, size_t size)
{
    return memchr(bytes, '\0', size) != NULL;
}

static bool makes_sense(const struct job_answer *a, uint64_t offset, size_t rest)
{
    const bool says = a->state == JOB_RUNNING || a->state == JOB_OVER;
    if (a->state < JOB_KEPT || a->state > JOB_FAILED || a->size != rest ||
        !is_text(a->error.stage, sizeof(a->error.stage)) || !is_text(a->error.text, sizeof(a->error.text)))
        return false;
    if (!says)
        return a->size == 0;
    return a->offset == offset && a->total >= offset && a->size <= a->total - offset &&
           (a->size > 0 || a->total == offset);
}

int fly_answer_parse(const char *text, uint64_t offset, struct buf *bytes, struct job_answer *ret,
                     const char **ret_said, struct error *err)
{
    struct job_answer a;
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r\n", text[n - 1]))
        n--;
    buf_clear(bytes);
    if (base64_decode(text, n, bytes, err) < 0)
        return error_recast(err, ERR_UNAVAILABLE, "the machine's answer");
    if (bytes->len < sizeof(a))
        return error_set(err, ERR_UNAVAILABLE, "the machine's answer is too short: %zu bytes", bytes->len);
    memcpy(&a, bytes->data, sizeof(a));
    if (a.magic != JOB_MAGIC)
        return error_set(err, ERR_UNAVAILABLE, "the machine's answer isn't from our program there");
    if (a.version != JOB_VERSION)
        return error_set(err, ERR_UNAVAILABLE, "our program in the machine is of another version");
    if (!makes_sense(&a, offset, bytes->len - sizeof(a)))
        return error_set(err, ERR_UNAVAILABLE, "the machine's answer makes no sense");
    *ret = a;
    *ret_said = bytes->data + sizeof(a);
    return 0;
}
