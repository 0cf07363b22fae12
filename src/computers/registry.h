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
 *   RUNNING <--somebody restarts or resets it--> CHANGING --> ENDING, as RUNNING
 *
 * A computer that doesn't run has no struct, except while somebody changes or removes it: then one stands for
 * it that is CHANGING from its birth, and has its folder and record, but no instance (manage.h).
 * While it is CREATING, CHANGING or ENDING, others that want its id wait for the next state. An ENDED one is
 * out of the registry; sessions that still list it learn of its end that way. */
enum computer_state {
    COMPUTER_CREATING,
    COMPUTER_RUNNING,
    COMPUTER_CHANGING,
    COMPUTER_ENDING,
    COMPUTER_ENDED,
    COMPUTER_STATE_COUNT
};

struct computer {
    /* constant from birth */
    struct computers *computers;
    char id[SLUG_SIZE];
    char principal[SLUG_SIZE];

    uint64_t number;      /* in the order of their births */
    int64_t born;         /* clock_wall() */
    bool stands_in;       /* for one that doesn't run */
    bool to_be_temporary; /* what a new one is to be; another that exists may be otherwise */

    /* the creator's until RUNNING, then constant; the cleaner's when ENDING without uses. Of one that stands
     * in: its holder's */
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
    bool gone;             /* ended by itself, or by somebody else: to be told */
    bool doomed;           /* its files end with it, whatever its lifetime */
    bool stopping;         /* its processes end with it, even if they could go on */
    int64_t state_since;   /* clock_now() */
    int64_t used_at;       /* clock_now(): the last use began or ended */
    bool was_paused;       /* when terms.c looked last */
    int64_t ended_at;      /* clock_now(), when gone */
    struct error end;      /* why it is ENDING or ENDED */
    struct error left;     /* what could not be cleaned up; code ERR_NONE: nothing */
    struct cancel *change; /* fired at the next change of state; NULL while nobody waits */
    struct list lease;     /* in its principal's leased session: leases, or expired */
    int64_t lease_end;
    bool expired;
    struct list calls;            /* of struct running_call */
    struct computer_command last; /* that has ended */
};

/* A blocking call on a computer that its end has to interrupt. */
struct running_call {
    struct list node;
    struct computer *computer;
    struct cancel *cancel;           /* a reference */
    struct computer_command command; /* number 0: it is none */
    struct error stopped;            /* why it alone was interrupted; code ERR_NONE: it wasn't */
};

/* Made ahead: a computer without an id, which nobody has used; or, where computers need their id from birth
 * or no pool is wanted, just a folder for one, with what the backend has prepared: its instance, too, if that
 * is one. */
struct spare {
    struct folder folder; /* under a name that nobody knows */
    struct record record; /* what a reaper needs; without a key: none, there is but the folder */
    struct instance *instance;
};
#define SPARES_MAX 16
#define SPARES_BEGUN 2 /* where none is made whole: who makes a computer often makes another at once */

/* The thread that looks after terms: see terms.c. */
struct caretaker {
    bool started, ended;
    pthread_t thread;
    struct cancel *wake, *stop; /* the former is its own to replace */
};

struct computers {
    /* constant */
    char *state_dir;
    char *dir; /* STATE/computers */
    char network[32];
    struct backend *backend;
    int max_per_principal;
    struct computer_terms terms; /* of computers without their own */
    int pool;                    /* how many computers to have ahead */

    pthread_mutex_t records_lock; /* of records.c alone */
    struct map *records;

    pthread_mutex_t lock;
    struct map *by_name; /* "principal/id" -> struct computer, until it is ENDED */
    int sessions;
    int sessions_open; /* of them: not closing */
    uint64_t births;   /* of struct computer */
    uint64_t commands; /* number of the last one */
    struct caretaker caretaker;
    int64_t stored_due; /* when one that doesn't run is to be looked at; DEADLINE_NONE: never */
    int64_t left_due;   /* when to try again to remove what could not be; DEADLINE_NONE: there is nothing */
    int left_tries;
    struct list leased; /* those with leases */
    bool self_known;
    struct owner self;
    struct cancel *reaping; /* while our reaper runs: fired when it is over; its own */

