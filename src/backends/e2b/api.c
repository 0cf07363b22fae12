/* The control API. Source: e2b 2.51.0 (npm), on the wire. Creating and connecting are version 2 of these
 * calls, the rest has no version. */
#include <stdio.h>
#include <string.h>

#include "backends/e2b/private.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"

#define PAGES_MAX 200 /* of a list */
#define PAGE_SIZE 100
#define SEARCH_TIMEOUT_NS (20 * NSEC_PER_SEC)

bool e2b_is_id(const char *id)
{
    return provider_is_id(id, E2B_ID_SIZE);
}

/* It becomes a header. */
static bool is_token(const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return n < E2B_TOKEN_SIZE;
}

static bool is_domain(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.:");
    return n > 0 && n < E2B_HOST_SIZE && !text[n];
}

static int read_sandbox(const json_t *answer, struct e2b_sandbox *ret, struct error *err)
{
    struct e2b_sandbox s = {0};
    const char *id = json_get_string(answer, "sandboxID");
    const char *token = json_get_string(answer, "envdAccessToken");
    const char *domain = json_get_string(answer, "domain");
    if (!e2b_is_id(id))
        return error_set(err, ERR_UNAVAILABLE, "E2B answered without the id of a sandbox");
    if ((token && !is_token(token)) || (domain && *domain && !is_domain(domain)))
        return error_set(err, ERR_UNAVAILABLE, "E2B answered with a token or a domain that is none");
    snprintf(s.id, sizeof(s.id), "%s", id);
    snprintf(s.token, sizeof(s.token), "%s", token ? token : "");
    snprintf(s.domain, sizeof(s.domain), "%s", domain ? domain : "");
    *ret = s;
    return 0;
}

static int call(struct e2b_backend *b, const struct provider_call *c, const struct wait *wait, json_t **ret,
                int *ret_status, struct error *err)
{
    if (!b->api_key)
        return error_set(
            err, ERR_DENIED,
            "E2B needs an API key: set E2B_API_KEY, or give --e2b-api-key (e2b.dev/dashboard has "
            "one)");
    if (provider_call(&b->api, c, wait, ret, ret_status, err) == 0)
        return 0;
    return err && err->code == ERR_DENIED ? error_prefix(err, "E2B refuses the API key (E2B_API_KEY)") : -1;
}

/* POST of what is as good twice as once. */
static int post(struct e2b_backend *b, const char *path, const json_t *body, const struct wait *wait,
                struct error *err)
{
    const struct provider_call c = {.method = "POST", .path = path, .body = body, .repeatable = true};
    return call(b, &c, wait, NULL, NULL, err);
}

int e2b_api_check(struct e2b_backend *b, const struct wait *wait, struct error *err)
{
    const struct provider_call c = {.method = "GET", .path = "/v2/sandboxes?limit=1"};
    return call(b, &c, wait, NULL, NULL, err);
}

/* --- creation --- */

static void set_pairs(json_t *object, char *const *pairs)
{
    for (; pairs && *pairs; pairs++) {
        const char *equals = strchr(*pairs, '=');
        _cleanup_(cleanup_free) char *name = xstrndup(*pairs, (size_t)(equals - *pairs));
        json_object_set_new(object, name, json_string(equals + 1));
    }
}

static json_t *metadata_of(const struct e2b_backend *b, const struct computer_spec *spec, bool network)
{
    json_t *meta = json_object();
    set_pairs(meta, b->metadata);
    labels_write(meta, spec);
    json_object_set_new(meta, LABEL_NETWORK, json_string(network ? "true" : "false"));
    return meta;
}

/* A permanent one whose lifetime ends is paused, and its disk kept; a temporary one ends. */
static json_t *creation(const struct e2b_backend *b, const struct computer_spec *spec, bool network)
{
    json_t *env = json_object();
    set_pairs(env, b->env);
    return json_pack("{s:s, s:I, s:o, s:o, s:b, s:b}", "templateID", b->template, "timeout",
                     (json_int_t)b->lifetime_s, "metadata", metadata_of(b, spec, network), "envVars", env,
                     "allow_internet_access", network, "autoPause", !spec->temporary);
}

