/* See provider.h. */
#include "backends/provider.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "backends/engine/contact.h"
#include "backends/strain.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"

#define ATTEMPTS 5
#define ATTEMPTS_AT_SENSE 2 /* where what comes makes none */
#define WORDS_MAX 200
#define ANSWER_TIMEOUT_NS (60 * NSEC_PER_SEC) /* for one attempt */

char *provider_base(const char *what, const char *url, struct error *err)
{
    const bool plain = str_has_prefix(url, "http://");
    size_t n = strlen(url);
    while (n > 0 && url[n - 1] == '/')
        n--;
    _cleanup_(cleanup_free) char *base = xstrndup(url, n);
    if (plain) {
        _cleanup_(cleanup_free) char *host = xstrdup(base + strlen("http://"));
        char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
        if (end)
            end[host[0] == '[' ? 1 : 0] = '\0';
        if (!host_is_loopback(host)) {
            error_set(err, ERR_INVALID, "%s: http:// is for this machine itself only; use https://", what);
            return NULL;
        }
    } else if (!str_has_prefix(url, "https://")) {
        error_set(err, ERR_INVALID, "%s: must be https://HOST[:PORT]", what);
        return NULL;
    }
    return TAKE_PTR(base);
}

bool provider_is_id(const char *id, size_t size)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    const size_t n = id ? strspn(id, allowed) : 0;
    return n > 0 && n < size && !id[n];
}

/* --- errors --- */

static enum error_code code_of_status(int status)
{
    static const struct {
        int status;
        enum error_code code;
    } codes[] = {{400, ERR_INVALID}, {401, ERR_DENIED},  {403, ERR_DENIED}, {404, ERR_NOT_FOUND},
                 {409, ERR_EXISTS},  {422, ERR_INVALID}, {429, ERR_LIMIT},  {507, ERR_LIMIT}};
    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i].status == status)
            return codes[i].code;
    return ERR_UNAVAILABLE;
}

/* Looked for before words are cut, which would leave a part of it. */
static bool has_secret(const struct provider *p, const char *words)
{
    _cleanup_(cleanup_secret_free) char *all = xstrdup(p->secret);
    char *rest = all;
    for (char *one; (one = strsep(&rest, ","));)
        if (*one && strstr(words, one))
            return true;
    return false;
}

/* {"message": ...}, {"error": ...}, or whatever it sent. */
int provider_refused(const struct provider *p, const struct http_response *r, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *body = json_parse(buf_str(&r->body), r->body.len, NULL);
    const char *message = json_get_string(body, "message");
    const char *problem = message ? message : json_get_string(body, "error");
    const char *told = problem ? problem : buf_str(&r->body);
    _cleanup_(cleanup_free) char *words = contact_beginning(has_secret(p, told) ? "" : told, WORDS_MAX);
    return error_set(err, code_of_status(r->status), "%s answered %d: %s", p->name, r->status,
                     words[0] ? words : "nothing more");
}

/* --- one attempt --- */

/* Also where nobody wants to know what it says: nonsense is no yes. */
static int parse_answer(const struct provider *p, const struct provider_call *call,
                        const struct http_response *r, bool is_wanted, json_t **ret, struct error *err)
{
    struct error why = ERROR_INIT;
    if (r->status == 204 || (!is_wanted && r->body.len == 0))
        return 0;
    if (strncasecmp(r->content_type, "application/json", strlen("application/json")) != 0)
        return error_set(err, ERR_UNAVAILABLE, "%s answered %s %.100s with no JSON but '%s'", p->name,
                         call->method, call->path, r->content_type);
    *ret = json_parse(buf_str(&r->body), r->body.len, &why);
    if (!*ret)
        return error_set(err, ERR_UNAVAILABLE, "%s answered %s %.100s with what is no JSON: %.100s", p->name,
                         call->method, call->path, why.msg);
    return 0;
}

struct straining {
    struct strain strain;
    struct buf left;
};

static int strain_piece(void *ctx, const void *bytes, size_t n, struct error *err)
{
    struct straining *s = ctx;
    return strain_feed(&s->strain, bytes, n, &s->left) < 0
               ? error_set(err, ERR_LIMIT, "the answer is too long")
               : 0;
}

static int send_call(const struct provider *p, const struct provider_call *call, const char *text,
                     const struct wait *wait, struct http_response *ret, struct error *err)
{
    struct straining straining = {.strain = {.name = call->without}, .left = BUF_INIT(PROVIDER_ANSWER_BYTES)};
    const struct http_request request = {
        .method = call->method,
        .path = call->path,
        .headers = p->headers,
        .header_count = p->header_count,
        .body = text ? text : call->bytes,
        .body_len = text ? strlen(text) : call->byte_count,
        .content_type = text ? "application/json" : call->content_type,
        .sink = call->without ? strain_piece : NULL,
        .ctx = &straining,
        .max_body = PROVIDER_ANSWER_BYTES,
        .wait = wait_at_most(wait, clock_now() + ANSWER_TIMEOUT_NS),
    };
    const int failed = http_do(p->client, &request, ret, err);
    if (failed == 0 && ret->status / 100 == 2 && call->without)
        buf_move(&ret->body, &straining.left);
    buf_done(&straining.left);
    if (failed < 0 && err->code == ERR_TIMEOUT && wait_check(wait, NULL) == 0)
        err->code = ERR_UNAVAILABLE;
    return failed;
}

