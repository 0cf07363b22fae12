/* Fuzz: what a guest is told with its start, as letters of its environment. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "guest/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In memory of exactly its size, so that a byte past the end is seen. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size > 0 ? size : 1);
    assert(text);
    if (size > 0)
        memcpy(text, data, size);
    const ssize_t bytes = request_early(text, size);
    assert(bytes < 0 || (bytes > 0 && (size_t)bytes <= size / 4 * 3 && (size_t)bytes > size / 4 * 3 - 3));
    free(text);
    return 0;
}
