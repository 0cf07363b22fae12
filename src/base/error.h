/* The one error object. A function that can fail returns 0 or -1 and fills a `struct error` on its caller's
 * stack: no allocation, nothing to free. Code decides what a program does, the message tells a person what
 * happened, to what, and what to do about it. Only protocol, transport and app log errors, once. */
#pragma once

#include <stddef.h>

#include "base/macros.h"

enum error_code {
    ERR_NONE = 0,
    ERR_INVALID,         /* the caller's input is wrong */
    ERR_CWD_NOT_FOUND,   /* working directory missing in the computer */
    ERR_SHELL_NOT_FOUND, /* shell missing in the computer */
    ERR_NOT_FOUND,       /* no such computer */
    ERR_EXISTS,          /* there is one already, with other properties */
    ERR_GONE,            /* the computer has ended by itself */
    ERR_DELETED,         /* the computer was deleted while in use */
    ERR_DENIED,          /* not allowed */
    ERR_LIMIT,           /* a maximum was reached */
    ERR_BUSY,            /* in use elsewhere; later may work */
    ERR_TIMEOUT,
    ERR_CANCELLED,
    ERR_UNAVAILABLE, /* what is needed isn't there now (engine, kernel feature, provider) */
    ERR_UNSUPPORTED, /* this backend or version can't do it */
    ERR_INTERNAL,
    ERR_CODE_COUNT
};

struct error {
    enum error_code code;
    int sys; /* errno, or 0 */
    char msg[512];
};

#define ERROR_INIT                                                                                           \
    {                                                                                                        \
        .code = ERR_NONE                                                                                     \
    }

/* Fill *err (may be NULL); always return -1, so that `return error_set(...)` reads well. The message is cut
 * at the buffer's end, on a UTF-8 boundary. error_errno appends ": strerror(sys)". */
int error_set(struct error *err, enum error_code code, const char *fmt, ...) _printf_(3, 4);
int error_errno(struct error *err, enum error_code code, int sys, const char *fmt, ...) _printf_(4, 5);
/* Put "context: " before the message, on the way up; returns -1. */
int error_prefix(struct error *err, const char *fmt, ...) _printf_(2, 3);
/* The same, and makes the code another: what is wrong with a part, as what it means for the whole. */
int error_recast(struct error *err, enum error_code code, const char *context);

/* The one table of what a code means outside: name in tool results ("cwd_not_found"), JSON-RPC code,
 * HTTP status, exit code of the server. Never NULL. */
const char *error_code_name(enum error_code code);
int error_jsonrpc_code(enum error_code code);
int error_http_status(enum error_code code);
int error_exit_code(enum error_code code);

/* What an errno of a file or process call means, where the caller knows nothing better. */
enum error_code error_code_of_errno(int sys);
