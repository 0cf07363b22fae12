/* Fuzz: frames as the guest of a container gets them, one after another. What is accepted must be in order
 * within itself. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "guest/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_strings(char *const *strings, const char *begin, const char *end)
{
    for (; *strings; strings++)
        assert(*strings >= begin && *strings + strlen(*strings) < end);
}

static void check_bytes(const char *bytes, size_t n, const char *begin, const char *end)
{
    assert(bytes ? bytes >= begin && n <= (size_t)(end - bytes) : n == 0);
}

static void check_run(char *body, size_t size)
{
    struct request_run run;
    const char *end = body + size;
    if (!request_run_parse(body, size, &run))
        return;
    check_strings(run.exec.argv, body, end);
    check_strings(run.exec.envp, body, end);
    assert(run.exec.argv[0] && run.exec.cwd >= body && run.exec.cwd + strlen(run.exec.cwd) < end);
    check_bytes(run.input, run.input_size, body, end);
    check_bytes(run.script, run.script_size, body, end);
    assert(run.output_limit <= SERVE_OUTPUT_LIMIT_MAX);
}

/* In memory of exactly its size, as the guest has it, so that a read past the end is seen. */
static void check_body(const struct serve_frame *frame, const uint8_t *data)
{
    char *body = malloc(frame->size > 0 ? frame->size : 1);
    assert(body);
    memcpy(body, data, frame->size);
    if (frame->type == SERVE_RUN)
        check_run(body, frame->size);
    struct serve_config config = {0};
    if (frame->type == SERVE_CONFIG) {
        assert(frame->size <= sizeof(config));
        memcpy(&config, body, frame->size);
    }
    assert(!request_config_ok(&config) || strlen(config.spool_dir) < GUEST_PATH_MAX);
    free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct serve_frame frame;
    while (size >= sizeof(frame)) {
        memcpy(&frame, data, sizeof(frame));
        if (!request_frame_ok(&frame) || frame.size > size - sizeof(frame))
            return 0;
        assert(frame.size <= SERVE_RUN_MAX && (frame.type != SERVE_RUN || frame.id > 0));
        check_body(&frame, data + sizeof(frame));
        data += sizeof(frame) + frame.size;
        size -= sizeof(frame) + frame.size;
    }
    return 0;
}