struct search {
    char id[E2B_ID_SIZE];
};

static int on_first(void *ctx, const json_t *sandbox, struct error *err)
{
    struct search *s = ctx;
    const char *id = json_get_string(sandbox, "sandboxID");
    if (e2b_is_id(id))
        snprintf(s->id, sizeof(s->id), "%s", id);
    return 0;
}

/* Nobody knows whether a creation without an answer took effect, and one must not be paid for twice, or left:
 * it is looked for by the key of the creation. Also when the call is over, which must leave nothing. */
static int look_for_lost(struct e2b_backend *b, const struct computer_spec *spec, const struct wait *wait,
                         struct e2b_sandbox *ret, struct error *err)
{
    struct search s = {0};
    bool ran;
    const bool is_over = wait_check(wait, NULL) < 0;
    const struct wait bounded = {.deadline = clock_now() + SEARCH_TIMEOUT_NS,
                                 .cancel = is_over ? NULL : wait->cancel};
    const char *const pairs[][2] = {{LABEL_KEY, spec->key}};
    if (e2b_api_list(b, pairs, 1, &bounded, on_first, &s, NULL) < 0 || !s.id[0])
        return -1;
    if (!is_over && e2b_api_connect(b, s.id, wait, ret, &ran, err) == 0)
        return 0;
    e2b_api_kill(b, s.id, &bounded, NULL);
    return -1;
}

int e2b_api_create(struct e2b_backend *b, const struct computer_spec *spec, bool network,
                   const struct wait *wait, struct e2b_sandbox *ret, struct error *err)
{
    int status = 0;
    struct error why = ERROR_INIT, ignored = ERROR_INIT;
    _cleanup_(cleanup_json_decref) json_t *body = creation(b, spec, network);
    _cleanup_(cleanup_json_decref) json_t *answer = NULL;
    const struct provider_call c = {
        .method = "POST", .path = "/v2/sandboxes", .body = body, .pace = b->beginning};
    if (wait_check(wait, err) < 0)
        return -1;
    const bool answered = call(b, &c, wait, &answer, &status, &why) == 0;
    if (answered && read_sandbox(answer, ret, &why) == 0)
        return 0;
    const bool unknown = answered || status == 0 || status >= 500;
    if (unknown && why.code != ERR_DENIED && look_for_lost(b, spec, wait, ret, &ignored) == 0)
        return 0;
    if (why.code == ERR_NOT_FOUND || why.code == ERR_INVALID)
        return error_set(
            err, ERR_INVALID,
            "E2B can't make a sandbox of the template '%.80s' (--e2b-template) with a lifetime of "
            "%lld s (--e2b-sandbox-timeout): %.200s",
            b->template, (long long)b->lifetime_s, why.msg);
    return error_set(err, why.code, "%s", why.msg);
}

/* --- one sandbox --- */

static int gone_is_fine(int failed, const struct error *why, struct error *err)
{
    if (failed == 0 || why->code == ERR_NOT_FOUND)
        return 0;
    return error_set(err, why->code, "%s", why->msg);
}

int e2b_api_connect(struct e2b_backend *b, const char *id, const struct wait *wait, struct e2b_sandbox *ret,
                    bool *ret_ran, struct error *err)
{
    int status = 0;
    _cleanup_(cleanup_json_decref) json_t *answer = NULL;
    _cleanup_(cleanup_json_decref) json_t *body = json_pack("{s:I}", "timeout", (json_int_t)b->lifetime_s);
    _cleanup_(cleanup_free) char *path = xasprintf("/v2/sandboxes/%s/connect", id);
    const struct provider_call c = {
        .method = "POST", .path = path, .body = body, .repeatable = true, .pace = b->beginning};
    if (call(b, &c, wait, &answer, &status, err) < 0 || read_sandbox(answer, ret, err) < 0)
        return -1;
    *ret_ran = status == 200;
    return 0;
}

