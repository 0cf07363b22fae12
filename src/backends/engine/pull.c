/* A pull has a thread of its own, so that it belongs to none of those that wait for it. They look at it from
 * their own threads, a few times a second: each tells its own listener, and whichever sees that nothing comes
 * any more stops the pull. The last one to leave stops it, too, if it isn't done, and joins the thread: no
 * pull outlives the calls that want it. */
#include "backends/engine/pull.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/contact.h"
#include "backends/engine/credentials.h"
#include "backends/engine/pull_report.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

#define LOOK_NS (200 * NSEC_PER_MSEC)
#define LOG_NS (5 * NSEC_PER_SEC)
#define TEXT_SIZE 256
#define WORDS_MAX 200 /* of what a registry says */
#define HINT_SIZE 200
#define SHORT "%.100s" /* of an image or a registry, where both must find room */

struct images {
    double pull_seconds, stall_seconds;
    pthread_mutex_t lock; /* of the list, and of what changes in its elements */
    struct list pulls;
};

struct pull {
    struct images *images;
    struct engine *engine;
    struct reference reference;
    char *platform; /* or NULL */
    pthread_t thread;
    struct cancel *stop; /* ends it */
    struct cancel *done; /* fired when it has ended */

    /* Under the lock of images. */
    struct list node; /* unlinked once it is done, or given up */
    unsigned waiters;
    struct pull_report report;
    int64_t heard; /* when the last byte came */
    int64_t logged;
    bool end_logged;
    bool stalled;
    struct error result; /* once it is done; ERR_NONE: it worked */

    /* The thread's own. */
    struct error credentials_error; /* why none were sent, if that is a failure */
    struct error failure;           /* that the stream of the answer told */
};

struct images *images_new_limited(double pull_seconds, double stall_seconds)
{
    struct images *i = xcalloc(1, sizeof(*i));
    i->pull_seconds = pull_seconds;
    i->stall_seconds = stall_seconds;
    pthread_mutex_init(&i->lock, NULL);
    list_init(&i->pulls);
    return i;
}

struct images *images_new(void)
{
    return images_new_limited(LIMIT_PULL_SECONDS, LIMIT_PULL_STALL_SECONDS);
}

struct images *images_free(struct images *i)
{
    if (!i)
        return NULL;
    assert(list_empty(&i->pulls));
    pthread_mutex_destroy(&i->lock);
    free(i);
    return NULL;
}

/* ---- the pull's thread ---- */

/* The pull's failure in the words of whoever refused. */
static int refused(const struct pull *p, const struct error *why, struct error *err)
{
    const char *registry = p->reference.registry;
    char hint[HINT_SIZE] = "";
    enum error_code code = pull_meaning(why->msg, why->code);
    _cleanup_(cleanup_free) char *words = contact_beginning(why->msg, WORDS_MAX);
    if (code == ERR_DENIED && p->credentials_error.code != ERR_NONE)
        snprintf(hint, sizeof(hint), "; it was asked without credentials: %.150s", p->credentials_error.msg);
    else if (code == ERR_DENIED)
        snprintf(hint, sizeof(hint), "; to log in: %s login " SHORT, engine_name(p->engine), registry);
    return error_set(err, code, "pull " SHORT " from " SHORT ": %s%s", p->reference.text, registry, words,
                     hint);
}

static void hear(struct pull *p)
{
    pthread_mutex_lock(&p->images->lock);
    p->heard = clock_now();
    pthread_mutex_unlock(&p->images->lock);
}

static int take_piece(void *ctx, const void *bytes, size_t n, struct error *err)
{
    struct pull *p = ctx;
    pthread_mutex_lock(&p->images->lock);
    p->heard = clock_now();
    int r = pull_report_feed(&p->report, bytes, n, &p->failure);
    pthread_mutex_unlock(&p->images->lock);
    return r < 0 ? error_set(err, p->failure.code, "%s", p->failure.msg) : 0;
}

static char *pull_path(const struct pull *p)
{
    const struct reference *r = &p->reference;
    _cleanup_(cleanup_free) char *name = xstrndup(r->text, r->name_len);
    _cleanup_(cleanup_free) char *image = http_encode(name);
    /* Without a tag, all of them would be pulled. */
    _cleanup_(cleanup_free) char *tag = http_encode(r->digest[0] ? r->digest : r->tag);
    _cleanup_(cleanup_free) char *platform = http_encode(p->platform ? p->platform : "");
    return xasprintf("/images/create?fromImage=%s&tag=%s%s%s", image, tag, p->platform ? "&platform=" : "",
                     platform);
}

