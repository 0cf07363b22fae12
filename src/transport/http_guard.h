/* The framing guard: is a request's head such that whoever stands before this server must read it as we do?
 * RFC 9112, sections 2.2, 3, 5 and 6: one Host, one Content-Length or `Transfer-Encoding: chunked`, never
 * both; names that are tokens, values without control characters, no folded lines, every line ended by CR LF.
 *
 * libmicrohttpd is laxer, and what it hands over doesn't show some of this any more. But it parses in place:
 * in its buffer, from the method on, CR, LF, colons and the blanks of the request line have become NULs and
 * nothing else has moved. So the guard walks that memory from piece to piece: a byte too much, wherever, and
 * the next piece isn't where it must be. What looks like CR LF there: NUL LF; and, since it takes a line that
 * begins with a NUL, or is a colon, for the empty one: colon LF at the end, or LF NUL or LF colon before it.
 * All end a line for lenient readers too; one who lets a header have no name, and goes on behind it, is none
 * to be put before this server. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_guard {
    /* In: the pieces of the first line, and how long all of the head is, from the method to its empty line.
     */
    const char *method, *target, *version; /* the target may be mangled by now */
    size_t target_len, size;
    bool is_opaque; /* the memory isn't as above: another library. What shows elsewhere is checked */

    /* Out. */
    const char *why; /* NULL: nothing wrong so far */
    uint64_t length; /* Content-Length, 0 without */
    bool has_body;   /* Content-Length over 0, or chunked */
    bool expects_continue;

    const char *at; /* where the next header must begin */
    int hosts, lengths, encodings;
};

/* Before libmicrohttpd has taken the target apart. */
bool http_guard_target(const char *target, size_t n);
void http_guard_line(struct http_guard *g);
/* Of each header, in order. Cuts the blanks at the end of its value. */
void http_guard_header(struct http_guard *g, const char *name, size_t name_len, char *value,
                       size_t value_len);
void http_guard_end(struct http_guard *g);
