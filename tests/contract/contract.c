/* What the cases have in common, and the loop over them. */
#include "contract/contract.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/random.h"
#include "tests/skip.h"

#define COMMAND_SECONDS 30.0
#define CASES_MAX 100

double contract_brief_s = 0.5;

struct exec_request shell_request(const char *command)
{
    return (struct exec_request){.command = command,
                                 .command_len = strlen(command),
                                 .output_limit = 1 * MIB,
                                 .wait = {.deadline = clock_deadline_after(COMMAND_SECONDS)}};
}

char *const *unconst(const char *const *strings)
{
    return (char *const *)(uintptr_t)strings;
}

struct exec_request argv_request(const char *const *argv)
{
    struct exec_request request = shell_request("");
    request.command = NULL;
    request.argv = unconst(argv);
    return request;
}

struct exec_result must_run(struct contract_computer *c, const struct exec_request *request)
{
    struct exec_result result = {0};
    struct error err = ERROR_INIT;
    if (c->instance->ops->exec(c->instance, request, &result, &err) < 0)
        fail_msg("exec: %s", err.msg);
    return result;
}

void must_fail(struct contract_computer *c, const struct exec_request *request, enum error_code code)
{
    struct exec_result result = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(c->instance->ops->exec(c->instance, request, &result, &err), -1);
    if (err.code != code)
        fail_msg("expected %s, got %s: %s", error_code_name(code), error_code_name(err.code), err.msg);
    assert_true(strlen(err.msg) > 0);
}

static _printf_(2, 0) struct exec_result run_shell(struct contract_computer *c, const char *fmt, va_list ap)
{
    _cleanup_(cleanup_free) char *command = xvasprintf(fmt, ap);
    struct exec_request request = shell_request(command);
    return must_run(c, &request);
}

char *must_shell(struct contract_computer *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct exec_result result = run_shell(c, fmt, ap);
    va_end(ap);
    if (result.exit_code != 0)
        fail_msg("exit %d: %s", result.exit_code, buf_str(&result.err.head));
    char *output = xstrdup(buf_str(&result.out.head));
    exec_result_done(&result);
    return output;
}

int shell_status(struct contract_computer *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct exec_result result = run_shell(c, fmt, ap);
    va_end(ap);
    int status = result.exit_code;
    exec_result_done(&result);
    return status;
}

void computer_begin(struct contract *t, struct contract_computer *ret, bool temporary)
{
    struct contract_computer c = {.t = t};
    random_hex(c.key, 8);
    snprintf(c.id, sizeof(c.id), "contract-%.4s", c.key);
    c.folder = xasprintf("%s/computers/local/%s", t->state_dir, c.id);
    assert_int_equal(dir_make(c.folder, 0711, NULL), 0);
    *ret = c;
    ret->spec = (struct computer_spec){
        .id = ret->id, .principal = "local", .key = ret->key, .folder = ret->folder, .temporary = temporary};
}

void computer_create(struct contract_computer *c)
{
    struct backend *b = c->t->backend;
    struct error err = ERROR_INIT;
    const struct wait wait = {.deadline = clock_deadline_after(COMMAND_SECONDS)};
    if (b->ops->create(b, &c->spec, &wait, &c->instance, &err) < 0)
        fail_msg("create: %s", err.msg);
}

static int stay(void *ctx, struct error *err)
{
    return 0;
}

void computer_create_ahead(struct contract_computer *c)
{
    struct backend *b = c->t->backend;
    struct computer_spec ahead = c->spec;
    struct error err = ERROR_INIT;
    ahead.id = "";
    ahead.options = NULL;
    if (b->ops->prepare && b->ops->prepare(b, &ahead, &c->instance, &err) < 0)
        fail_msg("prepare: %s", err.msg);
    c->spec.prepared = true;
    if (!c->instance)
        computer_create(c);
    else if (b->ops->begin(c->instance, c->spec.options, &err) < 0 ||
             b->ops->give_id(c->instance, &c->spec, stay, NULL, &err) < 0)
        fail_msg("begin, give_id: %s", err.msg);
}

