/* The domain: named computers, who may use them, and how long they live. Backend-neutral.
 *
 * A computer belongs to a principal; ids are unique per principal. A temporary one belongs to a session
 * (several may be attached; it ends with the last), or is held by a lease that its use renews, or both; a
 * permanent one lasts until it is deleted. Making one is a state (creating) that others wait for; no lock is
 * held across anything that can block. Threads: workers, unless a line says otherwise. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backends/backend.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/slug.h"

struct computers;        /* all of this server's */
struct computer_session; /* one MCP session as the owner of temporary computers */
struct computer;

struct computers_options {
    const char *state_dir;   /* absolute; made on first use, not before */
    struct backend *backend; /* borrowed; outlives */
    const char *network;     /* for records: what the computers have, e.g. "none" */
    int max_per_principal;   /* 0: no limit but LIMIT_COMPUTERS */
    double ttl_s, idle_s;    /* terms where none are given; 0: none */
    int pool;                /* computers to have ready for who asks next; 0: none */
};
/* Touches no disk. */
struct computers *computers_new(const struct computers_options *options);
/* All sessions ended. Ends what is left: permanent computers are detached. Returns NULL. */
struct computers *computers_free(struct computers *c);
/* Looks after what servers of this state directory that are provably dead have left, under the directory's
 * reaper lock (held elsewhere: somebody else does it): removes temporary and unfinished computers, and ends
 * what still runs of permanent ones unless the backend lets it go on. Returns how many it removed; what can't
 * be removed keeps its record, for the next run. */
int computers_reap(struct computers *c);

/* Makes ahead what the next computers need, if the last ones have used it up: to be called when nobody waits,
 * after a reply. Returns at once if there is nothing to do. The end of the last session removes it. */
void computers_prepare(struct computers *c);
/* Is there anything to do? Later: the next computer has all that it needs, so this may wait a moment, for
 * calls that are close behind. */
enum preparing { PREPARE_NONE, PREPARE_LATER, PREPARE_NOW };
enum preparing computers_want_preparation(struct computers *c);

struct computer_session *computer_session_new(struct computers *c, const char *principal);
/* For a principal's calls that belong to no session; one per principal. There is no default computer: without
 * an id each call makes a new one. A computer that it uses is held for lease_s seconds after the last use has
 * ended; then computers_expire() takes it out, and ends it if it is temporary and no session has it. */
struct computer_session *computer_session_new_leased(struct computers *c, const char *principal,
                                                     double lease_s);
/* Returns when to come again at the latest; DEADLINE_NONE: when something was used again. */
int64_t computers_expire(struct computers *c);
/* Any thread: kills what is the session's alone, at once and without waiting; computers in use end under
 * their calls. */
void computer_session_kill(struct computer_session *s);
/* Ends its temporary computers, in parallel, and frees it. Waits until `deadline`; -1 names what was left to
 * the reaper. */
int computer_session_end(struct computer_session *s, int64_t deadline, struct error *err);

enum lifetime { LIFETIME_AS_IS, LIFETIME_TEMPORARY, LIFETIME_PERMANENT };

/* A reference to a computer in use: it is not removed under it, though it may die. */
struct computer_use {
    struct computer *computer;
    struct computer_session *session; /* for whom */
    bool created;                     /* by this very call */
};
/* Which one is wanted. */
struct computer_wish {
    const char *id; /* NULL: the session's default one, made on first use under a random slug; or a new one */
    enum lifetime lifetime;
    bool fresh; /* id NULL: a new one, whether or not the session has a default one */
    const struct computer_options *options; /* of a new one; NULL: nothing of its own */
    const struct computer_terms *terms;     /* likewise; NULL: the server's */
    const struct progress *progress;        /* of making it; NULL: nobody listens */
};
/* Finds, attaches or makes the computer. lifetime AS_IS: as it is; a new one is temporary. Given and
 * different: ERR_EXISTS with both named. An id whose computer ended by itself: ERR_GONE with the reason,
 * once; then it is free. Taken by a server that lives: ERR_BUSY. */
int computers_use(struct computer_session *s, const struct computer_wish *wish, const struct wait *wait,
                  struct computer_use *ret, struct error *err);
/* How long making one may take here, beside a command's own timeout. */
int computers_create_seconds(const struct computer_session *s);
void computers_release(struct computer_use *use); /* an empty one is fine */
/* If this very use has made the computer, a temporary one, and nobody else knows it yet, it ends with the
 * release: as if it had never been. */
void computers_unmake(struct computer_use *use);
/* The backend's exec, plus: the end of the computer by anybody's wish fires the request's token, and ERR_GONE
 * (the computer ended by itself) frees its id for this session; every other session that knows it is told
 * once too, within a day. */