int e2b_api_pause(struct e2b_backend *b, const char *id, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_json_decref) json_t *body = json_pack("{s:b}", "memory", 0);
    _cleanup_(cleanup_free) char *path = xasprintf("/sandboxes/%s/pause", id);
    if (post(b, path, body, wait, &why) == 0 || why.code == ERR_EXISTS)
        return 0;
    return error_set(err, why.code, "%s", why.msg);
}

int e2b_api_kill(struct e2b_backend *b, const char *id, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_free) char *path = xasprintf("/sandboxes/%s", id);
    const struct provider_call c = {.method = "DELETE", .path = path};
    return gone_is_fine(call(b, &c, wait, NULL, NULL, &why), &why, err);
}

int e2b_api_renew(struct e2b_backend *b, const char *id, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *body = json_pack("{s:I}", "timeout", (json_int_t)b->lifetime_s);
    _cleanup_(cleanup_free) char *path = xasprintf("/sandboxes/%s/timeout", id);
    return post(b, path, body, wait, err);
}

int e2b_api_look(struct e2b_backend *b, const char *id, const struct wait *wait, json_t **ret,
                 struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("/sandboxes/%s", id);
    const struct provider_call c = {.method = "GET", .path = path};
    return call(b, &c, wait, ret, NULL, err);
}

/* --- lists --- */

/* Names and values are encoded, then joined as a form, then encoded again as a value of the query. */
static char *filter_of(const char *const pairs[][2], size_t count)
{
    struct buf form = BUF_INIT(64 * KIB);
    for (size_t n = 0; n < count; n++) {
        _cleanup_(cleanup_free) char *name = http_encode(pairs[n][0]), *value = http_encode(pairs[n][1]);
        _cleanup_(cleanup_free) char *form_name = http_encode(name), *form_value = http_encode(value);
        (void)!buf_printf(&form, "%s%s=%s", n > 0 ? "&" : "", form_name, form_value);
    }
    char *filter = http_encode(buf_str(&form));
    buf_done(&form);
    return filter;
}

static int one_page(struct e2b_backend *b, const char *path, const struct wait *wait,
                    int (*fn)(void *ctx, const json_t *sandbox, struct error *err), void *ctx,
                    char **ret_next, struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *list = NULL;
    const struct provider_call c = {
        .method = "GET", .path = path, .header = "x-next-token", .ret_header = ret_next};
    size_t n;
    json_t *sandbox;
    if (call(b, &c, wait, &list, NULL, err) < 0)
        return -1;
    if (!json_is_array(list))
        return error_set(err, ERR_UNAVAILABLE, "E2B answered with no list of sandboxes");
    json_array_foreach (list, n, sandbox)
        if (fn(ctx, sandbox, err) < 0)
            return -1;
    return 0;
}

int e2b_api_list(struct e2b_backend *b, const char *const pairs[][2], size_t count, const struct wait *wait,
                 int (*fn)(void *ctx, const json_t *sandbox, struct error *err), void *ctx, struct error *err)
{
    _cleanup_(cleanup_free) char *filter = filter_of(pairs, count);
    _cleanup_(cleanup_free) char *first =
        xasprintf("/v2/sandboxes?metadata=%s&state=running%%2Cpaused&order=desc&limit=%d", filter, PAGE_SIZE);
    char *next = NULL;
    for (int page = 0; page < PAGES_MAX; page++) {
        _cleanup_(cleanup_free) char *token = next ? http_encode(next) : NULL;
        _cleanup_(cleanup_free) char *path = token ? xasprintf("%s&nextToken=%s", first, token) : NULL;
        free(next);
        next = NULL;
        if (one_page(b, path ? path : first, wait, fn, ctx, &next, err) < 0)
            return -1;
        if (!next || !*next) {
            free(next);
            return 0;
        }
    }
    free(next);
    return error_set(err, ERR_LIMIT, "E2B has more than %d sandboxes of ours", PAGES_MAX * PAGE_SIZE);
}