static int request_pull(struct pull *p, const struct wait *wait, struct error *err)
{
    _cleanup_(buf_wipe) struct buf auth = BUF_INIT(0);
    /* Most images need none; whether this one does, the registry will tell. */
    if (credentials_find(p->engine->kind, &p->reference, wait, &auth, &p->credentials_error) < 0) {
        log_debug("%s", p->credentials_error.msg);
        if (wait_check(wait, err) < 0)
            return -1;
    }
    _cleanup_(cleanup_free) char *path = pull_path(p);
    const struct http_header header = {"X-Registry-Auth", buf_str(&auth)};
    const struct http_request request = {
        .method = "POST",
        .path = path,
        .headers = &header,
        .header_count = auth.len > 0,
        .sink = take_piece,
        .ctx = p,
        .wait = *wait,
    };
    struct http_response response = {0};
    struct error why = ERROR_INIT;
    hear(p); /* the silence of a helper isn't the registry's */
    int r = engine_request(p->engine, &request, &response, &why);
    http_response_done(&response);
    if (r == 0)
        r = pull_report_end(&p->report, &p->failure);
    if (r == 0)
        return 0;
    if (p->failure.code != ERR_NONE)
        return refused(p, &p->failure, err);
    /* Without a status nobody has answered: what that says isn't a registry's. */
    if (response.status != 0)
        return refused(p, &why, err);
    return error_set(err, why.code, "pull " SHORT ": %s", p->reference.text, why.msg);
}

static bool is_stalled(struct pull *p)
{
    pthread_mutex_lock(&p->images->lock);
    bool stalled = p->stalled;
    pthread_mutex_unlock(&p->images->lock);
    return stalled;
}

static int pull(struct pull *p, struct error *err)
{
    const struct reference *r = &p->reference;
    const struct wait wait = {.deadline = clock_deadline_after(p->images->pull_seconds), .cancel = p->stop};
    struct error why = ERROR_INIT;
    if (request_pull(p, &wait, &why) == 0)
        return 0;
    if (why.code != ERR_TIMEOUT)
        return error_set(err, why.code, "%s", why.msg);
    if (is_stalled(p))
        return error_set(err, ERR_TIMEOUT, "pull " SHORT ": the registry " SHORT " sent nothing for %g s",
                         r->text, r->registry, p->images->stall_seconds);
    return error_set(err, ERR_TIMEOUT, "pull " SHORT ": not done after %g s; pull it by hand from " SHORT,
                     r->text, p->images->pull_seconds, r->registry);
}

static void *run_pull(void *arg)
{
    struct pull *p = arg;
    struct error result = ERROR_INIT;
    pull(p, &result);
    pthread_mutex_lock(&p->images->lock);
    p->result = result;
    list_unlink(&p->node);
    pthread_mutex_unlock(&p->images->lock);
    cancel_fire(p->done, ERR_BUSY);
    return NULL;
}

/* ---- those that wait for it ---- */

static struct pull *pull_free(struct pull *p)
{
    pull_report_done(&p->report);
    cancel_unref(p->stop);
    cancel_unref(p->done);
    free(p->platform);
    free(p);
    return NULL;
}

static struct pull *pull_new(struct images *images, struct engine *e, const struct reference *r,
                             const char *platform)
{
    struct pull *p = xcalloc(1, sizeof(*p));
    p->images = images;
    p->engine = e;
    p->reference = *r;
    p->platform = xstrdup(platform);
    p->stop = cancel_new();
    p->done = cancel_new();
    p->waiters = 1;
    p->heard = clock_now();
    pull_report_init(&p->report);
    list_init(&p->node);
    return p;
}

static bool is_same(const struct pull *p, const struct engine *e, const struct reference *r,
                    const char *platform)
{
    return p->engine == e && strcmp(p->reference.text, r->text) == 0 &&
           strcmp(p->platform ? p->platform : "", platform ? platform : "") == 0;
}

/* The pull of that image, which is begun if there is none. */
static struct pull *join(struct images *images, struct engine *e, const struct reference *r,
                         const char *platform, struct error *err)
{
    struct pull *found = NULL;
    int failed = 0;
    pthread_mutex_lock(&images->lock);
    list_for_each (node, &images->pulls) {
        struct pull *p = list_entry(node, struct pull, node);
        if (is_same(p, e, r, platform))
            found = p;
    }
    if (found) {
        found->waiters++;
    } else {
        found = pull_new(images, e, r, platform);
        list_append(&images->pulls, &found->node);
        failed = thread_start(&found->thread, run_pull, found);
        if (failed) {
            list_unlink(&found->node);
            found = pull_free(found);
        }
    }
    pthread_mutex_unlock(&images->lock);
    if (failed)
        error_errno(err, ERR_LIMIT, failed, "start a thread to pull %.200s", r->text);
    return found;
}

