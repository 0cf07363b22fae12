/* Inside of computers/: what its files share. One mutex guards every member that isn't constant; it is held
 * for pointers and numbers only, never across a backend call, disk access or a wait. Functions that need it
 * held end in _locked. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/map.h"
#include "computers/computers.h"
#include "computers/owner.h"
#include "computers/store.h"

#define COMPUTER_NAME_SIZE (2 * SLUG_SIZE) /* "principal/id" */

/* One life of one computer.
 *
 *   CREATING --made or attached--> RUNNING --ended by itself, by a session's end, by the server's--> ENDING
 *       \------- failed, or its session ended meanwhile ------------------------------------------->/
 *   ENDING --last use released, cleaned up--> ENDED
 *
 * While it is CREATING or ENDING, others that want its id wait for the next state. An ENDED one is out of the
 * registry; sessions that still list it learn of its end that way. */
enum computer_state {
    COMPUTER_CREATING,
    COMPUTER_RUNNING,
    COMPUTER_ENDING,
    COMPUTER_ENDED,
    COMPUTER_STATE_COUNT
};

struct computer {
    /* constant from birth */
    struct computers *computers;
    char id[SLUG_SIZE];
    char principal[SLUG_SIZE];

    /* the creator's until RUNNING, then constant; the cleaner's when ENDING without uses */
    bool temporary;
    struct record record;
    struct folder folder;
    struct instance *instance;

    /* under the lock */
    enum computer_state state;
    int refs;              /* keep the struct: the registry, sessions, uses, waiters */
    int uses;              /* keep the instance: creator, calls */
    int sessions;          /* that list it */
    bool cleaning;         /* somebody is about to make it ENDED */
    bool gone;             /* ended by itself: to be told */
    int64_t ended_at;      /* clock_now(), when gone */
    struct error end;      /* why it is ENDING or ENDED */
    struct error left;     /* what could not be cleaned up; code ERR_NONE: nothing */
    struct cancel *change; /* fired at the next change of state; NULL while nobody waits */
    struct list calls;     /* of struct running_call */
};

/* A blocking call on a computer that its end has to interrupt. */
struct running_call {
    struct list node;
    struct cancel *cancel; /* a reference */
};

/* Made ahead: a computer without an id, which nobody has used; or, where computers need their id from birth
 * or no pool is wanted, just a folder for one. */
struct spare {
    struct folder folder; /* under a name that nobody knows */
    struct record record; /* with an instance only: what a reaper needs */
    struct instance *instance;
};
#define SPARES_MAX 16

struct computers {
    /* constant */
    char *state_dir;
    char *dir; /* STATE/computers */
    char network[32];
    struct backend *backend;
    int max_per_principal;
    int pool; /* how many computers to have ahead */

    pthread_mutex_t lock;
    struct map *by_name; /* "principal/id" -> struct computer, until it is ENDED */
    int sessions;
    int sessions_open; /* of them: not closing */
    bool self_known;
    struct owner self;
    struct cancel *reaping; /* while our reaper runs: fired when it is over; its own */

    /* What was made ahead for the next computers of the principal that had the last one made; only while a
     * session is open. */
    char spares_for[SLUG_SIZE]; /* "": none was made yet */
    bool sparing;               /* somebody makes one */
    struct spare spares[SPARES_MAX];
    int spare_count;
};

struct computer_session {
    /* constant */
    struct computers *computers;
    char principal[SLUG_SIZE];

    /* under the lock */
    int refs; /* its owner, uses */
    bool closing;
    struct map *by_id;     /* id -> struct computer: what it has used and not been told the end of */
    struct computer *home; /* the default one; also in by_id */
};

/* computer.c: one computer's life */
bool computer_may_change(enum computer_state from, enum computer_state to);
/* What a computer is called in by_name. Returns ret. */
const char *computer_name(const char *principal, const char *id, char ret[COMPUTER_NAME_SIZE]);
struct computer *computer_new_locked(struct computers *c, const char *principal, const char *id);
void computer_unref_locked(struct computer *c);
void computer_set_state_locked(struct computer *c, enum computer_state state);
/* Names the call to the computer's end, until _end. wait's token is used, or one is made and put there. */
void running_call_begin_locked(struct running_call *call, struct computer *c, struct wait *wait);
void running_call_end_locked(struct running_call *call);
/* To ENDING, for the given reason, and interrupts its calls. False if it was there already. */
bool computer_end_locked(struct computer *c, const struct error *why);
/* True if the caller has to call computer_clean after unlocking: it is ENDING and the last use is gone. */
bool computer_claim_locked(struct computer *c);
void computer_clean(struct computer *c);
/* Waits for the next change of state, without the lock; the caller has a reference. */
int computer_wait_locked(struct computer *c, const struct wait *wait, struct error *err);

/* make.c: from nothing, or from what is on disk, to a running instance. Without the lock */
struct making {
    enum lifetime lifetime;
    bool new_only;                   /* not what exists under the id */
    const struct progress *progress; /* NULL: nobody listens */
};
/* 0; -1; or 1: new_only, and there is something under the id. */
int computer_make(struct computer *c, const struct making *how, const struct wait *wait, bool *ret_created,
                  struct error *err);
int lifetime_check(const char *id, bool is_temporary, enum lifetime wanted, struct error *err);
/* Who we are, once. */
int computers_self(struct computers *c, struct owner *ret, struct error *err);

/* Fills a record of a computer that is made now. */
void record_begin(const struct computers *c, const char *principal, const char *id, bool temporary,
                  const struct owner *self, struct record *ret);
/* As the backend is told of it. folder: its path, or NULL. */
struct computer_spec spec_of_record(const struct record *r, const char *folder);

/* Brings back what c->folder and c->record describe. */
int computer_attach(struct computer *c, const struct owner *self, const struct wait *wait, struct error *err);

/* spare.c: one that is there for this principal; all NULL if there is none. */
struct spare spares_take(struct computers *c, const char *principal);
/* Makes the computer of it, which it is then. 1: somebody took the id meanwhile; -1: the spare was no good.
 * It is used up in any case. */
int spare_use(struct computer *c, struct spare *spare, const struct owner *self);
/* Removes what was made ahead, unless a session is open that may need it. */
void spares_drop(struct computers *c);

/* What there is under an id. CHANGED: look again. */
enum found { FOUND_ATTACHED, FOUND_NOTHING, FOUND_CHANGED, FOUND_TAKEN, FOUND_ERROR };
/* adopt.c: what the backend knows under the id, when the state directory knows nothing. */
enum found computer_find_elsewhere(struct computer *c, const struct owner *self, const struct making *how,
                                   const struct wait *wait, struct error *err);
/* Removes temporary computers, of this machine's dead servers, that have no record here. How many. */
int computers_sweep_elsewhere(struct computers *c, const struct owner *self);
/* registry.c: whether this server has a computer of that name, in any state. */
bool computers_knows(struct computers *c, const char *principal, const char *id);

/* reaper.c: 1 if it was the rest of a dead server's computer and is gone now (the folder is closed), 0 if it
 * is none, -1 on failure. */
int reap_folder(struct computers *c, struct folder *folder, const struct record *record, struct error *err);
/* 0: our reaper doesn't run; 1: it did, and has ended now; -1: it didn't in time. */
int computers_await_reaper(struct computers *c, const struct wait *wait, struct error *err);

/* session.c */
/* computer_clean() of each, by several threads. */
void computers_clean_all(struct computer **computers, size_t count);
void session_forget_locked(struct computer_session *s, struct computer *c);
void session_unref_locked(struct computer_session *s);
