/* JSON-RPC 2.0: a scanner for spans, classification, and the frame around replies. */
#include "protocol/jsonrpc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"

void rpc_error_set(struct rpc_error *e, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->message, sizeof(e->message), fmt, ap);
    va_end(ap);
    e->code = code;
    if (n >= (int)sizeof(e->message))
        e->message[utf8_boundary(e->message, sizeof(e->message) - 1)] = '\0';
}

void rpc_error_done(struct rpc_error *e)
{
    json_decref(TAKE_PTR(e->data));
}

/* -- A scanner over the text of values. It finds where things stand, after the parser has said that they are
 * well formed; on any other text it stays inside and says false sooner or later. `rest` is what has not been
 * looked at yet. */

static void advance(struct span *rest, size_t n)
{
    rest->at += n;
    rest->len -= n;
}

static void skip_space(struct span *rest)
{
    while (rest->len > 0 && memchr(" \t\r\n", *rest->at, 4))
        advance(rest, 1);
}

static bool skip_byte(struct span *rest, char c)
{
    skip_space(rest);
    if (rest->len == 0 || *rest->at != c)
        return false;
    advance(rest, 1);
    return true;
}

static bool skip_string(struct span *rest)
{
    for (size_t i = 1; i < rest->len; i++) {
        if (rest->at[i] == '\\') {
            i++;
        } else if (rest->at[i] == '"') {
            advance(rest, i + 1);
            return true;
        }
    }
    return false;
}

static bool skip_nested(struct span *rest)
{
    size_t depth = 0;
    while (rest->len > 0) {
        char c = *rest->at;
        if (c == '"') {
            if (!skip_string(rest))
                return false;
            continue;
        }
        advance(rest, 1);
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return true;
    }
    return false;
}

static bool skip_scalar(struct span *rest)
{
    size_t n = 0;
    while (n < rest->len && !memchr(",]} \t\r\n", rest->at[n], 7))
        n++;
    advance(rest, n);
    return n > 0;
}

static bool next_value(struct span *rest, struct span *ret)
{
    skip_space(rest);
    if (rest->len == 0)
        return false;
    struct span value = {.at = rest->at};
    char c = *rest->at;
    bool ok = c == '"' ? skip_string(rest) : c == '{' || c == '[' ? skip_nested(rest) : skip_scalar(rest);
    value.len = (size_t)(rest->at - value.at);
    if (ok)
        *ret = value;
    return ok;
}

/* The next member of an object whose opening brace was skipped; commas are skipped as they come. */
static bool next_member(struct span *rest, struct span *ret_key, struct span *ret_value)
{
    skip_byte(rest, ',');
    skip_space(rest);
    return rest->len > 0 && *rest->at == '"' && next_value(rest, ret_key) && skip_byte(rest, ':') &&
           next_value(rest, ret_value);
}

/* Keys may be written with escapes; but the value keeps the text's order, so counting members is enough. */
static bool find_member(struct span text, const json_t *object, const char *name, struct span *ret)
{
    struct span rest = text, key, value;
    if (!skip_byte(&rest, '{'))
        return false;
    const char *k;
    json_t *v;
    json_object_foreach ((json_t *)object, k, v) {
        if (!next_member(&rest, &key, &value))
            return false;
        if (strcmp(k, name) == 0) {
            *ret = value;
            return true;
        }
    }
    return false;
}

bool message_locate(const struct message *m, const char *const *path, struct span *ret)
{
    const json_t *value = m->root;
    struct span text = m->text;
    for (; *path; path++) {
        const json_t *member = json_object_get(value, *path);
        if (!member || !find_member(text, value, *path, &text))
            return false;
        value = member;
    }
    *ret = text;
    return true;
}

static bool span_is_integer(struct span text)
{
    size_t i = text.len > 0 && text.at[0] == '-' ? 1 : 0;
    if (i == text.len || (text.at[i] == '0' && i + 1 < text.len))
        return false;
    for (; i < text.len; i++)
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
    return true;
}

bool span_is_id(struct span text)
{
    return text.len > 0 && (text.at[0] == '"' || span_is_integer(text));
}

int id_key(const json_t *value, struct span text, struct buf *ret)
{
    if (json_is_string(value))
        return json_append(ret, value);
    if (text.len == 2 && memcmp(text.at, "-0", 2) == 0)
        return buf_append(ret, "0", 1);
    return buf_append(ret, text.at, text.len);
}

/* What the parser refused may still have an id that the client waits for (a lone surrogate in an argument,
 * say): it is taken if the text is at least one balanced object with exactly one plain "id". */
static struct span salvage_id(struct span text)
{
    const struct span none = {NULL, 0};
    struct span rest = text, key, value, id = none;
    if (!skip_byte(&rest, '{'))
        return none;
    while (next_member(&rest, &key, &value)) {
        if (key.len != 4 || memcmp(key.at, "\"id\"", 4) != 0)
            continue;
        if (id.at)
            return none;
        id = value;
    }
    if (!skip_byte(&rest, '}'))
        return none;
    skip_space(&rest);
    if (rest.len > 0 || !span_is_id(id) || id.len > LIMIT_REQUEST_ID_BYTES)
        return none;
    for (size_t i = 0; i < id.len; i++)
        if (id.at[i] < ' ' || id.at[i] > '~' || id.at[i] == '\\')
            return none;
    return id;
}

/* -- Classification. */

static void refuse(struct message *m, int code, const char *why)
{
    m->kind = MESSAGE_REFUSED;
    rpc_error_set(&m->error, code, "%s", why);
    m->error.http_status = 400;
}

