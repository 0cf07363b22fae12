/* The contract of backends/backend.h as a table of cases that knows no backend: each one is done when it
 * passes. Cases run real shell commands; what they touch is in the computer's own first folder, in /usr or in
 * /tmp. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "backends/backend.h"

/* Makes a backend of the kind under test on a state directory, as each server process does. */
typedef struct backend *backend_make_fn(const char *state_dir);

/* The group's state: a backend and a folder to work in. */
struct contract {
    backend_make_fn *make;
    struct backend *backend;
    char *state_dir;
};

struct contract_case {
    const char *name;
    void (*run)(struct contract *t);
    unsigned needs; /* capabilities without which the case says nothing */
};

/* Each ends with a NULL name. ANY_CASES run no command. */
extern const struct contract_case ANY_CASES[], EXEC_CASES[], OUTPUT_CASES[], LIFE_CASES[], DISK_CASES[],
    MANAGE_CASES[];

/* What a command has that is to be timed out, after it has begun what it is about: 0.5 s, unless a backend
 * whose commands are slow to begin says otherwise. */
extern double contract_brief_s;
/* What a computer has that has memory of its own: 96 MiB, unless a backend has it in steps only. */
extern int64_t contract_own_memory;

/* Runs all cases against such a backend, or those whose names match CONTRACT_ONLY, which may have * and ?;
 * returns main's exit code. */
int contract_run(const char *name, backend_make_fn *make);
/* Runs those of some lists, the last of which is NULL: for computers without a shell. */
int contract_run_lists(const char *name, backend_make_fn *make, const struct contract_case *const *lists);

/* A computer as the domain would make it. */
struct contract_computer {
    struct contract *t;
    char id[32], key[17];
    char *folder;
    struct computer_spec spec;
    struct instance *instance;
};
void computer_make(struct contract *t, struct contract_computer *ret, bool temporary);
/* The same in two steps: its folder, then the computer. */
void computer_begin(struct contract *t, struct contract_computer *ret, bool temporary);
void computer_create(struct contract_computer *c);
/* As from what was made ahead, if the backend makes anything, which knows nothing of the computer's options.
 */
void computer_create_ahead(struct contract_computer *c);
/* Removes it and checks that nothing is left. */
void computer_remove(struct contract_computer *c);
/* Frees what belongs to the test, and the folder, which must be empty. */
void computer_forget(struct contract_computer *c);

/* 30 s, 1 MiB of output, nobody cancels. */
struct exec_request shell_request(const char *command);
struct exec_request argv_request(const char *const *argv);
/* Literals as the contract takes them, which has no const inside as execve(2) has none. */
char *const *unconst(const char *const *strings);
/* Runs it; it must come to a result. */
struct exec_result must_run(struct contract_computer *c, const struct exec_request *request);
/* A shell command that must exit with 0; its output, malloced. */
char *must_shell(struct contract_computer *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int shell_status(struct contract_computer *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Runs it; it must fail with that code. */
void must_fail(struct contract_computer *c, const struct exec_request *request, enum error_code code);

/* A command on a thread of its own. */
struct contract_thread {
    struct contract_computer *computer;
    struct exec_request request;
    struct exec_result result;
    struct error error;
    int r;
    unsigned long thread;
};
void command_start(struct contract_thread *t, struct contract_computer *c,
                   const struct exec_request *request);
void command_join(struct contract_thread *t);

#define assert_text(buffer, text) assert_string_equal(buf_str(buffer), text)