static void leave(struct pull *p)
{
    pthread_mutex_lock(&p->images->lock);
    bool last = --p->waiters == 0;
    if (last)
        list_unlink(&p->node); /* who comes now begins another one */
    pthread_mutex_unlock(&p->images->lock);
    if (!last)
        return;
    cancel_fire(p->stop, ERR_CANCELLED);
    pthread_join(p->thread, NULL);
    pull_free(p);
}

/* How far it is, for one of those that wait. */
struct view {
    struct pull_status status;
    char text[TEXT_SIZE];
    bool log; /* it is time for a line in the log */
};

static void put_text(const struct pull *p, struct view *v)
{
    const struct pull_status *s = &v->status;
    char bytes[64] = "";
    if (s->total > 0)
        snprintf(bytes, sizeof(bytes), ", %.1f of %.1f MB", (double)s->done / 1e6, (double)s->total / 1e6);
    if (s->layers == 0)
        snprintf(v->text, sizeof(v->text), "pulling " SHORT " from " SHORT, p->reference.text,
                 p->reference.registry);
    else
        snprintf(v->text, sizeof(v->text), "pulling " SHORT ": %u of %u layers%s%s", p->reference.text,
                 s->downloaded, s->layers, bytes, s->unpacking ? ", unpacking" : "");
}

/* Also stops it if nothing comes any more. What is downloaded and now unpacked may take long in silence. */
static void look(struct pull *p, bool listens, struct view *ret)
{
    int64_t now = clock_now();
    pthread_mutex_lock(&p->images->lock);
    pull_report_status(&p->report, &ret->status);
    bool silent = (double)(now - p->heard) > p->images->stall_seconds * (double)NSEC_PER_SEC;
    bool stop = silent && !ret->status.unpacking && !p->stalled;
    p->stalled |= stop;
    ret->log = !listens && (p->logged == 0 || now - p->logged >= LOG_NS);
    if (ret->log)
        p->logged = now;
    pthread_mutex_unlock(&p->images->lock);
    if (stop)
        cancel_fire(p->stop, ERR_TIMEOUT);
    put_text(p, ret);
}

/* Until it is done, or the caller's own wait is over. */
static int await(struct pull *p, const struct progress *progress, const struct wait *wait, struct error *err)
{
    struct view view, told = {.text = ""};
    for (;;) {
        look(p, progress != NULL, &view);
        if (view.log)
            log_info("%s", view.text);
        /* What is repeated after a failure doesn't make it go backwards. */
        if (progress && strcmp(view.text, told.text) != 0 && view.status.done >= told.status.done) {
            progress->tell(progress->ctx, view.text, view.status.done, view.status.total);
            told = view;
        }
        struct error why = ERROR_INIT;
        struct wait brief = wait_at_most(wait, clock_now() + LOOK_NS);
        if (wait_fd(cancel_fd(p->done), POLLIN, &brief, NULL, &why) == 0 || cancel_why(p->done) != ERR_NONE)
            return 0; /* the second where no descriptor is left to wait with */
        if (why.code != ERR_TIMEOUT || wait_check(wait, &why) < 0)
            return error_set(err, why.code, "pull %.200s: %s", p->reference.text, why.msg);
    }
}

/* After its end. */
static int take_result(struct pull *p, bool listens, struct error *err)
{
    pthread_mutex_lock(&p->images->lock);
    struct error result = p->result;
    bool log = result.code == ERR_NONE && !listens && !p->end_logged;
    p->end_logged |= log;
    pthread_mutex_unlock(&p->images->lock);
    if (log)
        log_info("pulled %s", p->reference.text);
    return result.code == ERR_NONE ? 0 : error_set(err, result.code, "%s", result.msg);
}

int pull_image(struct images *images, struct engine *e, const struct reference *r, const char *platform,
               const struct progress *progress, const struct wait *wait, struct error *err)
{
    struct pull *p = join(images, e, r, platform, err);
    if (!p)
        return -1;
    int result = await(p, progress, wait, err);
    if (result == 0)
        result = take_result(p, progress != NULL, err);
    leave(p);
    return result;
}
