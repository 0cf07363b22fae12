/* What a tool may want of the client while it runs: notifications, and in the legacy era requests.
 *
 * The worker makes an errand and posts it to the loop, which sends it on the way of the call's reply; posts
 * are served in their order, so an errand is gone before its call is. An ask also waits: it is listed in its
 * session until the client's response comes, or its tool has given up. Whoever unlists it, on the loop, fires
 * its token; the worker frees it, once no errand has it any more. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "protocol/exchange.h"

#define ASK_SECONDS 60
#define ASK_ID_BYTES 8

struct client {
    struct tool_client tool; /* first: what the tool sees */
    struct origin from;
    struct cancel *cancel; /* of the call */
};

struct ask {
    struct list link; /* in session->asks, while no response has come */
    char id[RANDOM_HEX_SIZE(ASK_ID_BYTES)];
    struct cancel *answered, *dropped;
    char *result; /* JSON text; NULL: the client answered with an error, or not at all */
};

struct errand {
    struct loop_post post;
    const struct client *client;
    struct buf message; /* empty: the stream is to end */
    struct ask *ask;    /* to be listed, or NULL */
    struct ask *drop;   /* to be unlisted, or NULL */
};

/* -- On the loop. */

static void run_errand(void *arg)
{
    struct errand *e = arg;
    const struct origin *from = &e->client->from;
    const struct origin whole = {.session = from->session}; /* not to a batch's reply */
    const struct span no_id = {NULL, 0};
    if (e->ask)
        list_append(&from->session->asks, &e->ask->link);
    if (e->drop) {
        list_unlink(&e->drop->link);
        cancel_fire(e->drop->dropped, ERR_CANCELLED);
    } else if (from->exchange && e->message.len == 0) {
        exchange_pause(from->exchange);
    } else if (from->exchange) {
        exchange_notify(from->exchange, &e->message);
    } else if (e->message.len > 0) {
        session_deliver(&whole, no_id, &e->message, NULL);
    }
    buf_done(&e->message);
    free(e);
}

void ask_answer(struct session *s, const struct message *response)
{
    const char *id = json_string_value(json_object_get(response->root, "id"));
    list_for_each (node, &s->asks) {
        struct ask *a = list_entry(node, struct ask, link);
        if (!id || strcmp(a->id, id) != 0)
            continue;
        const json_t *result = json_object_get(response->root, "result");
        a->result = result ? json_dumps(result, JSON_COMPACT) : NULL;
        list_unlink(&a->link);
        cancel_fire(a->answered, ERR_BUSY);
        return;
    }
}

/* -- On the worker. */

static void send_errand(const struct client *c, struct buf *message, struct ask *ask, struct ask *drop)
{
    struct errand *e = xcalloc(1, sizeof(*e));
    *e = (struct errand){.client = c, .ask = ask, .drop = drop};
    if (message)
        buf_move(&e->message, message);
    e->post = (struct loop_post){.fn = run_errand, .arg = e};
    loop_post(c->from.session->protocol->options.loop, &e->post);
}

/* id NULL: a notification. */
static void write_message(struct buf *b, const char *id, const char *method, const char *params)
{
    struct json_writer w;
    jw_init(&w, b);
    jw_begin_object(&w);
    jw_key(&w, "jsonrpc");
    jw_string(&w, "2.0");
    if (id) {
        jw_key(&w, "id");
        jw_string(&w, id);
    }
    jw_key(&w, "method");
    jw_string(&w, method);
    jw_key(&w, "params");
    jw_raw(&w, params, strlen(params));
    jw_end_object(&w);
    if (w.failed)
        buf_clear(b);
}

static void client_notify(const struct tool_client *tool, const char *method, const char *params)
{
    struct buf message = BUF_INIT(LIMIT_INLINE_PARSE_BYTES);
    write_message(&message, NULL, method, params);
    if (message.len > 0)
        send_errand((const struct client *)tool, &message, NULL, NULL);
    buf_done(&message);
}

static void client_pause(const struct tool_client *tool)
{
    send_errand((const struct client *)tool, NULL, NULL, NULL);
}

static struct ask *ask_free(struct ask *a)
{
    cancel_unref(a->answered);
    cancel_unref(a->dropped);
    free(a->result);
    free(a);
    return NULL;
}

static int take_result(struct ask *a, struct buf *ret, struct error *err)
{
    if (!a->result)
        return error_set(err, ERR_UNAVAILABLE, "the client refused the request");
    return buf_append_str(ret, a->result) < 0 ? error_set(err, ERR_LIMIT, "the client's answer is too long")
                                              : 0;
}

static int client_ask(const struct tool_client *tool, const char *method, const char *params, struct buf *ret,
                      struct error *err)
{
    struct client *c = (struct client *)tool;
    const struct wait patience = {.deadline = clock_deadline_after(ASK_SECONDS), .cancel = c->cancel};
    const struct wait for_good = {.deadline = DEADLINE_NONE};
    struct buf message = BUF_INIT(LIMIT_INLINE_PARSE_BYTES);
    struct ask *a = xcalloc(1, sizeof(*a));
    a->answered = cancel_new();
    a->dropped = cancel_new();
    random_hex(a->id, ASK_ID_BYTES);
    write_message(&message, a->id, method, params);
    if (cancel_fd(a->answered) < 0 || cancel_fd(a->dropped) < 0 || message.len == 0) {
        buf_done(&message);
        ask_free(a);
        return error_set(err, ERR_LIMIT, "the request is too long, or no descriptor is left");
    }
    send_errand(c, &message, a, NULL);
    int r = wait_fd(cancel_fd(a->answered), POLLIN, &patience, NULL, err);
    if (r < 0) {
        send_errand(c, NULL, NULL, a);
        wait_fd(cancel_fd(a->dropped), POLLIN, &for_good, NULL, NULL);
    } else {
        r = take_result(a, ret, err);
    }
    ask_free(a);
    return r;
}

struct tool_client *ask_client_new(const struct origin *from, struct cancel *cancel)
{
    struct client *c = xcalloc(1, sizeof(*c));
    c->tool = (struct tool_client){.notify = client_notify, .ask = client_ask, .pause = client_pause};
    c->from = *from;
    c->cancel = cancel;
    return &c->tool;
}

struct tool_client *ask_client_free(struct tool_client *c)
{
    free(c);
    return NULL;
}
