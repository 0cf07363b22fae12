/* Results of tool calls. The same object is written twice, once inside a string: see json.h, jw_begin_text.
 *
 * Of each stream there is a view: its head, and its tail behind a gap if it was cut. A byte of output may
 * become thirteen in the reply (a control character: six in structured content, seven in the text); when that
 * is too much for one reply, views are cut to half until it fits, which is counted before it is written. */
#include "tools/result.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/utf8.h"

#define MARKER_BYTES 512 /* of what stands in a gap; paths are shorter */
#define TEXT_EXTRA_BYTES 128
#define IGNORED_BYTES 512   /* of a note that names arguments */
#define GROWTH_MAX 13       /* of a byte of output */
#define MEMBERS_BYTES 65536 /* more than all that isn't output comes to */

struct view {
    const char *name;
    const char *head, *tail;
    size_t head_len, tail_len;
    uint64_t total, omitted;
    const char *path; /* of the full output in the computer, or NULL */
    uint64_t path_bytes;
    bool replaced; /* text only: some bytes are no UTF-8 */
};

/* What write_object needs: the views and the streams' content made from them. */
struct content {
    const struct exec_reply *reply;
    struct view views[2];
    struct buf joined[2]; /* where a stream isn't just its head */
    const char *bytes[2];
    size_t len[2];
    char note[1024];
};

static struct view view_of(const char *name, const struct exec_stream *s)
{
    return (struct view){.name = name,
                         .head = buf_str(&s->head),
                         .head_len = s->head.len,
                         .tail = buf_str(&s->tail),
                         .tail_len = s->tail.len,
                         .total = s->total,
                         .omitted = s->omitted,
                         .path = s->path,
                         .path_bytes = s->path_bytes};
}

/* Half of what is shown, from its middle. */
static void view_halve(struct view *v)
{
    size_t shown = v->head_len + v->tail_len, keep = shown / 2;
    if (v->tail_len == 0) { /* not cut until now: what is kept of it are its two ends */
        v->tail_len = v->head_len;
        v->tail = v->head;
    }
    size_t head = keep / 2 < v->head_len ? keep / 2 : v->head_len;
    size_t tail = keep - head < v->tail_len ? keep - head : v->tail_len;
    v->tail += v->tail_len - tail;
    v->tail_len = tail;
    v->head_len = head;
    v->omitted += shown - head - tail;
}

/* A character that the gap has cut in two belongs to the gap. */
static void view_trim_text(struct view *v)
{
    if (v->omitted > 0) {
        size_t head = utf8_boundary(v->head, v->head_len);
        size_t skip = utf8_leading_fragment(v->tail, v->tail_len);
        v->omitted += v->head_len - head + skip;
        v->head_len = head;
        v->tail += skip;
        v->tail_len -= skip;
    }
    v->replaced = !utf8_valid(v->head, v->head_len) || (v->omitted > 0 && !utf8_valid(v->tail, v->tail_len));
}

static void format_marker(const struct view *v, char ret[MARKER_BYTES])
{
    int n = snprintf(ret, MARKER_BYTES, "\n[... %llu bytes omitted", (unsigned long long)v->omitted);
    if (v->path && n > 0)
        n += snprintf(ret + n, MARKER_BYTES - (size_t)n, "; %s is in %.256s",
                      v->path_bytes == v->total ? "the full output" : "more of it", v->path);
    snprintf(ret + n, MARKER_BYTES - (size_t)n, " ...]\n");
}

/* head + what stands in the gap + tail + extra. */
static int join(struct buf *b, const struct view *v, const char *gap, const char *extra)
{
    buf_clear(b);
    b->max = v->head_len + v->tail_len + MARKER_BYTES + TEXT_EXTRA_BYTES;
    if (buf_append(b, v->head, v->head_len) < 0 || buf_append_str(b, gap) < 0 ||
        buf_append(b, v->tail, v->tail_len) < 0)
        return -1;
    if (*extra && b->len > 0 && b->data[b->len - 1] != '\n' && buf_append_byte(b, '\n') < 0)
        return -1;
    return buf_append_str(b, extra);
}

static int make_stream(struct content *c, int i, const char *extra)
{
    struct view *v = &c->views[i];
    char marker[MARKER_BYTES] = "";
    if (!c->reply->base64)
        view_trim_text(v);
    if (!c->reply->base64 && v->omitted > 0)
        format_marker(v, marker);
    bool whole = v->omitted == 0 && !*extra;
    if (!whole && join(&c->joined[i], v, marker, extra) < 0)
        return -1;
    c->bytes[i] = whole ? v->head : buf_str(&c->joined[i]);
    c->len[i] = whole ? v->head_len : c->joined[i].len;
    return 0;
}

static int make_streams(struct content *c)
{
    char extra[TEXT_EXTRA_BYTES] = "";
    if (c->reply->result->timed_out && !c->reply->base64) /* in the peers' words, which programs look for */
        snprintf(extra, sizeof(extra), "[kilntainers: command timed out after %.10gs]", c->reply->timeout_s);
    return make_stream(c, 0, "") < 0 || make_stream(c, 1, extra) < 0 ? -1 : 0;
}

