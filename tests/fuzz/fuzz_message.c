/* Fuzz: any bytes as one line of a client. Ids and progress tokens are spans of the line itself, and what
 * goes back is JSON. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/limits.h"
#include "protocol/jsonrpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void assert_is_json(const struct buf *text)
{
    struct error err;
    json_t *value = json_parse(text->data, text->len, &err);
    assert(json_is_object(value));
    json_decref(value);
}

static void assert_within(struct span inner, struct span outer)
{
    assert(!inner.at || (inner.at >= outer.at && inner.at + inner.len <= outer.at + outer.len));
}

static void answer(const struct message *m)
{
    _cleanup_(buf_done)
    struct buf out = BUF_INIT(MIB);
    assert_within(m->id, m->text);
    assert_within(m->progress_token, m->text);

    struct rpc_error error = RPC_ERROR_INIT;
    rpc_error_set(&error, RPC_METHOD_NOT_FOUND, "unknown method: %s", m->method ? m->method : "none");
    if (envelope_error(&out, m->id, m->kind == MESSAGE_REFUSED ? &m->error : &error) < 0)
        abort();
    assert_is_json(&out);
    rpc_error_done(&error);

    if (m->kind == MESSAGE_REQUEST) {
        struct json_writer w;
        buf_clear(&out);
        envelope_open(&w, &out, m->id);
        envelope_close(&w);
        assert_is_json(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct message m;
    message_parse(&m, (const char *)data, size);
    if (m.kind == MESSAGE_BATCH) {
        struct message parts[LIMIT_BATCH_MESSAGES];
        size_t count = json_array_size(m.root);
        if (count > 0 && count <= LIMIT_BATCH_MESSAGES) {
            message_split(&m, parts, count);
            for (size_t i = 0; i < count; i++) {
                answer(&parts[i]);
                message_done(&parts[i]);
            }
        }
    } else {
        answer(&m);
    }
    message_done(&m);
    return 0;
}
