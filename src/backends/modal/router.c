/* See router.h. Source of the calls: what npm modal@0.11.1 sends, and how it treats what it is answered. */
#include "backends/modal/router.h"

#include <stdlib.h>
#include <string.h>

#include "backends/modal/route.h"
#include "backends/provider.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define PIPE 1
#define INPUT_PIECE (1 * MIB)
#define ANSWER_TIMEOUT_NS (60 * NSEC_PER_SEC) /* for one attempt; also of a wait, which is then repeated */
#define SNAPSHOT_TIMEOUT_NS (600 * NSEC_PER_SEC)
#define FOR_EVER (-1) /* that an image is kept */

/* --- where it is --- */

/* A server of this machine that speaks without TLS has routers that do, whatever their address says. */
static int settle_in(struct modal_router *r, const struct modal_sandbox *s, struct error *err)
{
    const char *url = s->router_url;
    _cleanup_(cleanup_free) char *plain = xasprintf("http://%s", url + strlen("https://"));
    _cleanup_(cleanup_free) char *base =
        provider_base("the address of Modal's command router", r->account->plain ? plain : url, err);
    struct grpc_channel *channel = base ? grpc_channel_new(base, r->account->ca_file, err) : NULL;
    if (!channel)
        return error_recast(err, err->code == ERR_INVALID ? ERR_UNAVAILABLE : err->code,
                            "Modal's command router");
    char *authorization = xasprintf("Bearer %s", s->router_jwt);
    pthread_mutex_lock(&r->lock);
    struct modal_route before = {r->channel, r->authorization, r->generation};
    r->channel = channel;
    r->authorization = authorization;
    r->generation++;
    pthread_mutex_unlock(&r->lock);
    modal_route_done(&before);
    return 0;
}

void modal_route_of(struct modal_router *r, struct modal_route *ret)
{
    pthread_mutex_lock(&r->lock);
    *ret = (struct modal_route){grpc_channel_ref(r->channel), xstrdup(r->authorization), r->generation};
    pthread_mutex_unlock(&r->lock);
}

void modal_route_done(struct modal_route *route)
{
    grpc_channel_unref(route->channel);
    if (route->authorization)
        explicit_bzero(route->authorization, strlen(route->authorization));
    free(route->authorization);
    *route = (struct modal_route){0};
}

static int reach_again(struct modal_router *r, const struct wait *wait, struct error *err)
{
    struct modal_sandbox s;
    if (modal_api_reach(r->account, r->id, wait, &s, err) < 0)
        return -1;
    int failed = 0;
    if (strcmp(s.task, r->task) != 0)
        failed = error_set(err, ERR_NOT_FOUND,
                           "what ran in the sandbox %s has ended, and it was started again", r->id);
    else
        failed = settle_in(r, &s, err);
    modal_sandbox_done(&s);
    return failed;
}

int modal_route_renew(struct modal_router *r, const struct modal_route *refused, const struct wait *wait,
                      struct error *err)
{
    struct error why = ERROR_INIT;
    int failed = 0;
    pthread_mutex_lock(&r->lock);
    while (failed == 0 && r->generation == refused->generation) {
        const int joined = attempt_join(&r->renewing, &r->lock, wait, &why);
        if (joined == 0) {
            pthread_mutex_unlock(&r->lock);
            failed = reach_again(r, wait, &why);
            pthread_mutex_lock(&r->lock);
            attempt_end(&r->renewing, failed < 0 ? &why : NULL);
        }
        if (joined < 0)
            failed =
                wait_was_over(&why) && wait_check(wait, NULL) == 0 ? 0 : -1; /* it may be another's wait */
    }
    pthread_mutex_unlock(&r->lock);
    return failed < 0 ? error_set(err, why.code, "%s", why.msg) : 0;
}

struct modal_router *modal_router_new(struct modal_account *a, const struct modal_sandbox *s,
                                      struct error *err)
{
    struct modal_router *r = xcalloc(1, sizeof(*r));
    r->account = a;
    memcpy(r->id, s->id, sizeof(r->id));
    memcpy(r->task, s->task, sizeof(r->task));
    r->pace = pace_new();
    pthread_mutex_init(&r->lock, NULL);
    return settle_in(r, s, err) < 0 ? modal_router_free(r) : r;
}

struct modal_router *modal_router_free(struct modal_router *r)
{
    if (!r)
        return NULL;
    modal_route_done(&(struct modal_route){r->channel, r->authorization, r->generation});
    pace_free(r->pace);
    pthread_mutex_destroy(&r->lock);
    free(r);
    return NULL;
}

