/* The same for every backend whose commands are started by the guest program: a shell and its text, or a
 * program and its arguments, each string ended by NUL. */
#include "backends/command.h"

#include <string.h>

#include "guest/wire.h"

#define SCRIPT_PATH "/proc/self/fd/3"
#define SCRIPT_READ "eval \"$(cat <&3)\""
_Static_assert(GUEST_SCRIPT_FD == 3, "named by SCRIPT_PATH and SCRIPT_READ");

int command_append_text(struct buf *body, const void *text, size_t n, struct error *err)
{
    if (memchr(text, '\0', n))
        return error_set(err, ERR_INVALID, "a command, argument or folder can't contain NUL bytes");
    if (buf_append(body, text, n) < 0 || buf_append_byte(body, '\0') < 0)
        return error_set(err, ERR_LIMIT, "the command is larger than %u bytes", GUEST_BODY_MAX);
    return 0;
}

bool command_needs_script(const struct exec_request *r)
{
    return r->command && r->command_len >= LIMIT_COMMAND_INLINE_BYTES;
}

static int add_texts(struct buf *body, const char *const *texts, uint32_t count, uint32_t *ret_count,
                     struct error *err)
{
    for (uint32_t i = 0; i < count; i++)
        if (command_append_text(body, texts[i], strlen(texts[i]), err) < 0)
            return -1;
    *ret_count = count;
    return 0;
}

static int add_arguments(struct buf *body, const struct exec_request *r, const char *shell, bool no_proc,
                         uint32_t *ret_count, struct error *err)
{
    uint32_t count = 0;
    if (command_needs_script(r) && no_proc)
        return add_texts(body, (const char *const[]){shell, "-c", SCRIPT_READ}, 3, ret_count, err);
    if (command_needs_script(r))
        return add_texts(body, (const char *const[]){shell, SCRIPT_PATH}, 2, ret_count, err);
    if (r->command) {
        if (add_texts(body, (const char *const[]){shell, "-c"}, 2, ret_count, err) < 0 ||
            command_append_text(body, r->command, r->command_len, err) < 0)
            return -1;
        *ret_count = 3;
        return 0;
    }
    while (r->argv[count])
        count++;
    return add_texts(body, (const char *const *)r->argv, count, ret_count, err);
}

int command_append(struct buf *body, const char *cwd, const struct exec_request *r, const char *shell,
                   bool no_proc, uint32_t *ret_argc, struct error *err)
{
    return command_append_text(body, cwd, strlen(cwd), err) < 0
               ? -1
               : add_arguments(body, r, shell, no_proc, ret_argc, err);
}
