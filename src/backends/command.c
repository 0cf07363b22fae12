/* The same for every backend whose commands are started by the guest program: a shell and its text, or a
 * program and its arguments, each string ended by NUL. */
#include "backends/command.h"

#include <string.h>

#include "guest/wire.h"

#define SCRIPT_PATH "/proc/self/fd/3"
_Static_assert(GUEST_SCRIPT_FD == 3, "named by SCRIPT_PATH");

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

static int add_arguments(struct buf *body, const struct exec_request *r, const char *shell,
                         uint32_t *ret_count, struct error *err)
{
    if (command_needs_script(r)) {
        *ret_count = 2;
        return command_append_text(body, shell, strlen(shell), err) < 0
                   ? -1
                   : command_append_text(body, SCRIPT_PATH, strlen(SCRIPT_PATH), err);
    }
    if (r->command) {
        *ret_count = 3;
        return command_append_text(body, shell, strlen(shell), err) < 0 ||
                       command_append_text(body, "-c", 2, err) < 0 ||
                       command_append_text(body, r->command, r->command_len, err) < 0
                   ? -1
                   : 0;
    }
    uint32_t count = 0;
    for (char *const *a = r->argv; *a; a++, count++)
        if (command_append_text(body, *a, strlen(*a), err) < 0)
            return -1;
    *ret_count = count;
    return 0;
}

int command_append(struct buf *body, const char *cwd, const struct exec_request *r, const char *shell,
                   uint32_t *ret_argc, struct error *err)
{
    return command_append_text(body, cwd, strlen(cwd), err) < 0
               ? -1
               : add_arguments(body, r, shell, ret_argc, err);
}
