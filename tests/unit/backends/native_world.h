/* What the cases of the native backend share: a backend in a state directory of its own, computers, commands.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backends/native/private.h"
#include "base/limits.h"
#include "base/random.h"

#define OUTPUT_LIMIT (2 * MIB)

struct world {
    struct native_machine machine;
    int64_t disk_bytes;
    char state[64];
    char ids_file[96];
    struct backend *backend;
};
extern struct world world;
extern const struct wait for_ever;

struct subject {
    char id[32], key[RANDOM_HEX_SIZE(8)], folder[128];
    struct computer_spec spec;
    struct instance *i;
};
/* For the cases that leave it as it was. */
extern struct subject common;

/* Its folder and spec. */
void subject_name(struct subject *s, const char *id);
void subject_create(struct subject *s, const char *id);
/* Nothing may be left: no group of its name anywhere, no file. */
void assert_no_trace(const struct subject *s);
void subject_remove(struct subject *s);
/* The newest. */
pid_t find_zygote(void);

struct exec_request request(const char *command);
int run_request(struct subject *s, const struct exec_request *r, struct exec_result *ret, struct error *err);
void run_ok(struct subject *s, const struct exec_request *r, struct exec_result *ret);
void run_command(struct subject *s, const char *command, struct exec_result *ret);
void assert_output(struct subject *s, const char *command, const char *expected);

/* The cases of commands, in native_exec_cases.c. */
extern const struct CMUnitTest native_exec_cases[];
extern const size_t native_exec_case_count;
/* Those of computers that get their id late, in native_spare_cases.c. */
extern const struct CMUnitTest native_spare_cases[];
extern const size_t native_spare_case_count;
/* Those of capped disks, in native_disk_cases.c. */
extern const struct CMUnitTest native_image_cases[], native_watched_cases[];
extern const size_t native_image_case_count, native_watched_case_count;
