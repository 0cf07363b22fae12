/* The checks of requests: see request.h. */
#include "guest/request.h"

#include <stddef.h>
#include <string.h>

#include "base/base64_groups.h"

static bool ended(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

uint32_t request_type(const void *bytes, size_t size)
{
    static const size_t sizes[] = {
        [GUEST_SETUP] = sizeof(struct guest_setup), [GUEST_CREATE] = sizeof(struct guest_create),
        [GUEST_EXEC] = sizeof(struct guest_exec),   [GUEST_KILL] = sizeof(struct guest_kill),
        [GUEST_OPEN] = sizeof(struct guest_open),   [GUEST_BEGIN] = sizeof(struct guest_begin),
        [GUEST_NAME] = sizeof(struct guest_name),   [GUEST_OWN] = sizeof(struct guest_own),
        [GUEST_KEEP] = sizeof(struct guest_keep),   [GUEST_ATTACH] = sizeof(struct guest_attach),
        [GUEST_LEAVE] = sizeof(struct guest_leave),
    };
    uint32_t type;
    if (size < sizeof(type))
        return 0;
    memcpy(&type, bytes, sizeof(type));
    if (type >= sizeof(sizes) / sizeof(sizes[0]) || sizes[type] == 0)
        return 0;
    if (type == GUEST_EXEC ? size < sizes[type] : size != sizes[type])
        return 0;
    const struct guest_open *open = bytes;
    if (type == GUEST_OPEN && (open->path[0] != '/' || !ended(open->path, sizeof(open->path))))
        return 0;
    return type;
}

bool request_setup_ok(const struct guest_setup *setup, unsigned fd_count)
{
    return fd_count >= 1 && ended(setup->state_dir, sizeof(setup->state_dir)) && setup->state_dir[0] == '/' &&
           ended(setup->base_dir, sizeof(setup->base_dir)) &&
           (setup->base_dir[0] == '/' || setup->flags & GUEST_ROOT_PLAIN);
}

bool request_create_ok(const struct guest_create *create, unsigned fd_count)
{
    unsigned cgroup2 = create->flags & GUEST_HAS_CGROUP2 ? 1 : 0, lock = create->flags & GUEST_KEPT ? 1 : 0;
    return fd_count == 1 + cgroup2 + lock && (create->id_base > 0 || create->id_count == 1) &&
           create->id_count > 0 && create->id_count <= UINT32_MAX - create->id_base &&
           ended(create->hostname, sizeof(create->hostname)) && ended(create->group, sizeof(create->group)) &&
           !strchr(create->group, '/') && (create->group[0] || !lock) &&
           ended(create->folder, sizeof(create->folder)) && create->folder[0] && create->folder[0] != '/';
}

bool request_name_ok(const struct guest_name *name, unsigned fd_count)
{
    return fd_count <= 1 && name->pid > 1 && name->hostname[0] &&
           ended(name->hostname, sizeof(name->hostname));
}

bool request_own_ok(const struct guest_own *own, unsigned fd_count)
{
    return fd_count == 0 && ended(own->folder, sizeof(own->folder)) && own->folder[0] &&
           own->folder[0] != '/';
}

bool request_exec_fds(uint32_t flags, struct request_fds *ret)
{
    int next = 0;
    ret->in = flags & GUEST_EXEC_STDIN ? next++ : -1;
    ret->out = next++;
    ret->err = next++;
    ret->status = next++;
    ret->scope = flags & (GUEST_EXEC_SCOPE | GUEST_EXEC_SCOPE_DIR) ? next++ : -1;
    ret->body = flags & GUEST_EXEC_BODY ? next++ : -1;
    ret->script = flags & GUEST_EXEC_SCRIPT ? next++ : -1;
    ret->count = (unsigned)next;
    return !(flags & GUEST_EXEC_SCOPE && flags & GUEST_EXEC_SCOPE_DIR);
}

/* Cuts the next string off; NULL: there is none. */
static char *next_string(char **cursor, const char *end)
{
    char *start = *cursor;
    char *nul = memchr(start, 0, (size_t)(end - start));
    if (!nul)
        return NULL;
    *cursor = nul + 1;
    return start;
}

static bool collect(char **cursor, const char *end, uint32_t count, char **ret)
{
    for (uint32_t i = 0; i < count; i++)
        if (!(ret[i] = next_string(cursor, end)))
            return false;
    ret[count] = NULL;
    return true;
}

bool request_exec_parse(const struct guest_exec *exec, char *body, size_t body_size, struct request_exec *ret)
{
    static char *pointers[1 + REQUEST_ARGC_MAX + 1 + REQUEST_ENVC_MAX + 1];
    if (exec->argc < 1 || exec->argc > REQUEST_ARGC_MAX || exec->envc > REQUEST_ENVC_MAX ||
        exec->body_bytes != body_size || body_size > GUEST_BODY_MAX)
        return false;
    char **argv = pointers + 1;
    char **envp = argv + exec->argc + 1;
    char *cursor = body;
    const char *end = body + body_size;
    char *cwd = next_string(&cursor, end);
    if (!cwd || !collect(&cursor, end, exec->argc, argv) || !collect(&cursor, end, exec->envc, envp) ||
        cursor != end)
        return false;
    *ret = (struct request_exec){.cwd = cwd, .argv = argv, .envp = envp};
    return true;
}

bool request_decode(char *text, size_t size)
{
    char *out = text;
    for (size_t left = size; left > 0; text += 4) {
        const size_t n = left < 3 ? left : 3;
        unsigned v = 0;
        for (size_t i = 0; i < 4; i++) {
            const int bits = i <= n ? base64_bits_of((unsigned char)text[i]) : text[i] == '=' ? 0 : -1;
            if (bits < 0)
                return false;
            v = v << 6 | (unsigned)bits;
        }
        for (size_t i = 0; i < n; i++)
            *out++ = (char)(v >> (16 - 8 * i));
        left -= n;
    }
    return true;
}

ssize_t request_early(char *text, size_t letters)
{
    if (letters == 0 || letters > SERVE_EARLY_MAX || letters % 4 != 0)
        return -1;
    const size_t padding = text[letters - 1] != '=' ? 0 : text[letters - 2] != '=' ? 1 : 2;
    const size_t size = letters / 4 * 3 - padding;
    return request_decode(text, size) ? (ssize_t)size : -1;
}

bool request_frame_ok(const struct serve_frame *frame)
{
    static const struct {
        bool known, of_command;
        uint32_t least, most;
    } types[] = {
        [SERVE_CONFIG] = {true, false, offsetof(struct serve_config, spool_dir), sizeof(struct serve_config)},
        [SERVE_RUN] = {true, true, sizeof(struct serve_run), SERVE_RUN_MAX},
        [SERVE_KILL] = {true, true, 0, 0},
        [SERVE_PING] = {true, false, 0, 0},
        [SERVE_CLEAR] = {true, true, 0, 0},
    };
    return frame->type < sizeof(types) / sizeof(types[0]) && types[frame->type].known &&
           frame->size >= types[frame->type].least && frame->size <= types[frame->type].most &&
           types[frame->type].of_command == (frame->id != 0);
}

bool request_config_ok(const struct serve_config *config)
{
    const char *dir = config->spool_dir;
    return ended(dir, sizeof(config->spool_dir)) && (dir[0] == '/' || !dir[0]);
}

bool request_run_parse(void *body, size_t size, struct request_run *ret)
{
    const struct serve_run *run = body;
    char *bytes = (char *)body + sizeof(*run);
    if (size < sizeof(*run) || run->output_limit > SERVE_OUTPUT_LIMIT_MAX ||
        (uint64_t)run->body_bytes + run->stdin_bytes + run->script_bytes != size - sizeof(*run))
        return false;
    const bool has_input = run->flags & SERVE_RUN_STDIN, has_script = run->flags & SERVE_RUN_SCRIPT;
    const struct guest_exec exec = {.argc = run->argc, .envc = run->envc, .body_bytes = run->body_bytes};
    struct request_run result = {.output_limit = run->output_limit, .spool_limit = run->spool_limit};
    if ((!has_input && run->stdin_bytes) || (!has_script && run->script_bytes) ||
        !request_exec_parse(&exec, bytes, run->body_bytes, &result.exec))
        return false;
    const char *input = bytes + run->body_bytes;
    result.input = has_input ? input : NULL;
    result.input_size = run->stdin_bytes;
    result.script = has_script ? input + run->stdin_bytes : NULL;
    result.script_size = run->script_bytes;
    *ret = result;
    return true;
}