    /* What was made ahead for the next computers, whoever wants them; only while a session is open. */
    char spares_at[SLUG_SIZE]; /* the principal where they are made, who had the last one; "": nobody yet */
    bool sparing;              /* somebody makes one */
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

    /* only with leases */
    int64_t lease_ns;    /* constant; 0: without */
    struct list link;    /* in computers->leased */
    struct list leases;  /* of what is in by_id, by their end: equally long, so a renewed one is the last */
    struct list expired; /* ended with its lease, and not yet told; oldest first */
    int expired_count;
};

/* manage.c: a computer that nobody else uses, starts, changes or removes: the running one, or one that stands
 * in, with what there is of it in `record`, and its folder, if it has one. */
struct hold {
    struct computer *computer;
    struct computer_session *session;
    struct running_call call;
    struct wait wait; /* the caller's, which the computer's end interrupts, too */
    bool changed;     /* it is RUNNING again, and perhaps somebody else's by now */
};
/* Waits for others who make, change or end it. ERR_NOT_FOUND. */
int hold_take(struct computer_session *s, const char *id, const struct wait *wait, struct hold *ret,
              struct error *err);
/* As it was; or cleaned up, if it is ENDING by now. An empty one is fine. */
void hold_release(struct hold *h);
/* Waits for the end of one that was told to end. The caller has a reference. -1: it takes too long, or
 * something is left. */
int computer_await_end_locked(struct computer *c, const struct wait *wait, struct error *err);

/* list.c: of one that runs, while it does; ERR_UNSUPPORTED if it doesn't. */
int computer_stat(struct computer *c, bool usage, struct instance_stat *ret, struct error *err);
bool computer_is_paused(struct computer *c); /* as far as anybody can tell */
void computer_view_locked(struct computer *c, struct computer_view *ret);
/* The two for who makes or holds it, so that they can tell how it became before others change it: what the
 * backend tells of it (NULL: nothing), and with that its view. */
const struct instance_stat *computer_ask(struct instance *i, const struct wait *wait,
                                         struct instance_stat *ret);
void computer_look_locked(struct computer *c, const struct instance_stat *stat, struct computer_view *ret);

/* computer.c: one computer's life */
bool computer_may_change(enum computer_state from, enum computer_state to);
/* What a computer is called in by_name. Returns ret. */
const char *computer_name(const char *principal, const char *id, char ret[COMPUTER_NAME_SIZE]);
struct computer *computer_new_locked(struct computers *c, const char *principal, const char *id);
void computer_unref_locked(struct computer *c);
void computer_set_state_locked(struct computer *c, enum computer_state state);
/* Whoever waits for a change looks again. */
void computer_wake_locked(struct computer *c);
/* commands.c. Names the call to the computer's end, until _end. wait's token is used, or one is made and put
 * there. */
void running_call_begin_locked(struct running_call *call, struct computer *c, struct wait *wait);
void running_call_end_locked(struct running_call *call);
/* To ENDING, for the given reason, and interrupts its calls. False if it was there already. */
bool computer_end_locked(struct computer *c, const struct error *why);
/* True if the caller has to call computer_clean after unlocking: it is ENDING and the last use is gone. */
bool computer_claim_locked(struct computer *c);
void computer_clean(struct computer *c);
/* One use less. The last one of a computer that is ENDING cleans it up: the lock is given up meanwhile, and
 * it may be gone then. */