_printf_(2, 3) static void add_note(struct content *c, const char *fmt, ...)
{
    size_t n = strlen(c->note);
    va_list ap;
    n += (size_t)snprintf(c->note + n, sizeof(c->note) - n, "%s", n > 0 ? "; " : "");
    va_start(ap, fmt);
    vsnprintf(c->note + n, sizeof(c->note) - n, fmt, ap);
    va_end(ap);
}

static void make_note(struct content *c)
{
    const struct exec_reply *r = c->reply;
    if (r->result->note)
        add_note(c, "%.400s", r->result->note);
    if (r->result->oom_killed)
        add_note(c, "the memory limit of the computer ended a process (it has %.200s)",
                 r->limits ? r->limits : "a limit");
    if (r->nameless)
        add_note(c,
                 "this computer was made for this call: pass computer_id '%s' to use it again, since a call "
                 "without it makes another one",
                 r->computer_id);
}

static void write_member_integer(struct json_writer *w, const char *stream, const char *suffix,
                                 uint64_t value)
{
    char key[48];
    snprintf(key, sizeof(key), "%s%s", stream, suffix);
    jw_key(w, key);
    jw_integer(w, (int64_t)value);
}

/* Where the gap is in what is returned: replacements are longer than what they replace. */
static void write_gap(struct json_writer *w, const struct view *v)
{
    char key[48];
    if (v->omitted == 0)
        return;
    const size_t returned = v->replaced ? utf8_lossy_length(v->head, v->head_len) : v->head_len;
    write_member_integer(w, v->name, "_bytes", v->total);
    write_member_integer(w, v->name, "_head_bytes", returned);
    write_member_integer(w, v->name, "_omitted_bytes", v->omitted);
    if (!v->path)
        return;
    snprintf(key, sizeof(key), "%s_path", v->name);
    jw_key(w, key);
    jw_string(w, v->path);
    if (v->path_bytes < v->total)
        write_member_integer(w, v->name, "_path_bytes", v->path_bytes);
}

static void write_truncated(struct json_writer *w, const struct content *c)
{
    if (c->views[0].omitted == 0 && c->views[1].omitted == 0)
        return;
    jw_key(w, "truncated");
    jw_begin_object(w);
    write_gap(w, &c->views[0]);
    write_gap(w, &c->views[1]);
    jw_end_object(w);
}

static void write_replaced(struct json_writer *w, const struct content *c)
{
    if (!c->views[0].replaced && !c->views[1].replaced)
        return;
    jw_key(w, "invalid_utf8");
    jw_begin_array(w);
    for (int i = 0; i < 2; i++)
        if (c->views[i].replaced)
            jw_string(w, c->views[i].name);
    jw_end_array(w);
}

static void write_background(struct json_writer *w, const struct exec_result *r)
{
    if (r->background_count == 0 && !r->background_more)
        return;
    jw_key(w, "background");
    jw_begin_array(w);
    for (size_t i = 0; i < r->background_count; i++)
        jw_integer(w, r->background[i]);
    jw_end_array(w);
    if (r->background_more) {
        jw_key(w, "background_more");
        jw_bool(w, true);
    }
}

static void write_signal(struct json_writer *w, const struct exec_result *r)
{
    char name[16];
    if (r->signal == 0 || r->timed_out)
        return;
    const char *known = sigabbrev_np(r->signal);
    if (known)
        snprintf(name, sizeof(name), "SIG%s", known);
    else
        snprintf(name, sizeof(name), "%d", r->signal);
    jw_key(w, "signal");
    jw_string(w, name);
}

static void write_flag(struct json_writer *w, const char *key, bool value)
{
    if (!value)
        return;
    jw_key(w, key);
    jw_bool(w, true);
}

bool result_write_expiry(struct json_writer *w, double expires_in_s)
{
    if (expires_in_s < 0)
        return false;
    jw_key(w, "expires_in_s");
    jw_real(w, (double)(int64_t)(expires_in_s * 10 + 0.5) / 10);
    return true;
}

/* Members that are there only when they say something. */
static void write_optional(struct json_writer *w, const struct content *c)
{
    const struct exec_reply *r = c->reply;
    write_flag(w, "created", r->created);
    if (r->expires_in_s > 0)
        result_write_expiry(w, r->expires_in_s);
    write_flag(w, "timed_out", r->result->timed_out);
    write_signal(w, r->result);
    write_flag(w, "oom_killed", r->result->oom_killed);
    write_flag(w, "disk_full", r->result->disk_full);
    write_truncated(w, c);
    write_background(w, r->result);
    if (r->base64) {
        jw_key(w, "output_encoding");
        jw_string(w, "base64");
    }
    write_replaced(w, c);
    if (r->ignored) {
        jw_key(w, "ignored_arguments");
        jw_value(w, r->ignored);
    }
    if (*c->note) {
        jw_key(w, "note");
        jw_string(w, c->note);
    }
}

