/* What the tests of computers/ share: a state directory, a domain over the fake backend, gates that hold its
 * steps, and callers on threads of their own. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <pthread.h>

#include "computers/registry.h"
#include "fakes/fake_backend.h"

/* Holds whoever comes until it is opened, or until their own wait is over. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int arrived;
    int open_fd; /* readable once open */
};
void gate_init(struct gate *g);
void gate_done(struct gate *g);
void gate_open(struct gate *g);
void gate_await(struct gate *g, int arrived);
int gate_pass(struct gate *g, const struct wait *wait, struct error *err);

struct domain {
    char *state_dir;
    struct backend *backend;
    struct computers *computers;
    struct computer_session *session; /* of the principal "local" */
};
/* What of a state directory is being born or dying. */
#define UNBORN_MAX 32
struct unborn {
    int count;
    char names[UNBORN_MAX][COMPUTER_NAME_SIZE]; /* PRINCIPAL/NAME */
};
struct unborn find_unborn(const char *state_dir);
/* hooks may be NULL. state_dir NULL: a new one, removed by domain_done; else another server's, shared. */
void domain_init(struct domain *d, const struct fake_hooks *hooks, const char *state_dir);
void domain_done(struct domain *d, const char *keep_state_dir);
/* With so many computers made ahead. */
void domain_init_pool(struct domain *d, const struct fake_hooks *hooks, const char *state_dir, int pool);
/* With what `more` has beside a state directory and a backend. */
void domain_init_options(struct domain *d, const struct fake_hooks *hooks, const char *state_dir,
                         const struct computers_options *more);
/* Ends the session and makes a new one, as another client would. */
void domain_new_session(struct domain *d);

/* Calls that must work, and ones that must fail with a code. Without a deadline that matters. */
struct computer_use must_use(struct computer_session *s, const char *id, enum lifetime lifetime);
void must_not_use(struct computer_session *s, const char *id, enum lifetime lifetime, enum error_code code);
void must_run(const struct computer_use *use);
/* One by this id is made or attached, and let go again. */
void must_have(struct domain *d, const char *id, enum lifetime lifetime);
/* A file in the computer's folder, as its commands leave them. */
void put_file(const struct domain *d, const char *id);
bool has_file(const struct domain *d, const char *id);
/* A wait without a deadline that matters. */
struct wait long_wait(void);
/* Whether a computer is listed, and how. */
bool find_view(struct computer_session *s, const char *id, struct computer_view *ret);
bool folder_exists(const struct domain *d, const char *id);

/* computers_use on a thread of its own. */
struct caller {
    struct computer_session *session;
    const char *id;
    enum lifetime lifetime;
    struct wait wait;
    struct computer_use use;
    struct error err;
    int r;
    pthread_t thread;
};
void caller_start(struct caller *c, struct computer_session *s, const char *id, struct cancel *cancel);
void caller_start_for(struct caller *c, struct computer_session *s, const char *id, enum lifetime lifetime);
void caller_join(struct caller *c);
/* Returns when somebody waits for a change of local's computer. */
void await_waiter(const struct domain *d, const char *id);
