/* Compiling a stranger's module, which is as good as running it: the compiler is jailed before it sees it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/wasm/runtime.h"
#include "backends/wasm/internal.h"
#include "backends/wasm/jail.h"
#include "backends/wasm/wasm_limits.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/macros.h"

static int limit(struct error *err)
{
    const rlim_t cpu = COMPILE_CPU_SECONDS, file = LIMIT_WASM_CODE_BYTES;
    if (setrlimit(RLIMIT_CPU, &(struct rlimit){cpu, cpu}) < 0 ||
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){file, file}) < 0 ||
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "limit the compiler");
    return jail_limit_memory(jail_memory_now() + COMPILE_MEMORY_BYTES, err);
}

static int map_module(struct wasmtime_bytes *ret, struct error *err)
{
    struct stat st;
    if (fstat(STDIN_FILENO, &st) < 0 || st.st_size <= 0 || st.st_size > (off_t)LIMIT_WASM_MODULE_BYTES)
        return error_set(err, ERR_INVALID, "there is no module to compile");
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, STDIN_FILENO, 0);
    if (data == MAP_FAILED)
        return error_errno(err, ERR_UNAVAILABLE, errno, "map the module");
    *ret = (struct wasmtime_bytes){(size_t)st.st_size, data};
    return 0;
}

static bool is_named(const struct wasmtime_bytes *name, const char *wanted)
{
    return name->size == strlen(wanted) && memcmp(name->data, wanted, name->size) == 0;
}

/* A WASI command: _start is a function without parameters and results. */
static int check_start(const struct wasmtime_module *module, struct error *err)
{
    struct wasmtime_bytes exports;
    wasmtime_module_exports(module, &exports);
    struct wasmtime_exporttype *const *types = (void *)exports.data;
    for (size_t i = 0; i < exports.size; i++) {
        if (!is_named(wasm_exporttype_name(types[i]), "_start"))
            continue;
        const struct wasmtime_functype *f = wasm_externtype_as_functype_const(wasm_exporttype_type(types[i]));
        if (f && wasm_functype_params(f)->size == 0 && wasm_functype_results(f)->size == 0)
            return 0;
        return error_set(err, ERR_INVALID, "its _start is not a function without parameters and results");
    }
    return error_set(err, ERR_INVALID,
                     "it exports no function _start: it is a library, not a command (WASI preview 1)");
}

/* Imports that WASI doesn't have show here. */
static int check_module(struct wasmtime_engine *engine, const struct wasmtime_module *module,
                        struct error *err)
{
    static int exited = -1;
    struct wasmtime_linker *linker;
    struct wasmtime_pre *pre;
    if (check_start(module, err) < 0 || runtime_link(engine, &exited, &linker, err) < 0)
        return -1;
    const struct wasmtime_error *e = wasmtime_linker_instantiate_pre(linker, module, &pre);
    return e ? runtime_failed(e, "it needs what there is not", err) : 0;
}

int internal_compile(const char *library, bool fuel, struct error *err)
{
    struct wasmtime_bytes bytes = {0}, code = {0};
    struct wasmtime_module *module;
    if (runtime_load(library, err) < 0)
        return -1;
    struct wasmtime_engine *engine = runtime_new(fuel);
    if (map_module(&bytes, err) < 0 || jail_drop_privileges(err) < 0 || limit(err) < 0 ||
        jail_enter(JAIL_COMPILE, -1, err) < 0)
        return -1;
    const struct wasmtime_error *e = wasmtime_module_new(engine, bytes.data, bytes.size, &module);
    if (e)
        return runtime_failed(e, "the engine refuses it", err);
    if (check_module(engine, module, err) < 0)
        return -1;
    e = wasmtime_module_serialize(module, &code);
    if (e)
        return runtime_failed(e, "its code can't be written", err);
    if (fd_write_all(STDOUT_FILENO, code.data, code.size) < 0)
        return error_errno(err, ERR_LIMIT, errno, "write its code of %zu bytes", code.size);
    return 0;
}