int computer_exec(const struct computer_use *use, const struct exec_request *request, struct exec_result *ret,
                  struct error *err);

/* -- The life of named computers. ERR_NOT_FOUND: the principal has none of this id. Any session of the
 * principal may do all of it, to its temporary computers, too. What another living server of this state
 * directory runs is listed, and ERR_BUSY for the rest. */

/* How long a computer may last, beside what its being temporary says. */
enum on_idle { ON_IDLE_STOP, ON_IDLE_DELETE };
struct computer_terms {
    double ttl_s;  /* after it was made it is removed; 0: never */
    double idle_s; /* after it was last used (running processes are use, a paused one isn't idle) on_idle
                      happens; 0: never */
    enum on_idle on_idle;    /* a temporary one is deleted in any case */
    const char *description; /* the user's words; NULL: none */
};

enum computer_condition {
    CONDITION_CREATING,
    CONDITION_RUNNING,
    CONDITION_STOPPED, /* its files are there, and the next call starts it */
    CONDITION_MISSING, /* there is a record, and nothing else */
    CONDITION_FAILED,  /* it can't be started; the reason is told */
    CONDITION_DELETING,
};
const char *computer_condition_name(enum computer_condition c); /* "running" */

/* A command that runs, or the last one that did. */
struct computer_command {
    uint64_t number; /* of this server; 0: none */
    char text[256];  /* its beginning, valid UTF-8 */
    int64_t began;   /* clock_wall() */
    int64_t duration_ns;
    int exit_code; /* of one that has ended */
};
#define COMMANDS_LISTED 16

/* What is known of one computer. Strings are the view's. */
struct computer_view {
    char id[64], backend[32], reason[256];
    enum computer_condition condition;
    bool temporary;
    bool elsewhere; /* another server runs it */
    bool paused;    /* it runs, and somebody holds up its processes; the reason says how to let them go on */
    char created_at[32], last_used[32];
    int sessions; /* that use it */
    struct computer_command running[COMMANDS_LISTED], last;
    size_t running_count; /* all of them */
    double expires_in_s;  /* until it is removed or stopped, if nobody uses it; < 0: it isn't */
    bool expiry_deletes;
    char description[512];
    struct instance_stat stat; /* of one that runs here */
    bool has_stat, has_usage;
};
struct computer_list_wish {
    int condition;      /* enum computer_condition; -1: all */
    const char *prefix; /* of the id; NULL: all */
    const char *after;  /* ids above this one; NULL: from the first */
    int most;           /* 0: no limit */
    bool usage;         /* with CPU and memory now */
};
/* Of one in use, without its usage. Asks nobody. */
void computer_look(const struct computer_use *use, struct computer_view *ret);
/* Calls fn for each, in the order of ids; *ret_total: how many match. Asks the backend what there is. */
int computers_list(struct computer_session *s, const struct computer_list_wish *wish, const struct wait *wait,
                   void (*fn)(void *ctx, const struct computer_view *v), void *ctx, size_t *ret_total,
                   struct error *err);
/* Ends its processes, keeps its files. Calls that run on it end with ERR_GONE's words for that.
 * ERR_UNSUPPORTED where files would be lost. */
int computer_restart(struct computer_session *s, const char *id, const struct wait *wait,
                     struct computer_view *ret, struct error *err);
/* A new one under the same id, from the recorded image and options, made before the old one is given up. */
int computer_reset(struct computer_session *s, const char *id, const struct wait *wait,
                   struct computer_view *ret, struct error *err);
/* Calls that run on it end with ERR_DELETED. *ret_deleted false: there was none. */
int computer_delete(struct computer_session *s, const char *id, const struct wait *wait, bool *ret_deleted,
                    struct error *err);
/* Ends one running command, by its number. *ret_cancelled false: it doesn't run (any more). */
int computer_cancel_command(struct computer_session *s, const char *id, uint64_t number, bool *ret_cancelled,
                            struct error *err);

/* Is it held by a lease, which this use has renewed? */
bool computer_is_leased(const struct computer_use *use);
/* Seconds until it is removed or stopped, if it isn't used after this: by its lease or its terms, whichever
 * is over first. < 0: it isn't. */
double computer_expires_in(const struct computer_use *use);

struct computers_counts {
    int creating, running, ending; /* of all principals */
    int ahead;                     /* made, and nobody's yet */
};
struct computers_counts computers_count(struct computers *c); /* any thread */

const char *computer_id(const struct computer *c);
bool computer_is_temporary(const struct computer *c);
