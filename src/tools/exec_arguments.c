/* Arguments of the exec tool: one table, then what no table can say, since it is about two arguments at once.
 */
#include "tools/exec_arguments.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "tools/toolset.h"

/* Four characters for three bytes, and a line's worth to spare: what is longer decodes to too much in any
 * case. */
#define STDIN_BASE64_MAX (LIMIT_STDIN_BYTES / 3 * 4 + 8)
#define COMPUTER_ID_TEXT_MAX 1024 /* the rule for ids has the better message */

static const char *const ENCODINGS[] = {[ENCODING_TEXT] = "text", [ENCODING_BASE64] = "base64", NULL};

#define AT(member) .offset = offsetof(struct exec_arguments, member)

/* The first COMMON_COUNT rows are both tools'; the rest is about computers, which sandbox_exec does not know.
 */
static const struct bind_field FIELDS[] = {
    {.name = "command",
     .type = BIND_TEXT,
     AT(command),
     .max = LIMIT_COMMAND_BYTES,
     .aliases = " cmd code script shell_command command_line bash "},
    {.name = "args",
     .type = BIND_LIST,
     AT(args),
     .max = LIMIT_ARGS_BYTES,
     .max_item = LIMIT_ARG_BYTES,
     .max_items = LIMIT_ARGS_COUNT,
     .aliases = " argv arguments arg_list "},
    {.name = "stdin",
     .type = BIND_TEXT,
     .flags = BIND_ALLOW_NUL,
     AT(stdin_text),
     .max = LIMIT_STDIN_BYTES,
     .aliases = " input stdin_text standard_input "},
    {.name = "stdin_base64",
     .type = BIND_TEXT,
     AT(stdin_base64),
     .max = STDIN_BASE64_MAX,
     .aliases = " input_base64 stdin_bytes stdin_b64 "},
    {.name = "working_directory",
     .type = BIND_TEXT,
     AT(working_directory),
     .max = LIMIT_CWD_BYTES - 1,
     .aliases = " cwd workdir working_dir work_dir dir directory current_directory pwd "},
    {.name = "timeout",
     .type = BIND_NUMBER,
     AT(timeout_s),
     .min = LIMIT_TIMEOUT_MIN_S,
     .max = LIMIT_TIMEOUT_MAX_S,
     .unit = " seconds",
     .aliases = " timeout_seconds timeout_secs timeout_sec time_limit timeout_ms "},
    {.name = "env",
     .type = BIND_MAP,
     AT(env),
     .max = LIMIT_ENV_BYTES,
     .max_item = LIMIT_ARG_BYTES,
     .max_items = LIMIT_ENV_COUNT,
     .aliases = " environment envs env_vars environment_variables "},
    {.name = "output_encoding",
     .type = BIND_CHOICE,
     AT(encoding),
     .choices = ENCODINGS,
     .aliases = " encoding stdout_encoding "},
    {.name = "output_limit",
     .type = BIND_SIZE,
     AT(output_limit),
     .min = 1,
     .max = LIMIT_OUTPUT_BYTES_MAX,
     .aliases = " max_output max_output_bytes output_max "},
    {.name = "computer_id",
     .type = BIND_TEXT,
     AT(computer_id),
     .max = COMPUTER_ID_TEXT_MAX,
     .aliases = " id computer computer_name sandbox sandbox_id container container_id session_id "},
    {.name = "temporary", .type = BIND_BOOL, AT(temporary), .aliases = " temp ephemeral "},
};
#define COMMON_COUNT 9

void exec_arguments_done(struct exec_arguments *a)
{
    json_decref(a->args);
    json_decref(a->env);
    json_decref(a->ignored);
    free(a->id);
    free(a->argv);
    strv_free(a->env_list);
    buf_done(&a->stdin_bytes);
}

