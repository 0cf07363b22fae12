/* See runtime.h. Messages of the engine have no NUL at their end, have one too many, or end with a line feed:
 * they are cut to one line here. */
#include "backends/wasm/runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

/* ELF of compiled code: the section of the engine's own begins there with a 0, the length of the version and
 * its text. */
#define VERSION_OFFSET 64

static const struct {
    const char *name;
    void *variable;
} functions[] = {
#define ENTRY(result, name, parameters) {#name, (void *)&name},
    WASMTIME_API(ENTRY)
#undef ENTRY
};

int runtime_load(const char *library, struct error *err)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return error_set(err, ERR_UNAVAILABLE, "the engine's library can't be loaded: %s", dlerror());
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        void *address = dlsym(handle, functions[i].name);
        if (!address)
            return error_set(err, ERR_UNAVAILABLE,
                             "%s is not Wasmtime's library, or not one of %d to %d: it lacks %s", library,
                             WASMTIME_MAJOR_MIN, WASMTIME_MAJOR_MAX, functions[i].name);
        memcpy(functions[i].variable, &address, sizeof(address));
    }
    return 0;
}

struct wasmtime_engine *runtime_new(bool fuel)
{
    struct wasmtime_config *config = wasm_config_new();
    if (!config)
        abort();
    wasmtime_config_consume_fuel_set(config, fuel);
    struct wasmtime_engine *engine = wasm_engine_new_with_config(config);
    if (!engine)
        abort();
    return engine;
}

int runtime_major(struct wasmtime_engine *engine, int *ret, struct error *err)
{
    static const uint8_t empty[] = {'\0', 'a', 's', 'm', 1, 0, 0, 0};
    struct wasmtime_module *module;
    struct wasmtime_bytes code = {0};
    const struct wasmtime_error *e = wasmtime_module_new(engine, empty, sizeof(empty), &module);
    if (!e)
        e = wasmtime_module_serialize(module, &code);
    if (e)
        return runtime_failed(e, "ask the engine for its version", err);
    char text[16] = "";
    size_t length = code.size > VERSION_OFFSET + 1 ? code.data[VERSION_OFFSET + 1] : 0;
    if (length == 0 || length >= sizeof(text) || code.size < VERSION_OFFSET + 2 + length)
        return error_set(err, ERR_UNAVAILABLE,
                         "the engine doesn't say its version where Wasmtime %d to %d do", WASMTIME_MAJOR_MIN,
                         WASMTIME_MAJOR_MAX);
    memcpy(text, code.data + VERSION_OFFSET + 2, length);
    *ret = atoi(text);
    return 0;
}

static struct wasmtime_trap *proc_exit(void *env, struct wasmtime_caller *caller,
                                       const struct wasmtime_value *args, size_t nargs,
                                       struct wasmtime_value *results, size_t nresults)
{
    static const char text[] = "exit";
    (void)caller;
    (void)results;
    (void)nresults;
    *(int *)env = nargs > 0 ? args[0].of.i32 & 0xff : 0;
    return wasmtime_trap_new(text, sizeof(text) - 1);
}

int runtime_link(struct wasmtime_engine *engine, int *exited, struct wasmtime_linker **ret, struct error *err)
{
    static const char module[] = "wasi_snapshot_preview1", name[] = "proc_exit";
    struct wasmtime_linker *linker = wasmtime_linker_new(engine);
    const struct wasmtime_error *e = wasmtime_linker_define_wasi(linker);
    if (e)
        return runtime_failed(e, "link WASI", err);
    struct wasmtime_valtype *i32 = wasm_valtype_new(WASMTIME_I32);
    struct wasmtime_bytes parameters, results = {0};
    wasm_valtype_vec_new(&parameters, 1, &i32);
    const struct wasmtime_functype *type = wasm_functype_new(&parameters, &results);
    wasmtime_linker_allow_shadowing(linker, true);
    e = wasmtime_linker_define_func(linker, module, sizeof(module) - 1, name, sizeof(name) - 1, type,
                                    proc_exit, exited, NULL);
    if (e)
        return runtime_failed(e, "link proc_exit", err);
    *ret = linker;
    return 0;
}

/* All in one line; of what has `from`, the rest behind it if `skip`, else from there on. */
static void copy_line(const struct wasmtime_bytes *message, const char *from, bool skip, char *ret,
                      size_t size)
{
    const char *text = (const char *)message->data, *limit = text + message->size;
    const char *found = from ? memmem(text, message->size, from, strlen(from)) : NULL;
    size_t n = 0;
    for (const char *p = found ? found + (skip ? strlen(from) : 0) : text; p < limit && n < size - 1; p++) {
        const bool blank = *p == ' ' || *p == '\n' || *p == '\0';
        if (!blank)
            ret[n++] = *p;
        else if (n > 0 && ret[n - 1] != ' ')
            ret[n++] = ' ';
    }
    ret[n > 0 && ret[n - 1] == ' ' ? n - 1 : n] = '\0';
}

void runtime_trap_text(const struct wasmtime_trap *trap, char *ret, size_t size)
{
    struct wasmtime_bytes message = {0};
    wasm_trap_message(trap, &message);
    copy_line(&message, "wasm trap: ", false, ret, size);
}

void runtime_error_text(const struct wasmtime_error *e, char *ret, size_t size)
{
    struct wasmtime_bytes message = {0};
    wasmtime_error_message(e, &message);
    const bool has_backtrace =
        memmem(message.data, message.size, "wasm backtrace:", strlen("wasm backtrace:"));
    copy_line(&message, has_backtrace ? "Caused by:" : NULL, true, ret, size);
}

int runtime_failed(const struct wasmtime_error *e, const char *what, struct error *err)
{
    char text[400];
    runtime_error_text(e, text, sizeof(text));
    return error_set(err, ERR_INVALID, "%s: %s", what, text);
}
