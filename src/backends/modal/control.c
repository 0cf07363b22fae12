/* Calls of the control plane: their headers, and when they are repeated. Source: what npm modal@0.11.1 sends,
 * and how it treats what it is answered. */
#include "backends/modal/control.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/engine/contact.h"
#include "backends/provider.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define FAILURES_MAX 3 /* of one call; the fourth is told */
#define THROTTLES_MAX 1000
#define REFUSALS_MAX 4                        /* one after the other */
#define AFTER_MAX_S 3600.0                    /* whatever Modal asks for */
#define ANSWER_TIMEOUT_NS (60 * NSEC_PER_SEC) /* for one attempt */
#define WORDS_MAX 200
#define JWT_BEGINS "eyJ" /* a JSON object in base64 */
#define RETRY_POLICY "/modal.client.RPCRetryPolicy"

/* --- failures --- */

static bool tells(const char *words, const char *secret)
{
    return secret && *secret && strstr(words, secret);
}

int modal_told(const struct modal_account *a, const char *who, const struct grpc_status *status,
               const struct error *why, struct error *err)
{
    _cleanup_(cleanup_free) char *words = contact_beginning(status->message, WORDS_MAX);
    if (!words[0])
        return error_set(err, why->code, "%s", why->msg);
    if (tells(status->message, a->token_secret) || tells(status->message, a->token_id) ||
        strstr(status->message, JWT_BEGINS))
        words[0] = '\0';
    return error_set(err, why->code, "%s says %s: %s", who, grpc_code_name(status->code), words);
}

/* A time as a message has it, which may be any number and none. */
static int64_t bounded_ns(double seconds)
{
    if (!(seconds > 0))
        return 0;
    return (int64_t)((seconds < AFTER_MAX_S ? seconds : AFTER_MAX_S) * NSEC_PER_SEC);
}

/* How long Modal wants us to wait; -1: it doesn't say so. */
static int64_t throttled(const struct grpc_status *status)
{
    int64_t ns = -1;
    if (status->code == GRPC_OK || status->details.len == 0)
        return -1;
    _cleanup_(cleanup_modal_free) Modal__Details *d =
        modal_unpack(&modal__details__descriptor, status->details.data, status->details.len, NULL);
    for (size_t i = 0; d && i < d->n_details; i++) {
        const Modal__Any *any = d->details[i];
        if (!str_has_suffix(any->type, RETRY_POLICY))
            continue;
        _cleanup_(cleanup_modal_free) Modal__RetryPolicy *p =
            modal_unpack(&modal__retry_policy__descriptor, any->value.data, any->value.len, NULL);
        if (p)
            ns = bounded_ns((double)p->after_s);
    }
    return ns;
}

/* RESOURCE_EXHAUSTED is what a rate has, and also what is used up until somebody ends or pays something: only
 * the words tell. Without any it is a rate, which is what gRPC's own proxies mean. */
static bool is_used_up(const char *words)
{
    static const char *const rate[] = {"rate limit", "rate exceeded",     "per second",
                                       "throttl",    "too many requests", "slow down"},
                             *const used_up[] = {"limit",  "quota",   "maximum",    "budget",
                                                 "credit", "billing", "larger than"};
    for (size_t i = 0; i < ARRAY_LEN(rate); i++)
        if (strcasestr(words, rate[i]))
            return false;
    for (size_t i = 0; i < ARRAY_LEN(used_up); i++)
        if (strcasestr(words, used_up[i]))
            return true;
    return false;
}

/* Being too much is a question of time while others come through. */
static bool refusal_passes(struct pace *pace, struct modal_retry *r)
{
    const uint64_t successes = pace_successes(pace);
    pace_slow_down(pace, 0);
    r->refusals = successes == r->successes ? r->refusals + 1 : 0;
    r->successes = successes;
    r->delay_ns = r->pause_ns = r->refusals > 0 ? pace_delay(r->refusals - 1) : 0;
    return r->refusals <= REFUSALS_MAX && r->throttles++ < THROTTLES_MAX;
}

bool modal_retry_helps(struct pace *pace, struct modal_retry *r, const struct grpc_status *status,
                       const struct error *why, const struct wait *wait)
{
    const int64_t after = throttled(status);
    if (after >= 0) {
        pace_slow_down(pace, after); /* for all calls */
        r->delay_ns = after;
        r->pause_ns = 0;
        r->after_ns = pace_is_bearable(wait, after) ? 0 : after;
        return r->after_ns == 0 && r->throttles++ < THROTTLES_MAX;
    }
    if (status->code == GRPC_RESOURCE_EXHAUSTED && !is_used_up(status->message))
        return refusal_passes(pace, r);
    if (why->code != ERR_UNAVAILABLE || !grpc_code_is_passing(status->code))
        return false;
    r->delay_ns = r->pause_ns = pace_delay(r->failures);
    return r->failures++ < (r->most ? r->most : FAILURES_MAX) && pace_may_repeat(pace);
}

bool modal_retry(struct pace *pace, struct modal_retry *r, const struct grpc_status *status,
                 const struct error *why, const struct wait *wait)
{
    return modal_retry_helps(pace, r, status, why, wait) && pace_pause(wait, r->pause_ns);
}

void modal_attempt_over(const struct wait *call, struct grpc_status *status, struct error *why)
{
    if (why->code != ERR_TIMEOUT || wait_check(call, NULL) < 0)
        return;
    why->code = ERR_UNAVAILABLE;
    status->code = GRPC_DEADLINE_EXCEEDED;
}

/* --- headers --- */

struct heads {
    struct http_header all[MODAL_HEADERS_MAX];
    size_t count;
    char *auth;
    char numbers[3][24];
};

