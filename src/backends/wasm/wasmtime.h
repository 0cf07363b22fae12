/* The part of Wasmtime's C API that is used, by prototypes of our own: the library is loaded at run time.
 * They are those of the majors 48 to 50, which are equal; 47 has another wasi_config_preopen_dir under the
 * same name, so no other major is accepted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WASMTIME_MAJOR_MIN 48
#define WASMTIME_MAJOR_MAX 50

/* Laid out as the library has them; all others are opaque. Every vector of the library is like this one, of
 * bytes or of pointers. */
struct wasmtime_bytes {
    size_t size;
    uint8_t *data;
};
struct wasmtime_func {
    uint64_t store_id;
    void *private;
};
struct wasmtime_instance {
    uint64_t store_id;
    size_t private;
};
/* wasmtime_extern_t and wasmtime_val_t. */
struct wasmtime_value {
    uint8_t kind;
    union {
        struct wasmtime_func func;
        int32_t i32;
        uint64_t room[3];
    } of;
};
#define WASMTIME_EXTERN_FUNC 0
#define WASMTIME_I32 0
_Static_assert(sizeof(struct wasmtime_func) == 16 && sizeof(struct wasmtime_instance) == 16 &&
                   sizeof(struct wasmtime_value) == 32,
               "the library's layout");

struct wasmtime_config;
struct wasmtime_engine;
struct wasmtime_module;
struct wasmtime_store;
struct wasmtime_context;
struct wasmtime_linker;
struct wasmtime_pre;
struct wasmtime_wasi;
struct wasmtime_error;
struct wasmtime_trap;
struct wasmtime_valtype;
struct wasmtime_functype;
struct wasmtime_exporttype;
struct wasmtime_externtype;
struct wasmtime_caller;

typedef struct wasmtime_trap *wasmtime_callback(void *env, struct wasmtime_caller *caller,
                                                const struct wasmtime_value *args, size_t nargs,
                                                struct wasmtime_value *results, size_t nresults);

