/* Understanding messages: see session.h.
 *
 *   parsing   a long message is on a worker
 *   waiting   it is about tools, which aren't there yet (protocol_open)
 *
 * One that was dropped while it is on a worker is freed when that is back. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "protocol/session.h"

/* How long a long message may wait for a worker, where it would wait behind running calls. Then the loop
 * parses it itself: some tens of milliseconds at worst, while a message that cancels those calls may stand
 * behind it. */
#define PARSE_WAIT_S 0.05

struct intake {
    struct list link; /* in the protocol's intakes_parsing or intakes_waiting */
    struct protocol *protocol;
    intake_fn *fn; /* NULL: dropped */
    void *arg;
    struct pool_job job;
    struct loop_post post;
    struct message message;
    bool parsed, waits;
    size_t n;
    char bytes[];
};

void intakes_init(struct protocol *p)
{
    list_init(&p->intakes_parsing);
    list_init(&p->intakes_waiting);
}

static void intake_free(struct intake *i)
{
    list_unlink(&i->link);
    message_done(&i->message);
    free(i);
}

static bool must_wait(const struct protocol *p, const struct message *m)
{
    bool about_tools = /* as a batch may be */
        m->kind == MESSAGE_BATCH || (m->kind == MESSAGE_REQUEST && str_has_prefix(m->method, "tools/"));
    return about_tools && !p->options.toolset;
}

static void hand_on(struct intake *i)
{
    i->fn(i->arg, &i->message);
    intake_free(i);
}

static void back(void *arg)
{
    struct intake *i = arg;
    if (!i->fn) {
        intake_free(i);
        return;
    }
    if (!i->parsed)
        message_parse(&i->message, i->bytes, i->n);
    i->parsed = true;
    list_unlink(&i->link);
    i->waits = must_wait(i->protocol, &i->message);
    if (i->waits)
        list_append(&i->protocol->intakes_waiting, &i->link);
    else
        hand_on(i);
}

static void parse_run(struct pool_job *job)
{
    struct intake *i = CONTAINER_OF(job, struct intake, job);
    message_parse(&i->message, i->bytes, i->n);
    i->parsed = true;
    loop_post(i->protocol->options.loop, &i->post);
}

static void parse_refused(struct pool_job *job, const struct error *err)
{
    struct intake *i = CONTAINER_OF(job, struct intake, job);
    loop_post(i->protocol->options.loop, &i->post);
}

static struct intake *intake_new(struct protocol *p, const char *bytes, size_t n, intake_fn *fn, void *arg)
{
    struct intake *i = malloc(sizeof(*i) + n);
    if (!i)
        return NULL;
    *i = (struct intake){.protocol = p, .n = n, .fn = fn, .arg = arg, .post = {.fn = back, .arg = i}};
    list_init(&i->link);
    memcpy(i->bytes, bytes, n);
    return i;
}

static struct intake *parse_on_worker(struct protocol *p, const char *bytes, size_t n, intake_fn *fn,
                                      void *arg)
{
    struct intake *i = intake_new(p, bytes, n, fn, arg);
    if (!i)
        return NULL;
    i->job = (struct pool_job){
        .run = parse_run, .refused = parse_refused, .deadline = clock_deadline_after(PARSE_WAIT_S)};
    list_append(&p->intakes_parsing, &i->link);
    if (pool_submit(p->options.pool, &i->job, NULL) == 0)
        return i;
    intake_free(i);
    return NULL;
}

/* Keeps a short message; its text has to move along, so it is parsed again later. */
static struct intake *keep(struct protocol *p, struct message *m, intake_fn *fn, void *arg)
{
    struct intake *i = intake_new(p, m->text.at, m->text.len, fn, arg);
    if (i) {
        i->waits = true;
        list_append(&p->intakes_waiting, &i->link);
        return i;
    }
    m->kind = MESSAGE_REFUSED;
    rpc_error_set(&m->error, RPC_INTERNAL_ERROR, "Internal error: out of memory");
    return NULL;
}

struct intake *intake_begin(struct protocol *p, const char *bytes, size_t n, intake_fn *fn, void *arg)
{
    struct intake *i = n > LIMIT_INLINE_PARSE_BYTES ? parse_on_worker(p, bytes, n, fn, arg) : NULL;
    if (i)
        return i;
    struct message m;
    message_parse(&m, bytes, n);
    if (must_wait(p, &m))
        i = keep(p, &m, fn, arg);
    if (!i)
        fn(arg, &m);
    message_done(&m);
    return i;
}

struct intake *intake_drop(struct intake *i)
{
    if (!i)
        return NULL;
    i->fn = NULL;
    if (i->waits)
        intake_free(i);
    return NULL;
}

void intakes_wake(struct protocol *p)
{
    while (!list_empty(&p->intakes_waiting)) {
        struct intake *i = list_entry(p->intakes_waiting.next, struct intake, link);
        back(i);
    }
}

void intakes_free_all(struct protocol *p)
{
    list_for_each (node, &p->intakes_parsing)
        intake_free(list_entry(node, struct intake, link));
    list_for_each (node, &p->intakes_waiting)
        intake_free(list_entry(node, struct intake, link));
}