/* --- calls --- */

struct router_call {
    const char *name;
    const ProtobufCMessage *request;
    const ProtobufCMessageDescriptor *answer;
    int64_t limit_ns; /* of one attempt */
    /* What goes out right behind the request, without waiting for its answer; NULL: nothing. */
    void (*beside)(void *ctx, const struct wait *wait);
    void *ctx;
};

static int attempt(const struct router_call *c, const struct modal_route *route, const struct buf *message,
                   const struct wait *wait, struct buf *ret, struct grpc_status *status, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf(MODAL_ROUTER "%s", c->name);
    const int64_t now = clock_now();
    const struct wait bounded = wait_at_most(wait, now + c->limit_ns);
    const struct http_header header = {"authorization", route->authorization};
    const struct grpc_request request = {.path = path,
                                         .headers = &header,
                                         .header_count = 1,
                                         .message = message->data,
                                         .size = message->len,
                                         .timeout_ns = bounded.deadline - now};
    if (!c->beside)
        return grpc_call(route->channel, &request, &bounded, ret, status, err);
    struct grpc_stream *s = grpc_open(route->channel, &request, &bounded, err);
    if (s)
        c->beside(c->ctx, &bounded);
    const int failed = s ? grpc_finish(s, &bounded, ret, status, err) : -1;
    grpc_close(s);
    return failed;
}

/* 1: done; 0: once more; -1. */
static int one_try(struct modal_router *r, const struct router_call *c, const struct buf *message,
                   const struct wait *wait, struct modal_retry *retry, bool *renewed, struct buf *ret,
                   struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(grpc_status_done) struct grpc_status status = GRPC_STATUS_INIT;
    _cleanup_(modal_route_done) struct modal_route route;
    modal_route_of(r, &route);
    if (pace_take_turn(r->pace, wait, &why) < 0)
        return provider_too_late(&retry->why, &why, err);
    if (attempt(c, &route, message, wait, ret, &status, &why) == 0) {
        pace_succeeded(r->pace);
        return 1;
    }
    modal_attempt_over(wait, &status, &why);
    if (status.code == GRPC_UNAUTHENTICATED && !*renewed) {
        *renewed = true;
        return modal_route_renew(r, &route, wait, err) < 0 ? -1 : 0;
    }
    modal_told(r->account, "Modal's command router", &status, &why, &retry->why);
    return modal_retry(r->pace, retry, &status, &why, wait)
               ? 0
               : provider_refused_for(&retry->why, retry->after_ns, err);
}

/* The answer, for modal_free(). */
static void *call(struct modal_router *r, const struct router_call *c, const struct wait *wait,
                  struct error *err)
{
    struct modal_retry retry = {0};
    bool renewed = false;
    int done;
    _cleanup_(buf_done) struct buf message = BUF_INIT(GRPC_MESSAGE_MAX + 1), got = BUF_INIT(GRPC_MESSAGE_MAX);
    if (modal_pack(c->request, &message, err) < 0)
        return NULL;
    do {
        done = one_try(r, c, &message, wait, &retry, &renewed, &got, err);
    } while (done == 0);
    if (message.data)
        explicit_bzero(message.data, message.len);
    return done > 0 ? modal_unpack(c->answer, buf_str(&got), got.len, err) : NULL;
}

/* Of those that are answered with nothing. */
static int tell(struct modal_router *r, struct router_call *c, const struct wait *wait, struct error *err)
{
    c->answer = &modal__nothing__descriptor;
    c->limit_ns = ANSWER_TIMEOUT_NS;
    _cleanup_(cleanup_modal_free) Modal__Nothing *nothing = call(r, c, wait, err);
    return nothing ? 0 : -1;
}

struct beside {
    struct modal_router *router;
    const char *exec_id;
    struct modal_output *output;
};

/* Once; where nothing would hold it up. Else it is opened later. */
static void open_output(void *ctx, const struct wait *wait)
{
    struct beside *b = ctx;
    if (!b->output && pace_is_free(b->router->pace))
        b->output = modal_output_open_early(b->router, b->exec_id, wait);
}