void computer_use_end_locked(struct computer *c);
/* Nothing of it is to be kept at its end, or can be. */
bool computer_ends_whole(const struct computer *c);
/* make.c: the end of one that nobody has used yet, and its folder's, whose record stays if anything does. */
void computer_unmake(struct computer *c);
/* The calls end with `why`, but not the computer: its own, which may be NULL, doesn't. */
void computer_interrupt_locked(struct computer *c, const struct running_call *own, const struct error *why);
/* Until no call but one's own runs. */
int computer_drain_locked(struct computer *c, const struct running_call *own, const struct wait *wait,
                          struct error *err);
/* Waits for the next change of state, or the end of a call while it is CHANGING or ENDING, without the lock;
 * the caller has a reference. */
int computer_wait_locked(struct computer *c, const struct wait *wait, struct error *err);

/* make.c: from nothing, or from what is on disk, to a running instance. Without the lock */
struct making {
    enum lifetime lifetime;
    bool new_only;      /* not what exists under the id */
    bool existing_only; /* else ERR_NOT_FOUND */
    const struct computer_options *options;
    const struct computer_terms *terms;
    const struct progress *progress; /* NULL: nobody listens */
};
/* 0; -1; or 1: new_only, and there is something under the id. */
int computer_make(struct computer *c, const struct making *how, const struct wait *wait, bool *ret_created,
                  struct error *err);
int lifetime_check(const char *id, bool is_temporary, enum lifetime wanted, struct error *err);
/* Who we are, once. */
int computers_self(struct computers *c, struct owner *ret, struct error *err);

/* Fills a record of a computer that is made now, without settings. */
void record_begin(const struct computers *c, const char *principal, const char *id, bool temporary,
                  const struct owner *self, struct record *ret);
/* Keeps what the record is to say of the instance that runs. is_new: no command has run in it. */
void record_look(struct record *r, struct instance *i, bool is_new);
/* What asks for an existing computer may contradict: its lifetime, its options, its terms. ERR_EXISTS. */
int making_check(const struct making *how, const char *id, const struct record *r, struct error *err);
int computer_not_found(const char *id, struct error *err);
/* Whether a principal is the user of this machine, who may know its paths and processes. */
bool principal_is_local(const char *principal);
/* What a principal is told of an error that may name them. */
const char *error_for(const char *principal, const struct error *why);
/* As the backend is told of it. folder: its path, or NULL. */
struct computer_spec spec_of_record(const struct record *r, const char *folder);

/* Brings back what c->folder and c->record describe. */
int computer_attach(struct computer *c, const struct owner *self, const struct wait *wait, struct error *err);

/* spare.c: one that is there, for this principal; all NULL if there is none. */
struct spare spares_take(struct computers *c, const char *principal);
/* Makes the computer of one that has a record: its folder, and its instance, if it is a whole one. 1:
 * somebody took the id meanwhile; -1: the spare was no good. It is used up in any case. */
int spare_use(struct computer *c, struct spare *spare, const struct making *how, const struct owner *self);
/* Whether a computer with these options may be made of what was made ahead. */
bool spares_may_have(const struct computers *c, const struct computer_options *options);
/* Removes what was made ahead, unless a session is open that may need it. */
void spares_drop(struct computers *c);

/* What there is under an id. CHANGED: look again. RECORD: what c->record says. */
enum found { FOUND_ATTACHED, FOUND_RECORD, FOUND_NOTHING, FOUND_CHANGED, FOUND_TAKEN, FOUND_ERROR };
/* make.c: RECORD: on disk, and c->folder is open, too. TAKEN: by another server, where that is no error. */
enum found computer_find_on_disk(struct computer *c, bool taken_is_fine, const struct wait *wait,
                                 struct error *err);
/* Whether this backend made it; ERR_UNAVAILABLE, and ERR_BUSY for what another machine runs. */
int record_check_ours(const struct computers *c, const struct record *r, struct error *err);
/* adopt.c: what the backend alone knows, for its removal: RECORD without a folder. */
enum found computer_find_at_backend(struct computer *c, const struct wait *wait, struct error *err);
/* What the backend knows under the id, when the state directory knows nothing. */
enum found computer_find_elsewhere(struct computer *c, const struct owner *self, const struct making *how,
                                   const struct wait *wait, struct error *err);
