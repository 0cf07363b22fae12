/* What the tests of links share: commands on threads of their own, and gates at which test and guest wait for
 * each other. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "backends/engine/link.h"
#include "tests/unit/backends/link_peer.h"

#define LIMIT 100 /* of output, unless a case is about it */
#define BIG (1 * MIB)

/* A command on a thread of its own. */
struct running {
    struct link *link;
    struct exec_request request;
    struct exec_result result;
    struct guest_exit exit;
    struct error err;
    int r;
    atomic_bool ended;
    pthread_t thread;
};

struct exec_request request_of(const char *command);
void execute(struct running *c);
void start(struct running *c, struct link *l, const struct exec_request *request);
void join(struct running *c);
struct running command(struct link *l, const char *text);
void must_succeed(struct running *c);
void must_fail(struct running *c, enum error_code code);
void finish(struct link *l, struct link_peer *p);
void drain(struct link_peer *p);
void open_gates(void);
void close_gates(void);
void go(void);
void await_go(void);
void let_guest_go(void);
void await_guest(void);
