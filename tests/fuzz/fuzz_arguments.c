/* Fuzz: any JSON text as the arguments of the exec tools; the first byte says of which one. What is accepted
 * is a request in order within itself and within the limits; what is refused can be told to the client. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/utf8.h"
#include "computers/computers.h"
#include "tools/exec_arguments.h"
#include "tools/result.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const struct error *why)
{
    _cleanup_(buf_done) struct buf members = BUF_INIT(MIB), text = BUF_INIT(MIB);
    struct error err = ERROR_INIT;
    assert(why->code == ERR_INVALID && why->msg[0]);
    if (result_write_error(why, &members, &err) < 0 || buf_printf(&text, "{%s}", buf_str(&members)) < 0)
        abort();
    json_t *result = json_parse(text.data, text.len, &err);
    assert(json_is_true(json_object_get(result, "isError")));
    json_decref(result);
}

static size_t check_strings(char *const *strings, size_t max_each, size_t max_all)
{
    size_t count = 0, total = 0;
    for (; strings && strings[count]; count++) {
        assert(strlen(strings[count]) < max_each && utf8_valid(strings[count], strlen(strings[count])));
        total += strlen(strings[count]) + 1;
    }
    assert(total <= max_all);
    return count;
}

static void check_request(const struct exec_request *r)
{
    assert(!r->command != !r->argv);
    assert(!r->command || (r->command_len > 0 && r->command_len <= LIMIT_COMMAND_BYTES &&
                           strlen(r->command) == r->command_len));
    const size_t arguments = check_strings(r->argv, LIMIT_ARG_BYTES, LIMIT_ARGS_BYTES);
    assert(!r->argv || (arguments > 0 && arguments <= LIMIT_ARGS_COUNT && r->argv[0][0]));
    assert(check_strings(r->env, LIMIT_ARG_BYTES, LIMIT_ENV_BYTES) <= LIMIT_ENV_COUNT);
    for (char *const *entry = r->env; entry && *entry; entry++)
        assert(strchr(*entry, '=') > *entry);
    assert(!r->cwd || (path_is_absolute(r->cwd) && strlen(r->cwd) < LIMIT_CWD_BYTES));
    assert(r->stdin_len <= LIMIT_STDIN_BYTES && (r->stdin_bytes || r->stdin_len == 0));
    assert(r->output_limit >= 1 && r->output_limit <= LIMIT_OUTPUT_BYTES_MAX);
}

static void check_arguments(const struct exec_arguments *a, const json_t *given, bool computers)
{
    assert(a->timeout_s >= LIMIT_TIMEOUT_MIN_S && a->timeout_s <= LIMIT_TIMEOUT_MAX_S);
    assert(a->encoding == ENCODING_TEXT || a->encoding == ENCODING_BASE64);
    assert(!a->id || (computers && slug_check(a->id, NULL) == 0));
    assert(computers || a->lifetime == LIFETIME_AS_IS);
    size_t i;
    const json_t *name;
    json_array_foreach (a->ignored, i, name)
        assert(json_object_get(given, json_string_value(name)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct error err = ERROR_INIT;
    _cleanup_(cleanup_json_decref) json_t *given = json_parse((const char *)data + 1, size - 1, &err);
    if (!json_is_object(given))
        return 0;
    const bool computers = data[0] & 1;
    const struct exec_defaults defaults = {computers ? PERSONALITY_COMPUTER : PERSONALITY_KILNTAINERS, 120,
                                           1000};
    _cleanup_(exec_arguments_done) struct exec_arguments a;
    if (exec_arguments_read(given, &defaults, &a, &err) < 0) {
        check_refusal(&err);
        return 0;
    }
    check_arguments(&a, given, computers);
    const struct exec_request request = exec_arguments_request(&a);
    check_request(&request);
    return 0;
}