static const char *read_id(struct message *m)
{
    static const char *const path[] = {"id", NULL};
    struct span id;
    if (!message_locate(m, path, &id) || !span_is_id(id))
        return "Invalid request: id must be a string or an integer";
    if (id.len > LIMIT_REQUEST_ID_BYTES)
        return "Invalid request: id is longer than 1024 bytes";
    m->id = id;
    return NULL;
}

static const char *read_progress_token(struct message *m)
{
    static const char *const path[] = {"params", "_meta", "progressToken", NULL};
    if (!json_object_get(json_get_object(m->params, "_meta"), "progressToken"))
        return NULL;
    struct span token;
    if (!message_locate(m, path, &token) || !span_is_id(token))
        return "Invalid params: progressToken must be a string or an integer";
    if (token.len > LIMIT_PROGRESS_TOKEN_BYTES)
        return "Invalid params: progressToken is longer than 1024 bytes";
    m->progress_token = token;
    return NULL;
}

/* An object that has a method: a request if it has an id. */
static void classify_call(struct message *m, const json_t *method)
{
    const json_t *params = json_object_get(m->root, "params");
    const char *version = json_get_string(m->root, "jsonrpc");
    bool has_id = json_object_get(m->root, "id");
    const char *wrong = has_id ? read_id(m) : NULL;
    if (wrong) {
        refuse(m, RPC_INVALID_REQUEST, wrong);
        return;
    }
    if (!version || strcmp(version, "2.0") != 0) {
        refuse(m, RPC_INVALID_REQUEST, "Invalid request: jsonrpc must be \"2.0\"");
        return;
    }
    if (!json_is_string(method) || strlen(json_string_value(method)) != json_string_length(method)) {
        refuse(m, RPC_INVALID_REQUEST, "Invalid request: method must be a string without NUL");
        return;
    }
    m->method = json_string_value(method);
    m->params = json_is_object(params) ? params : NULL;
    m->kind = has_id ? MESSAGE_REQUEST : MESSAGE_NOTIFICATION;
    if (!has_id)
        return;
    wrong = params && !m->params ? "Invalid params: params must be an object" : read_progress_token(m);
    if (wrong)
        refuse(m, RPC_INVALID_PARAMS, wrong);
}

static void classify(struct message *m)
{
    if (json_is_array(m->root)) {
        m->kind = MESSAGE_BATCH;
        return;
    }
    const json_t *method = json_object_get(m->root, "method");
    if (method) {
        classify_call(m, method);
    } else if (json_object_get(m->root, "result") || json_object_get(m->root, "error")) {
        m->kind = MESSAGE_RESPONSE;
    } else if (json_is_object(m->root)) {
        if (json_object_get(m->root, "id"))
            read_id(m);
        refuse(m, RPC_INVALID_REQUEST, "Invalid request: method is missing");
    } else {
        refuse(m, RPC_INVALID_REQUEST, "Invalid request: a message is a JSON object");
    }
}

void message_parse(struct message *ret, const char *bytes, size_t n)
{
    struct error err = ERROR_INIT;
    *ret = (struct message){.text = {bytes, n}};
    ret->root = json_parse_few(bytes, n, LIMIT_MESSAGE_VALUES, &err);
    if (ret->root) {
        classify(ret);
        return;
    }
    ret->kind = MESSAGE_REFUSED;
    ret->id = salvage_id(ret->text);
    rpc_error_set(&ret->error, RPC_PARSE_ERROR, "Parse error: %s", err.msg);
}

void message_done(struct message *m)
{
    rpc_error_done(&m->error);
    json_decref(TAKE_PTR(m->root));
}

void message_split(struct message *batch, struct message *ret, size_t count)
{
    struct span rest = batch->text;
    skip_byte(&rest, '[');
    for (size_t i = 0; i < count; i++) {
        ret[i] = (struct message){.root = json_incref(json_array_get(batch->root, i))};
        skip_byte(&rest, ',');
        next_value(&rest, &ret[i].text);
    }
    json_decref(TAKE_PTR(batch->root));
    for (size_t i = 0; i < count; i++) {
        classify(&ret[i]);
        if (ret[i].kind == MESSAGE_BATCH)
            refuse(&ret[i], RPC_INVALID_REQUEST, "Invalid request: a batch inside a batch");
    }
}

/* -- Replies. */

static void envelope_begin(struct json_writer *w, struct buf *out, struct span id)
{
    jw_init(w, out);
    jw_begin_object(w);
    jw_key(w, "jsonrpc");
    jw_string(w, "2.0");
    jw_key(w, "id");
    if (id.at)
        jw_raw(w, id.at, id.len);
    else
        jw_null(w);
}

void envelope_open(struct json_writer *w, struct buf *out, struct span id)
{
    envelope_begin(w, out, id);
    jw_key(w, "result");
    jw_begin_object(w);
}

void envelope_close(struct json_writer *w)
{
    jw_end_object(w);
    jw_end_object(w);
}

int envelope_error(struct buf *out, struct span id, const struct rpc_error *e)
{
    struct json_writer w;
    buf_clear(out);
    envelope_begin(&w, out, id);
    jw_key(&w, "error");
    jw_begin_object(&w);
    jw_key(&w, "code");
    jw_integer(&w, e->code);
    jw_key(&w, "message");
    jw_string(&w, e->message);
    if (e->data) {
        jw_key(&w, "data");
        jw_value(&w, e->data);
    }
    envelope_close(&w);
    return w.failed ? -1 : 0;
}