/* What to run: one of command and args, or the computer's only program without any. */
static int check_command(struct exec_arguments *a, bool own_program, struct error *err)
{
    if (a->command.data && a->args)
        return error_set(
            err, ERR_INVALID,
            "'command' and 'args' are both given: use 'command' for a line of shell, or 'args' for a program "
            "without a shell");
    if (!a->command.data && !a->args && !own_program)
        return error_set(err, ERR_INVALID,
                         "there is nothing to run: give 'command', a line of shell, or 'args', a program and "
                         "its arguments");
    if (a->command.data)
        return 0;
    if (!own_program && json_string_length(json_array_get(a->args, 0)) == 0)
        return error_set(err, ERR_INVALID, "element 0 of 'args' is empty: it must be the program to run");
    size_t i;
    const json_t *item;
    a->argv = xcalloc(json_array_size(a->args) + 1, sizeof(*a->argv));
    json_array_foreach (a->args, i, item)
        a->argv[i] = (char *)(uintptr_t)json_string_value(item);
    return 0;
}

static int check_stdin(struct exec_arguments *a, struct error *err)
{
    if (a->stdin_text.data && a->stdin_base64.data)
        return error_set(err, ERR_INVALID,
                         "'stdin' and 'stdin_base64' are both given: use the one that fits the data");
    if (!a->stdin_base64.data)
        return 0;
    struct error why = ERROR_INIT;
    if (base64_decode(a->stdin_base64.data, a->stdin_base64.len, &a->stdin_bytes, &why) == 0)
        return 0;
    if (why.code == ERR_LIMIT)
        return error_set(err, ERR_INVALID, "'stdin_base64' decodes to more than %lu bytes, the maximum",
                         LIMIT_STDIN_BYTES);
    return error_set(err, ERR_INVALID, "'stdin_base64' cannot be decoded: %s", why.msg);
}

static int check_working_directory(const struct exec_arguments *a, struct error *err)
{
    const char *path = a->working_directory.data;
    if (!path || path_is_absolute(path))
        return 0;
    return error_set(err, ERR_INVALID,
                     "'working_directory' is '%.200s', which is relative: give an absolute path, since every "
                     "call starts anew",
                     path);
}

static int check_computer(struct exec_arguments *a, struct error *err)
{
    a->lifetime = lifetime_of(a->temporary);
    if (!a->computer_id.data)
        return 0;
    a->id = str_trim(a->computer_id.data);
    return slug_check(a->id, err);
}

int exec_arguments_read(const json_t *arguments, const struct exec_defaults *defaults,
                        struct exec_arguments *ret, struct error *err)
{
    *ret = (struct exec_arguments){.timeout_s = defaults->timeout_s,
                                   .output_limit = defaults->output_limit,
                                   .encoding = ENCODING_TEXT,
                                   .temporary = CHOICE_NONE,
                                   .stdin_bytes = BUF_INIT(LIMIT_STDIN_BYTES)};
    size_t count = defaults->personality == PERSONALITY_KILNTAINERS ? COMMON_COUNT : ARRAY_LEN(FIELDS);
    if (bind_arguments(FIELDS, count, arguments, ret, &ret->ignored, err) < 0 ||
        check_command(ret, defaults->own_program, err) < 0 || check_stdin(ret, err) < 0 ||
        check_working_directory(ret, err) < 0 || check_computer(ret, err) < 0)
        return -1;
    ret->env_list = bind_environment(ret->env);
    return 0;
}

struct exec_request exec_arguments_request(const struct exec_arguments *a)
{
    bool decoded = a->stdin_base64.data != NULL;
    return (struct exec_request){
        .argv = a->argv,
        .command = a->command.data,
        .command_len = a->command.len,
        .cwd = a->working_directory.data,
        .env = a->env_list,
        .stdin_bytes = decoded ? buf_str(&a->stdin_bytes) : a->stdin_text.data,
        .stdin_len = decoded ? a->stdin_bytes.len : a->stdin_text.len,
        .output_limit = a->output_limit,
    };
}