void computer_make(struct contract *t, struct contract_computer *ret, bool temporary)
{
    computer_begin(t, ret, temporary);
    computer_create(ret);
}

void computer_forget(struct contract_computer *c)
{
    DIR *folder = opendir(c->folder);
    assert_non_null(folder);
    for (const struct dirent *e; (e = readdir(folder));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            fail_msg("'%s' is left in the computer's folder", e->d_name);
    closedir(folder);
    rmdir(c->folder);
    free(c->folder);
}

void computer_remove(struct contract_computer *c)
{
    struct error err = ERROR_INIT;
    if (c->instance->ops->remove(TAKE_PTR(c->instance), &err) < 0)
        fail_msg("remove: %s", err.msg);
    computer_forget(c);
}

static void *run_thread(void *arg)
{
    struct contract_thread *t = arg;
    struct instance *i = t->computer->instance;
    t->r = i->ops->exec(i, &t->request, &t->result, &t->error);
    return NULL;
}

void command_start(struct contract_thread *t, struct contract_computer *c, const struct exec_request *request)
{
    *t = (struct contract_thread){.computer = c, .request = *request};
    assert_int_equal(pthread_create(&t->thread, NULL, run_thread, t), 0);
}

void command_join(struct contract_thread *t)
{
    pthread_join(t->thread, NULL);
}

/* -- The loop */

/* A new folder that everybody may pass through; malloced. */
static char *make_state_dir(void)
{
    char *dir = xstrdup("/tmp/contract-XXXXXX");
    if (!mkdtemp(dir) || chmod(dir, 0711) < 0)
        abort();
    return dir;
}

struct bound_case {
    struct contract *t;
    const struct contract_case *c;
};

static void run_case(void **state)
{
    const struct bound_case *b = *state;
    unsigned has = b->t->backend->ops->capabilities(b->t->backend);
    if ((b->c->needs & has) != b->c->needs) {
        skip_because("the backend lacks a capability that the case is about");
    }
    b->c->run(b->t);
}

static size_t bind_cases(struct contract *t, const struct contract_case *cases, struct bound_case *bound,
                         struct CMUnitTest *tests, size_t n)
{
    for (; cases->name; cases++, n++) {
        if (n == CASES_MAX)
            abort();
        bound[n] = (struct bound_case){t, cases};
        tests[n] =
            (struct CMUnitTest){.name = cases->name, .test_func = run_case, .initial_state = &bound[n]};
    }
    return n;
}

int contract_run_lists(const char *name, backend_make_fn *make, const struct contract_case *const *lists)
{
    static struct bound_case bound[CASES_MAX];
    static struct CMUnitTest tests[CASES_MAX];
    char *state_dir = make_state_dir();
    struct contract t = {.make = make, .backend = make(state_dir), .state_dir = state_dir};
    const struct wait wait = {.deadline = clock_deadline_after(COMMAND_SECONDS)};
    struct error err = ERROR_INIT;
    if (t.backend->ops->probe(t.backend, &wait, &err) < 0) {
        fprintf(stderr, "%s does not work here: %s\n", name, err.msg);
        return 1;
    }
    cmocka_set_test_filter(getenv("CONTRACT_ONLY"));
    size_t n = 0;
    for (; *lists; lists++)
        n = bind_cases(&t, *lists, bound, tests, n);
    struct CMUnitTest *used = xcalloc(n, sizeof(*used));
    memcpy(used, tests, n * sizeof(*used));
    int failed = _cmocka_run_group_tests(name, used, n, NULL, NULL);
    free(used);
    t.backend->ops->free(t.backend);
    tree_remove(AT_FDCWD, state_dir, NULL);
    free(state_dir);
    return failed ? 1 : 0;
}

int contract_run(const char *name, backend_make_fn *make)
{
    const struct contract_case *const lists[] = {EXEC_CASES, OUTPUT_CASES, ANY_CASES, LIFE_CASES,
                                                 DISK_CASES, MANAGE_CASES, NULL};
    return contract_run_lists(name, make, lists);
}
