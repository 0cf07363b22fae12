/* One command on its way to the zygote. */
#pragma once

#include "backends/wasm/private.h"

/* Our ends of it: all non-blocking. */
struct wasm_call {
    int line, out, err;
};
#define WASM_CALL_NONE                                                                                       \
    {                                                                                                        \
        .line = -1, .out = -1, .err = -1                                                                     \
    }
void wasm_call_done(struct wasm_call *c);

/* ERR_INVALID, ERR_LIMIT, ERR_CWD_NOT_FOUND, ERR_SHELL_NOT_FOUND; ERR_GONE if the zygote is. */
int wasm_call_begin(struct wasm_instance *i, struct wasm_zygote *zygote, const struct exec_request *request,
                    struct wasm_call *ret, struct error *err);