int modal_router_start(struct modal_router *r, const char *exec_id, const char *const *argv,
                       const char *workdir, char *const *env, uint32_t timeout_s,
                       struct modal_output **ret_output, const struct wait *wait, struct error *err)
{
    struct beside beside = {.router = r, .exec_id = exec_id};
    _cleanup_(modal_pairs_free) struct modal_pairs pairs;
    Modal__ExecStart start = MODAL__EXEC_START__INIT;
    Modal__SecretSource source = MODAL__SECRET_SOURCE__INIT, *sources[] = {&source};
    Modal__Texts texts = MODAL__TEXTS__INIT;
    modal_pairs_of(env, &pairs);
    texts.contents = pairs.all;
    texts.n_contents = pairs.count;
    source.env = &texts;
    start.task = r->task;
    start.exec = (char *)(uintptr_t)exec_id;
    start.argv = (char **)(uintptr_t)argv;
    while (argv[start.n_argv])
        start.n_argv++;
    start.out = start.err = PIPE;
    start.timeout_s = timeout_s;
    start.workdir = (char *)(uintptr_t)workdir;
    start.sources = sources;
    start.n_sources = pairs.count > 0;
    struct router_call c = {.name = "TaskExecStart", .request = MODAL_MESSAGE(&start), .ctx = &beside};
    if (ret_output)
        c.beside = open_output;
    const int failed = tell(r, &c, wait, err);
    if (ret_output)
        *ret_output = failed < 0 ? modal_output_close(beside.output) : beside.output;
    return failed;
}

int modal_router_write(struct modal_router *r, const char *exec_id, uint64_t offset, const void *bytes,
                       size_t n, bool eof, const struct wait *wait, struct error *err)
{
    for (size_t at = 0; at < n || (eof && n == 0);) {
        const size_t piece = n - at < INPUT_PIECE ? n - at : INPUT_PIECE;
        Modal__ExecWrite write = MODAL__EXEC_WRITE__INIT;
        write.task = r->task;
        write.exec = (char *)(uintptr_t)exec_id;
        write.offset = offset + at;
        write.data = (ProtobufCBinaryData){piece, (uint8_t *)(uintptr_t)bytes + at};
        write.eof = eof && at + piece == n;
        struct router_call c = {.name = "TaskExecStdinWrite", .request = MODAL_MESSAGE(&write)};
        if (tell(r, &c, wait, err) < 0)
            return -1;
        at += piece;
        if (n == 0)
            break;
    }
    return 0;
}

/* One question after the other, each with a time that a silent connection can't outlast. */
int modal_router_wait(struct modal_router *r, const char *exec_id, const struct wait *wait, int *ret_code,
                      struct error *err)
{
    Modal__Exec exec = MODAL__EXEC__INIT;
    exec.task = r->task;
    exec.exec = (char *)(uintptr_t)exec_id;
    const struct router_call c = {.name = "TaskExecWait",
                                  .request = MODAL_MESSAGE(&exec),
                                  .answer = &modal__exec_end__descriptor,
                                  .limit_ns = ANSWER_TIMEOUT_NS};
    for (;;) {
        struct error why = ERROR_INIT;
        const int64_t begun = clock_now();
        const struct wait bounded = wait_at_most(wait, begun + ANSWER_TIMEOUT_NS);
        _cleanup_(cleanup_modal_free) Modal__ExecEnd *end = call(r, &c, &bounded, &why);
        if (end && end->how_case != MODAL__EXEC_END__HOW__NOT_SET) {
            *ret_code = end->how_case == MODAL__EXEC_END__HOW_CODE ? end->code : 128 + end->signal;
            return 0;
        }
        if (!end && !(why.code == ERR_TIMEOUT && wait_check(wait, NULL) == 0))
            return error_set(err, why.code, "%s", why.msg);
        if (end && wait_pause(wait, pace_delay(0), err) < 0) /* should it answer at once, over and over */
            return -1;
    }
}

int modal_router_snapshot(struct modal_router *r, const char *key, const struct wait *wait,
                          char ret_image_id[MODAL_ID_SIZE], struct error *err)
{
    Modal__Snapshot snapshot = MODAL__SNAPSHOT__INIT;
    snapshot.task = r->task;
    snapshot.key = (char *)(uintptr_t)key;
    snapshot.ttl_s = FOR_EVER;
    const struct router_call c = {.name = "TaskSnapshotFilesystem",
                                  .request = MODAL_MESSAGE(&snapshot),
                                  .answer = &modal__snapshot_made__descriptor,
                                  .limit_ns = SNAPSHOT_TIMEOUT_NS};
    _cleanup_(cleanup_modal_free) Modal__SnapshotMade *made = call(r, &c, wait, err);
    if (!made)
        return error_prefix(err, "keep the files of the sandbox %s", r->id);
    if (!modal_is_id(made->image))
        return error_set(err, ERR_UNAVAILABLE, "Modal answered without the id of an image");
    strcpy(ret_image_id, made->image);
    return 0;
}
