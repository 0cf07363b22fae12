/* Fuzz: what is done to bytes from inside a computer and to text from a client. UTF-8 repair, base64 and the
 * number readers. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/str.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void repair(const uint8_t *data, size_t size)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT(MIB);
    if (utf8_append_lossy(&out, data, size) == 0) {
        assert(utf8_valid(out.data, out.len));
        assert(!utf8_valid(data, size) ||
               (out.len == size && (size == 0 || memcmp(out.data, data, size) == 0)));
    }
    assert(utf8_boundary(data, size) <= size);
    assert(utf8_leading_fragment(data, size) <= 3);
}

/* What decodes encodes back to the same text, since only one spelling is taken. */
static void base64(const uint8_t *data, size_t size)
{
    _cleanup_(buf_done) struct buf bytes = BUF_INIT(MIB), text = BUF_INIT(MIB);
    struct error err;
    if (base64_decode((const char *)data, size, &bytes, &err) == 0) {
        if (base64_append(&text, bytes.data, bytes.len) < 0)
            abort();
        assert(text.len == size && (size == 0 || memcmp(text.data, data, size) == 0));
    }
}

static void numbers(const char *text)
{
    int64_t integer;
    double real;
    bool truth;
    (void)str_parse_i64(text, &integer);
    (void)str_parse_double(text, &real);
    (void)str_parse_bool(text, &truth);
    if (str_parse_size(text, &integer))
        assert(integer >= 0);
    assert(str_edit_distance(text, text, 2) == (strlen(text) <= 64 ? 0 : 3)); /* longer ones are never near */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
    repair(data, size);
    base64(data, size);
    char *text = strndup((const char *)data, size);
    if (text)
        numbers(text);
    free(text);
    return 0;
}