static void heads_done(struct heads *h)
{
    if (h->auth)
        explicit_bzero(h->auth, strlen(h->auth));
    free(h->auth);
}

static void add(struct heads *h, const char *name, const char *value)
{
    h->all[h->count++] = (struct http_header){name, value};
}

static void add_number(struct heads *h, size_t slot, const char *name, double value)
{
    snprintf(h->numbers[slot], sizeof(h->numbers[slot]), "%.10g", value);
    add(h, name, h->numbers[slot]);
}

static int make_heads(struct modal_account *a, bool with_auth, const struct wait *wait, struct heads *h,
                      struct error *err)
{
    if (modal_check_token(a, err) < 0)
        return -1;
    add(h, "x-modal-client-type", "8");
    add(h, "x-modal-client-version", "1.0.0");
    add(h, "x-modal-token-id", a->token_id);
    add(h, "x-modal-token-secret", a->token_secret);
    add(h, "x-modal-host", a->host);
    if (!with_auth)
        return 0;
    h->auth = modal_auth_token(a, wait, err);
    if (!h->auth)
        return -1;
    add(h, "x-modal-auth-token", h->auth);
    return 0;
}

static void add_attempt(struct heads *h, const char *key, const struct modal_retry *r)
{
    add(h, "x-idempotency-key", key);
    add_number(h, 0, "x-retry-attempt", r->failures);
    add_number(h, 1, "x-throttle-retry-attempt", r->throttles);
    if (r->failures + r->throttles > 0)
        add_number(h, 2, "x-retry-delay", (double)r->delay_ns / NSEC_PER_SEC);
}

/* --- calls --- */

static int attempt(struct modal_account *a, const struct modal_call *call, struct heads *heads,
                   const struct buf *message, const struct wait *wait, struct buf *ret,
                   struct grpc_status *ret_status, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf(MODAL_SERVICE "%s", call->name);
    const int64_t now = clock_now();
    const struct wait bounded = wait_at_most(wait, now + ANSWER_TIMEOUT_NS);
    const struct grpc_request request = {
        .path = path,
        .headers = heads->all,
        .header_count = heads->count,
        .message = message->data,
        .size = message->len,
        .timeout_ns = bounded.deadline - now,
    };
    return grpc_call(a->channel, &request, &bounded, ret, ret_status, err);
}

static int refused(const struct grpc_status *status, const struct modal_retry *r, struct error *err)
{
    provider_refused_for(&r->why, r->after_ns, err);
    if (status->code == GRPC_UNAUTHENTICATED)
        return error_prefix(
            err, "Modal refuses the token (MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or the profile's)");
    return -1;
}

/* 1: the answer is in *ret; 0: to be tried once more; -1. */
static int one_try(struct modal_account *a, const struct modal_call *call, const char *key,
                   const struct buf *message, const struct wait *wait, struct modal_retry *retry,
                   bool *renewed, struct buf *ret, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(grpc_status_done) struct grpc_status status = GRPC_STATUS_INIT;
    _cleanup_(heads_done) struct heads heads = {0};
    struct pace *pace = call->pace ? call->pace : a->pace;
    if (make_heads(a, !call->without_auth, wait, &heads, err) < 0)
        return -1;
    if (pace_take_turn(pace, wait, &why) < 0)
        return provider_too_late(&retry->why, &why, err);
    add_attempt(&heads, key, retry);
    if (attempt(a, call, &heads, message, wait, ret, &status, &why) == 0) {
        pace_succeeded(pace);
        return 1;
    }
    modal_attempt_over(wait, &status, &why);
    if (status.code == GRPC_UNAUTHENTICATED && heads.auth && !*renewed) {
        *renewed = true;
        modal_auth_token_forget(a, heads.auth);
        return 0;
    }
    modal_told(a, "Modal", &status, &why, &retry->why);
    return modal_retry(pace, retry, &status, &why, wait) ? 0 : refused(&status, retry, err);
}

void *modal_control(struct modal_account *a, const struct modal_call *call, const struct wait *wait,
                    struct error *err)
{
    char key[MODAL_UUID_SIZE];
    struct modal_retry retry = {0};
    bool renewed = false;
    _cleanup_(buf_done) struct buf message = BUF_INIT(GRPC_MESSAGE_MAX + 1),
                                   answer = BUF_INIT(GRPC_MESSAGE_MAX);
    if (modal_pack(call->request, &message, err) < 0)
        return NULL;
    modal_uuid(key);
    int done;
    do {
        done = one_try(a, call, key, &message, wait, &retry, &renewed, &answer, err);
    } while (done == 0);
    if (message.data)
        explicit_bzero(message.data, message.len); /* variables may be secrets */
    return done > 0 ? modal_unpack(call->answer, buf_str(&answer), answer.len, err) : NULL;
}

struct grpc_stream *modal_control_open(struct modal_account *a, const char *name,
                                       const ProtobufCMessage *request, const struct wait *wait,
                                       struct error *err)
{
    _cleanup_(heads_done) struct heads heads = {0};
    _cleanup_(buf_done) struct buf message = BUF_INIT(GRPC_MESSAGE_MAX + 1);
    _cleanup_(cleanup_free) char *path = xasprintf(MODAL_SERVICE "%s", name);
    if (make_heads(a, true, wait, &heads, err) < 0 || modal_pack(request, &message, err) < 0)
        return NULL;
    const struct grpc_request r = {.path = path,
                                   .headers = heads.all,
                                   .header_count = heads.count,
                                   .message = message.data,
                                   .size = message.len};
    return grpc_open(a->channel, &r, wait, err);
}