/* --- again --- */

/* status 0: nobody answered. What answers nonsense may be an answer's fault, not the call's. */
static bool helps_again(const struct provider_turn *t, int status, const struct error *why)
{
    if (status == 429)
        return true;
    if ((status == 0 || status / 100 == 2) && why->code != ERR_UNAVAILABLE)
        return false;
    if (status == 0 && why->sys == ECONNREFUSED)
        return true; /* it never got there */
    const bool passing = status == 0 || status / 100 == 2 || status == 500 || status == 503 || status == 504;
    return passing && t->is_harmless;
}

/* In seconds; dates aren't understood, and mean what their absence does. */
static int64_t retry_after(const struct http_response *r)
{
    int64_t seconds = 0;
    _cleanup_(cleanup_free) char *text = http_response_header(r, "retry-after");
    if (!text || !str_parse_i64(text, &seconds) || seconds < 0)
        return 0;
    return (seconds < 3600 ? seconds : 3600) * NSEC_PER_SEC;
}

void provider_note(struct provider_turn *t, const struct http_response *r)
{
    t->status = r->status;
    t->after = r->status == 429 ? retry_after(r) : 0;
}

/* After so many attempts that say that the next may fail as well. */
static bool goes_on(const struct provider_turn *t, int failures, const struct wait *wait,
                    const struct error *why)
{
    const int most = t->status / 100 == 2 ? ATTEMPTS_AT_SENSE : ATTEMPTS;
    if (failures == 0)
        return true;
    return t->pace && failures < most && helps_again(t, t->status, why) &&
           (t->status == 429 || pace_may_repeat(t->pace)) && pace_pause(wait, pace_delay(failures - 1));
}

int provider_refused_for(const struct error *refused, int64_t ns, struct error *err)
{
    if (ns == 0)
        return error_set(err, refused->code, "%s", refused->msg);
    return error_set(err, refused->code, "%s; try again in %lld s", refused->msg,
                     (long long)((ns + NSEC_PER_SEC - 1) / NSEC_PER_SEC));
}

int provider_too_late(const struct error *refused, const struct error *why, struct error *err)
{
    const struct error *told = why->code == ERR_TIMEOUT && refused->code != ERR_NONE ? refused : why;
    return error_set(err, told->code, "%s", told->msg);
}

int provider_in_turn(struct provider_turn *t, const struct wait *wait, provider_attempt_fn *attempt,
                     void *ctx, struct error *err)
{
    struct error refused = ERROR_INIT;
    for (int failures = 0;;) {
        struct error why = ERROR_INIT;
        const uint64_t successes = pace_successes(t->pace);
        if (pace_take_turn(t->pace, wait, &why) < 0)
            return provider_too_late(&refused, &why, err);
        t->status = 0;
        t->after = 0;
        if (attempt(ctx, t, wait, &why) == 0) {
            pace_succeeded(t->pace);
            return 0;
        }
        if (t->status == 429)
            pace_slow_down(t->pace, t->after);
        /* Being too much is a question of time while others come through. */
        if (t->status != 429 || pace_successes(t->pace) == successes)
            failures++;
        if (!pace_is_bearable(wait, t->after)) {
            t->is_far = true;
            return provider_refused_for(&why, t->after, err);
        }
        if (!goes_on(t, failures, wait, &why))
            return error_set(err, why.code, "%s", why.msg);
        refused = why;
    }
}

/* --- a call --- */

struct calling {
    const struct provider *provider;
    const struct provider_call *call;
    const char *text;
    json_t **ret; /* NULL: nobody wants it */
};

static int attempt_call(void *ctx, struct provider_turn *t, const struct wait *wait, struct error *err)
{
    const struct calling *c = ctx;
    const struct provider_call *call = c->call;
    _cleanup_(http_response_done) struct http_response r = {0};
    _cleanup_(cleanup_json_decref) json_t *answer = NULL;
    if (send_call(c->provider, call, c->text, wait, &r, err) < 0)
        return -1;
    provider_note(t, &r);
    if (r.status / 100 != 2)
        return provider_refused(c->provider, &r, err);
    if (parse_answer(c->provider, call, &r, c->ret != NULL, &answer, err) < 0)
        return -1;
    if (call->header)
        *call->ret_header = http_response_header(&r, call->header);
    if (c->ret)
        *c->ret = TAKE_PTR(answer);
    return 0;
}

int provider_call(const struct provider *p, const struct provider_call *call, const struct wait *wait,
                  json_t **ret, int *ret_status, struct error *err)
{
    _cleanup_(cleanup_free) char *text = call->body ? json_dumps(call->body, JSON_COMPACT) : NULL;
    struct calling c = {.provider = p, .call = call, .text = text, .ret = ret};
    struct provider_turn turn = {
        .pace = call->pace ? call->pace : p->pace,
        .is_harmless =
            call->repeatable || strcmp(call->method, "GET") == 0 || strcmp(call->method, "DELETE") == 0,
    };
    const int failed = provider_in_turn(&turn, wait, attempt_call, &c, err);
    if (ret_status)
        *ret_status = turn.status;
    if (call->ret_far && turn.is_far)
        *call->ret_far = true;
    return failed;
}
