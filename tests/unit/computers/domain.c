/* A registry on the fake backend, in a folder of its own: see domain.h. */
#include "domain.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#define LONG_SECONDS 60.0

void gate_init(struct gate *g)
{
    *g = (struct gate){.open_fd = eventfd(0, EFD_CLOEXEC)};
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
}

void gate_done(struct gate *g)
{
    fd_close(g->open_fd);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
}

void gate_open(struct gate *g)
{
    assert_int_equal(eventfd_write(g->open_fd, 1), 0);
}

void gate_await(struct gate *g, int arrived)
{
    pthread_mutex_lock(&g->lock);
    while (g->arrived < arrived)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

int gate_pass(struct gate *g, const struct wait *wait, struct error *err)
{
    pthread_mutex_lock(&g->lock);
    g->arrived++;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    return wait_fd(g->open_fd, POLLIN, wait, NULL, err);
}

static void note(void *ctx, const char *principal, const char *name)
{
    struct unborn *u = ctx;
    if (!store_is_debris(name))
        return;
    assert_true(u->count < UNBORN_MAX);
    snprintf(u->names[u->count++], COMPUTER_NAME_SIZE, "%s/%s", principal, name);
}

struct unborn find_unborn(const char *state_dir)
{
    struct unborn u = {0};
    _cleanup_(cleanup_free) char *dir = xasprintf("%s/computers", state_dir);
    store_scan(dir, note, &u);
    return u;
}

void domain_init(struct domain *d, const struct fake_hooks *hooks, const char *state_dir)
{
    domain_init_pool(d, hooks, state_dir, 0);
}

void domain_init_pool(struct domain *d, const struct fake_hooks *hooks, const char *state_dir, int pool)
{
    domain_init_options(d, hooks, state_dir, &(struct computers_options){.pool = pool});
}

void domain_init_options(struct domain *d, const struct fake_hooks *hooks, const char *state_dir,
                         const struct computers_options *more)
{
    if (state_dir) {
        d->state_dir = xstrdup(state_dir);
    } else {
        d->state_dir = xstrdup("/tmp/domain-XXXXXX");
        assert_non_null(mkdtemp(d->state_dir));
    }
    d->backend = fake_backend_new(BACKEND_PERSISTENT, hooks);
    struct computers_options options = *more;
    options.state_dir = d->state_dir;
    options.backend = d->backend;
    options.network = "none";
    d->computers = computers_new(&options);
    d->session = computer_session_new(d->computers, "local");
}

void domain_done(struct domain *d, const char *keep_state_dir)
{
    struct error err = ERROR_INIT;
    if (d->session && computer_session_end(d->session, clock_deadline_after(LONG_SECONDS), &err) < 0)
        fail_msg("%s", err.msg);
    computers_free(d->computers);
    assert_int_equal(fake_backend_counts(d->backend).live, 0);
    d->backend->ops->free(d->backend);
    if (!keep_state_dir)
        assert_int_equal(tree_remove(AT_FDCWD, d->state_dir, NULL), 0);
    free(d->state_dir);
}

void domain_new_session(struct domain *d)
{
    assert_int_equal(computer_session_end(d->session, clock_deadline_after(LONG_SECONDS), NULL), 0);
    d->session = computer_session_new(d->computers, "local");
}

static int use_now(struct computer_session *s, const char *id, enum lifetime lifetime,
                   struct computer_use *ret, struct error *err)
{
    const struct wait wait = {.deadline = clock_deadline_after(LONG_SECONDS)};
    return computers_use(s, &(struct computer_wish){.id = id, .lifetime = lifetime}, &wait, ret, err);
}

struct computer_use must_use(struct computer_session *s, const char *id, enum lifetime lifetime)
{
    struct computer_use use = {0};
    struct error err = ERROR_INIT;
    if (use_now(s, id, lifetime, &use, &err) < 0)
        fail_msg("computers_use: %s", err.msg);
    return use;
}

void must_not_use(struct computer_session *s, const char *id, enum lifetime lifetime, enum error_code code)
{
    struct computer_use use = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(use_now(s, id, lifetime, &use, &err), -1);
    assert_null(use.computer);
    if (err.code != code)
        fail_msg("expected %s, got %s: %s", error_code_name(code), error_code_name(err.code), err.msg);
}

void must_run(const struct computer_use *use)
{
    struct exec_result result = {0};
    struct error err = ERROR_INIT;
    const struct exec_request request = {.command = "true",
                                         .command_len = 4,
                                         .output_limit = 100,
                                         .wait = {.deadline = clock_deadline_after(LONG_SECONDS)}};
    if (computer_exec(use, &request, &result, &err) < 0)
        fail_msg("computer_exec: %s", err.msg);
    exec_result_done(&result);
}

void must_have(struct domain *d, const char *id, enum lifetime lifetime)
{
    struct computer_use use = must_use(d->session, id, lifetime);
    computers_release(&use);
}

static char *file_of(const struct domain *d, const char *id)
{
    return xasprintf("%s/computers/local/%s/home/file", d->state_dir, id);
}

void put_file(const struct domain *d, const char *id)
{
    _cleanup_(cleanup_free) char *path = file_of(d, id);
    assert_int_equal(file_replace(AT_FDCWD, path, "x", 1, false, NULL), 0);
}

bool has_file(const struct domain *d, const char *id)
{
    _cleanup_(cleanup_free) char *path = file_of(d, id);
    return access(path, F_OK) == 0;
}

struct wait long_wait(void)
{
    return (struct wait){.deadline = clock_deadline_after(LONG_SECONDS)};
}

struct search {
    const char *id;
    struct computer_view *ret;
    bool found;
};

static void compare(void *ctx, const struct computer_view *v)
{
    struct search *s = ctx;
    if (strcmp(v->id, s->id) != 0)
        return;
    assert_false(s->found);
    s->found = true;
    *s->ret = *v;
}

bool find_view(struct computer_session *s, const char *id, struct computer_view *ret)
{
    const struct wait wait = long_wait();
    struct search search = {.id = id, .ret = ret};
    size_t total;
    struct error err = ERROR_INIT;
    if (computers_list(s, &(struct computer_list_wish){.condition = -1}, &wait, compare, &search, &total,
                       &err) < 0)
        fail_msg("computers_list: %s", err.msg);
    return search.found;
}

bool folder_exists(const struct domain *d, const char *id)
{
    _cleanup_(cleanup_free) char *path = xasprintf("%s/computers/local/%s", d->state_dir, id);
    return access(path, F_OK) == 0;
}

static void *call(void *arg)
{
    struct caller *c = arg;
    c->r = computers_use(c->session, &(struct computer_wish){.id = c->id, .lifetime = c->lifetime}, &c->wait,
                         &c->use, &c->err);
    return NULL;
}

void caller_start(struct caller *c, struct computer_session *s, const char *id, struct cancel *cancel)
{
    *c = (struct caller){
        .session = s, .id = id, .wait = {.deadline = clock_deadline_after(LONG_SECONDS), .cancel = cancel}};
    assert_int_equal(pthread_create(&c->thread, NULL, call, c), 0);
}

void caller_start_for(struct caller *c, struct computer_session *s, const char *id, enum lifetime lifetime)
{
    *c = (struct caller){.session = s, .id = id, .lifetime = lifetime, .wait = long_wait()};
    assert_int_equal(pthread_create(&c->thread, NULL, call, c), 0);
}

void caller_join(struct caller *c)
{
    pthread_join(c->thread, NULL);
}

void await_waiter(const struct domain *d, const char *id)
{
    char name[2 * SLUG_SIZE];
    snprintf(name, sizeof(name), "local/%s", id);
    for (bool waits = false; !waits; sched_yield()) {
        pthread_mutex_lock(&d->computers->lock);
        const struct computer *c = map_get(d->computers->by_name, name);
        waits = c && c->change;
        pthread_mutex_unlock(&d->computers->lock);
    }
}
