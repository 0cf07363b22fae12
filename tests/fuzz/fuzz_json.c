/* Fuzz: any bytes as one JSON text. What is accepted is written out again, by both ways there are, and reads
 * back. Not always equal: 1.0 may be written as 1, which is another type to jansson and the same to JSON. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void assert_reads_back(const struct buf *text, const json_t *as)
{
    struct error err;
    json_t *again = json_parse(text->data, text->len, &err);
    assert(again);
    assert(json_typeof(again) == json_typeof(as) || (json_is_number(again) && json_is_number(as)));
    assert(json_object_size(again) == json_object_size(as) && json_array_size(again) == json_array_size(as));
    json_decref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    json_t *value = json_parse((const char *)data, size, &err);
    if (!value)
        return 0;

    _cleanup_(buf_done) struct buf dumped = BUF_INIT(16 * MIB), written = BUF_INIT(16 * MIB);
    if (json_append(&dumped, value) < 0)
        abort();
    assert_reads_back(&dumped, value);

    struct json_writer w;
    jw_init(&w, &written);
    jw_value(&w, value);
    assert(!w.failed);
    assert_reads_back(&written, value);

    json_decref(value);
    return 0;
}