/* The members and their order up to exec_duration_ms are the peers'. */
static void write_exec(struct json_writer *w, const void *content)
{
    const struct content *c = content;
    const struct exec_reply *r = c->reply;
    jw_begin_object(w);
    if (r->computer_id) {
        jw_key(w, "computer_id");
        jw_string(w, r->computer_id);
        jw_key(w, "temporary");
        jw_bool(w, r->temporary);
    }
    for (int i = 0; i < 2; i++) {
        jw_key(w, c->views[i].name);
        if (r->base64)
            jw_base64(w, c->bytes[i], c->len[i]);
        else
            jw_string_n(w, c->bytes[i], c->len[i]);
    }
    jw_key(w, "exit_code");
    jw_integer(w, r->result->exit_code);
    jw_key(w, "exec_duration_ms");
    jw_integer(w, (r->result->duration_ns + 500000) / 1000000);
    write_optional(w, c);
    jw_end_object(w);
}

static void write_error(struct json_writer *w, const void *error)
{
    const struct error *why = error;
    jw_begin_object(w);
    jw_key(w, "error");
    jw_string(w, why->msg);
    jw_key(w, "code");
    jw_string(w, error_code_name(why->code));
    jw_end_object(w);
}

/* The result's members around an object, which `write` is asked for twice. On failure ret is as before. */
static int write_result(struct buf *ret, void (*write)(struct json_writer *w, const void *object),
                        const void *object, bool is_error)
{
    const size_t before = ret->len;
    struct json_writer text, structured;
    jw_init(&text, ret);
    jw_init(&structured, ret);
    int r = buf_append_str(ret, "\"content\":[{\"type\":\"text\",\"text\":");
    jw_begin_text(&text);
    write(&text, object);
    jw_end_text(&text);
    r |= buf_append_str(ret, "}],\"structuredContent\":");
    write(&structured, object);
    r |= buf_append_str(ret, is_error ? ",\"isError\":true" : ",\"isError\":false");
    if (r == 0 && !text.failed && !structured.failed)
        return 0;
    ret->len = before;
    return -1;
}

static size_t shown(const struct content *c)
{
    return c->views[0].head_len + c->views[0].tail_len + c->views[1].head_len + c->views[1].tail_len;
}

/* Mostly there is no question. What is written in vain would have been memory all the same. */
static bool fits(const struct content *c, const struct buf *ret)
{
    const size_t room = ret->max - ret->len;
    struct json_writer text, structured;
    if (shown(c) * GROWTH_MAX + MEMBERS_BYTES <= room)
        return true;
    jw_init(&text, NULL);
    jw_init(&structured, NULL);
    jw_begin_text(&text);
    write_exec(&text, c);
    jw_end_text(&text);
    write_exec(&structured, c);
    return text.counted + structured.counted <= room;
}

int result_write_exec(const struct exec_reply *reply, struct buf *ret, struct error *err)
{
    struct content c = {
        .reply = reply,
        .views = {view_of("stdout", &reply->result->out), view_of("stderr", &reply->result->err)}};
    make_note(&c);
    int r;
    for (;;) {
        r = make_streams(&c);
        if (r == 0)
            r = fits(&c, ret) ? write_result(ret, write_exec, &c, false) : -1;
        if (r == 0 || shown(&c) == 0)
            break;
        view_halve(&c.views[0]);
        view_halve(&c.views[1]);
    }
    buf_done(&c.joined[0]);
    buf_done(&c.joined[1]);
    return r == 0 ? 0 : error_set(err, ERR_LIMIT, "the result does not fit into a reply: lower output_limit");
}

void result_write_ignored(struct json_writer *w, const json_t *ignored)
{
    if (!ignored)
        return;
    _cleanup_(buf_done) struct buf text = BUF_INIT(IGNORED_BYTES); /* what doesn't fit isn't named */
    size_t i;
    const json_t *name;
    (void)!buf_append_str(&text, "unknown to this tool, and ignored:");
    json_array_foreach (ignored, i, name)
        (void)!buf_printf(&text, "%s '%.60s'", i ? "," : "", json_string_value(name));
    jw_key(w, "note");
    jw_string(w, buf_str(&text));
}

int result_write(void (*write)(struct json_writer *w, const void *object), const void *object,
                 struct buf *ret, struct error *err)
{
    return write_result(ret, write, object, false) == 0
               ? 0
               : error_set(err, ERR_LIMIT, "the result does not fit into a reply: ask for less at a time");
}

int result_write_error(const struct error *why, struct buf *ret, struct error *err)
{
    if (write_result(ret, write_error, why, true) == 0) {
        if (err)
            *err = *why;
        return 0;
    }
    return error_set(err, ERR_LIMIT, "the error does not fit into a reply: %.300s", why->msg);
}