/* Of one that create has just made by the record's key: whether its id is ours, or somebody elsewhere was
 * faster (1), where the backend lets several make it at once. */
int computer_lost_id(const struct computer *c, const struct wait *wait, struct error *err);
/* Whether it belongs to a server that may be alive, of another state directory. */
bool computers_is_others(const struct computers *c, const struct owner *self, const struct backend_found *f);
/* Removes temporary computers, of this machine's dead servers, that have no record here. How many. */
int computers_sweep_elsewhere(struct computers *c, const struct owner *self);
/* registry.c: whether this server has a computer of that name, in any state. */
bool computers_knows(struct computers *c, const char *principal, const char *id);

/* reaper.c: 1 if it was the rest of a dead server's computer and is gone now (the folder is closed), 0 if it
 * is none, -1 on failure. */
int reap_folder(struct computers *c, struct folder *folder, const struct record *record, struct error *err);
/* 0: our reaper doesn't run; 1: it did, and has ended now; -1: it didn't in time. */
int computers_await_reaper(struct computers *c, const struct wait *wait, struct error *err);
/* Something could not be removed, and has its record. Without the lock. */
void reaper_note_left(struct computers *c);
/* What was noted, if it is time: some times, at growing intervals. Then it is for the next server. */
void reaper_try_left(struct computers *c);

/* lease.c: does nothing in a session without leases. */
void lease_renew_locked(struct computer_session *s, struct computer *c);
void lease_forget_locked(struct computer_session *s, struct computer *c);

/* records.c: what is on disk under the id, as of now, without the folder's lock. NULL with the error of
 * store_read(). To be given back. */
const struct record *records_get(struct computers *c, const char *principal, const char *id,
                                 struct error *err);
void records_put(struct computers *c, const struct record *r); /* NULL is fine */
/* Why the last start of a stopped one failed. False: it didn't. */
void records_note_failure(struct computers *c, const char *principal, const char *id, const char *why);
bool records_tell_failure(struct computers *c, const struct record *r, char *ret, size_t size);
void records_init(struct computers *c);
void records_done(struct computers *c);

/* terms.c */
struct term_state {
    bool temporary;
    bool runs, used;          /* has processes; right now by somebody */
    int64_t made_ns, used_ns; /* how long ago */
};
/* Seconds until the terms are over if nobody uses it; < 0: never. ret_deletes: what happens then. */
double terms_left(const struct computer_terms *t, const struct term_state *s, bool *ret_deletes);
/* One with this record runs no more, or now. */
void terms_note_stored_locked(struct computers *c, const struct record *r);
void terms_note_running_locked(struct computer *c);
void terms_wake_locked(struct computers *c);
/* Ends what is over; returns when to look again. The thread's; tests call it, too. */
int64_t terms_expire(struct computers *c);
void terms_stop(struct computers *c);

/* registry.c: as computers_use(), of what exists only: ERR_NOT_FOUND. */
int computers_use_existing(struct computer_session *s, const char *id, const struct wait *wait,
                           struct computer_use *ret, struct error *err);
/* The session uses it from now on. */
void session_list_locked(struct computer_session *s, struct computer *c, bool as_home);
/* quota.c: ERR_LIMIT: a new one would be one too many for its principal. Not with the lock. */
int quota_check(struct computer *c, struct error *err);

/* session.c */
/* computer_clean() of each, by several threads. */
void computers_clean_all(struct computer **computers, size_t count);
void session_forget_locked(struct computer_session *s, struct computer *c);
void session_unref_locked(struct computer_session *s);
/* Around a call that goes on without a use or a hold: the session may end meanwhile. */
void session_enter(struct computer_session *s);
void session_leave(struct computer_session *s);
