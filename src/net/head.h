/* The head of an answer, line by line: status line, headers, an empty line. Strict: what RFC 9112 doesn't
 * allow is refused. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/http.h"

struct head {
    struct http_response *response; /* status, content_type and headers are filled in */
    size_t seen;                    /* bytes of all lines: interim answers, headers, trailers */
    bool complete;                  /* the final answer's empty line was there */
    bool closes;                    /* the connection won't be used again */
    bool chunked;
    int64_t length; /* as declared; -1: it isn't */
};

void head_init(struct head *h, struct http_response *response);
/* Takes the next line, with its end. Interim answers (1xx but 101) are passed over, lines after the head are
 * trailers: they count and are dropped. -1: ERR_UNAVAILABLE (malformed) or ERR_LIMIT. */
int head_line(struct head *h, const char *line, size_t n, struct error *err);
