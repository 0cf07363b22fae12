/* Filling error objects, and the one table of what each code means to the outside. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define JSONRPC_INVALID_PARAMS (-32602)
#define JSONRPC_INTERNAL_ERROR (-32603)

static const struct {
    const char *name;
    int jsonrpc;
    int http;
    int exit;
} codes[ERR_CODE_COUNT] = {
    [ERR_NONE] = {"none", 0, 200, 0},
    [ERR_INVALID] = {"invalid_argument", JSONRPC_INVALID_PARAMS, 400, 1},
    [ERR_CWD_NOT_FOUND] = {"cwd_not_found", JSONRPC_INVALID_PARAMS, 400, 1},
    [ERR_SHELL_NOT_FOUND] = {"shell_not_found", JSONRPC_INVALID_PARAMS, 400, 1},
    [ERR_NOT_FOUND] = {"computer_not_found", JSONRPC_INVALID_PARAMS, 404, 1},
    [ERR_EXISTS] = {"invalid_argument", JSONRPC_INVALID_PARAMS, 409, 1},
    [ERR_GONE] = {"computer_gone", JSONRPC_INTERNAL_ERROR, 410, 1},
    [ERR_DELETED] = {"computer_deleted", JSONRPC_INTERNAL_ERROR, 410, 1},
    [ERR_DENIED] = {"denied", JSONRPC_INTERNAL_ERROR, 403, 1},
    [ERR_LIMIT] = {"limit", JSONRPC_INTERNAL_ERROR, 429, 1},
    [ERR_BUSY] = {"busy", JSONRPC_INTERNAL_ERROR, 409, 1},
    [ERR_TIMEOUT] = {"timeout", JSONRPC_INTERNAL_ERROR, 504, 1},
    [ERR_CANCELLED] = {"cancelled", JSONRPC_INTERNAL_ERROR, 499, 1},
    [ERR_UNAVAILABLE] = {"unavailable", JSONRPC_INTERNAL_ERROR, 503, 1},
    [ERR_UNSUPPORTED] = {"unsupported", JSONRPC_INTERNAL_ERROR, 501, 1},
    [ERR_INTERNAL] = {"internal", JSONRPC_INTERNAL_ERROR, 500, 1},
};

static enum error_code code_in_range(enum error_code code)
{
    return (unsigned)code < ERR_CODE_COUNT ? code : ERR_INTERNAL;
}

const char *error_code_name(enum error_code code)
{
    return codes[code_in_range(code)].name;
}

int error_jsonrpc_code(enum error_code code)
{
    return codes[code_in_range(code)].jsonrpc;
}

int error_http_status(enum error_code code)
{
    return codes[code_in_range(code)].http;
}

int error_exit_code(enum error_code code)
{
    return codes[code_in_range(code)].exit;
}

enum error_code error_code_of_errno(int sys)
{
    switch (sys) {
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case EMFILE:
    case ENFILE:
    case ENOSPC:
    case EDQUOT:
    case EAGAIN:
    case ENOMEM:
        return ERR_LIMIT;
    default:
        return ERR_INTERNAL;
    }
}

/* Cuts a message that snprintf(3) found to be `wanted` bytes long to what fits, between two characters. */
static void cut(char *msg, size_t size, int wanted)
{
    if (wanted < 0)
        msg[0] = '\0';
    else if ((size_t)wanted >= size)
        msg[utf8_boundary(msg, size - 1)] = '\0';
}

int error_set(struct error *err, enum error_code code, const char *fmt, ...)
{
    if (!err)
        return -1;
    /* Not straight into err->msg: it may be among the arguments. */
    char msg[sizeof(err->msg)];
    va_list ap;
    va_start(ap, fmt);
    cut(msg, sizeof(msg), vsnprintf(msg, sizeof(msg), fmt, ap));
    va_end(ap);

    err->code = code;
    err->sys = 0;
    memcpy(err->msg, msg, sizeof(msg));
    return -1;
}

int error_errno(struct error *err, enum error_code code, int sys, const char *fmt, ...)
{
    if (!err)
        return -1;
    char context[sizeof(err->msg)], reason[128];
    va_list ap;
    va_start(ap, fmt);
    cut(context, sizeof(context), vsnprintf(context, sizeof(context), fmt, ap));
    va_end(ap);

    error_set(err, code, "%s: %s", context, strerror_r(sys, reason, sizeof(reason)));
    err->sys = sys;
    return -1;
}

int error_prefix(struct error *err, const char *fmt, ...)
{
    if (!err)
        return -1;
    char context[sizeof(err->msg)];
    va_list ap;
    va_start(ap, fmt);
    cut(context, sizeof(context), vsnprintf(context, sizeof(context), fmt, ap));
    va_end(ap);

    int sys = err->sys;
    error_set(err, err->code, "%s: %s", context, err->msg);
    err->sys = sys;
    return -1;
}

int error_recast(struct error *err, enum error_code code, const char *context)
{
    if (err)
        err->code = code;
    return error_prefix(err, "%s", context);
}