/* X(result, name, parameters) */
#define WASMTIME_API(X)                                                                                      \
    X(struct wasmtime_config *, wasm_config_new, (void))                                                     \
    X(struct wasmtime_engine *, wasm_engine_new_with_config, (struct wasmtime_config *))                     \
    X(void, wasm_byte_vec_new, (struct wasmtime_bytes *, size_t, const uint8_t *))                           \
    X(struct wasmtime_valtype *, wasm_valtype_new, (uint8_t))                                                \
    X(void, wasm_valtype_vec_new, (struct wasmtime_bytes *, size_t, struct wasmtime_valtype *const *))       \
    X(struct wasmtime_functype *, wasm_functype_new, (struct wasmtime_bytes *, struct wasmtime_bytes *))     \
    X(void, wasm_trap_message, (const struct wasmtime_trap *, struct wasmtime_bytes *))                      \
    X(void, wasmtime_config_consume_fuel_set, (struct wasmtime_config *, bool))                              \
    X(struct wasmtime_error *, wasmtime_module_new,                                                          \
      (struct wasmtime_engine *, const uint8_t *, size_t, struct wasmtime_module **))                        \
    X(struct wasmtime_error *, wasmtime_module_serialize,                                                    \
      (const struct wasmtime_module *, struct wasmtime_bytes *))                                             \
    X(struct wasmtime_error *, wasmtime_module_deserialize_file,                                             \
      (struct wasmtime_engine *, const char *, struct wasmtime_module **))                                   \
    X(struct wasmtime_store *, wasmtime_store_new, (struct wasmtime_engine *, void *, void (*)(void *)))     \
    X(struct wasmtime_context *, wasmtime_store_context, (struct wasmtime_store *))                          \
    X(void, wasmtime_store_limiter, (struct wasmtime_store *, int64_t, int64_t, int64_t, int64_t, int64_t))  \
    X(struct wasmtime_error *, wasmtime_context_set_fuel, (struct wasmtime_context *, uint64_t))             \
    X(struct wasmtime_error *, wasmtime_context_set_wasi,                                                    \
      (struct wasmtime_context *, struct wasmtime_wasi *))                                                   \
    X(struct wasmtime_linker *, wasmtime_linker_new, (struct wasmtime_engine *))                             \
    X(struct wasmtime_error *, wasmtime_linker_define_wasi, (struct wasmtime_linker *))                      \
    X(void, wasmtime_linker_allow_shadowing, (struct wasmtime_linker *, bool))                               \
    X(struct wasmtime_error *, wasmtime_linker_define_func,                                                  \
      (struct wasmtime_linker *, const char *, size_t, const char *, size_t,                                 \
       const struct wasmtime_functype *, wasmtime_callback *, void *, void (*)(void *)))                     \
    X(struct wasmtime_error *, wasmtime_linker_instantiate_pre,                                              \
      (const struct wasmtime_linker *, const struct wasmtime_module *, struct wasmtime_pre **))              \
    X(struct wasmtime_error *, wasmtime_instance_pre_instantiate,                                            \
      (const struct wasmtime_pre *, struct wasmtime_context *, struct wasmtime_instance *,                   \
       struct wasmtime_trap **))                                                                             \
    X(struct wasmtime_trap *, wasmtime_trap_new, (const char *, size_t))                                     \
    X(bool, wasmtime_instance_export_get,                                                                    \
      (struct wasmtime_context *, const struct wasmtime_instance *, const char *, size_t,                    \
       struct wasmtime_value *))                                                                             \
    X(void, wasmtime_module_exports, (const struct wasmtime_module *, struct wasmtime_bytes *))              \
    X(const struct wasmtime_bytes *, wasm_exporttype_name, (const struct wasmtime_exporttype *))             \
    X(const struct wasmtime_externtype *, wasm_exporttype_type, (const struct wasmtime_exporttype *))        \
    X(const struct wasmtime_functype *, wasm_externtype_as_functype_const,                                   \
      (const struct wasmtime_externtype *))                                                                  \
    X(const struct wasmtime_bytes *, wasm_functype_params, (const struct wasmtime_functype *))               \
    X(const struct wasmtime_bytes *, wasm_functype_results, (const struct wasmtime_functype *))              \
    X(struct wasmtime_error *, wasmtime_func_call,                                                           \
      (struct wasmtime_context *, const struct wasmtime_func *, const void *, size_t, void *, size_t,        \
       struct wasmtime_trap **))                                                                             \
    X(void, wasmtime_error_message, (const struct wasmtime_error *, struct wasmtime_bytes *))                \
    X(bool, wasmtime_error_exit_status, (const struct wasmtime_error *, int *))                              \
    X(bool, wasmtime_trap_code, (const struct wasmtime_trap *, uint8_t *))                                   \
    X(struct wasmtime_wasi *, wasi_config_new, (void))                                                       \
    X(bool, wasi_config_set_argv, (struct wasmtime_wasi *, size_t, const char **))                           \
    X(bool, wasi_config_set_env, (struct wasmtime_wasi *, size_t, const char **, const char **))             \
    X(void, wasi_config_set_stdin_bytes, (struct wasmtime_wasi *, struct wasmtime_bytes *))                  \
    X(void, wasi_config_inherit_stdout, (struct wasmtime_wasi *))                                            \
    X(void, wasi_config_inherit_stderr, (struct wasmtime_wasi *))                                            \
    X(bool, wasi_config_preopen_dir, (struct wasmtime_wasi *, const char *, const char *, bool))

#define WASMTIME_DECLARE(result, name, parameters) extern result(*name) parameters;
WASMTIME_API(WASMTIME_DECLARE)
#undef WASMTIME_DECLARE

/* Of wasmtime_trap_code(). */
enum wasmtime_trap_kind { WASMTIME_TRAP_STACK = 0, WASMTIME_TRAP_MEMORY = 1, WASMTIME_TRAP_FUEL = 11 };
