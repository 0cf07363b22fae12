/* The domain: named computers, who may use them, and how long they live. Backend-neutral.
 *
 * A computer belongs to a principal; ids are unique per principal. A temporary one belongs to a session
 * (several may be attached; it ends with the last); a permanent one lasts until it is deleted. Making one is
 * a state (creating) that others wait for; no lock is held across anything that can block. Threads: workers,
 * unless a line says otherwise. */
#pragma once

#include <stdbool.h>

#include "backends/backend.h"
#include "base/cancel.h"
#include "base/error.h"

struct computers;        /* all of this server's */
struct computer_session; /* one MCP session as the owner of temporary computers */
struct computer;

struct computers_options {
    const char *state_dir;   /* absolute; made on first use, not before */
    struct backend *backend; /* borrowed; outlives */
    const char *network;     /* for records: what the computers have, e.g. "none" */
    int max_per_principal;   /* 0: no limit but LIMIT_COMPUTERS */
    int pool;                /* computers to have ready for who asks next; 0: none */
};
/* Touches no disk. */
struct computers *computers_new(const struct computers_options *options);
/* All sessions ended. Ends what is left: permanent computers are detached. Returns NULL. */
struct computers *computers_free(struct computers *c);
/* Looks after what servers of this state directory that are provably dead have left, under the directory's
 * reaper lock (held elsewhere: somebody else does it): removes temporary and unfinished computers, and ends
 * what still runs of permanent ones. Returns how many it removed; what can't be removed keeps its record, for
 * the next run. */
int computers_reap(struct computers *c);

/* Makes ahead what the next computer needs, if the last one has used it up: to be called when nobody waits,
 * after a reply. Returns at once if there is nothing to do. The end of the last session removes it. */
void computers_prepare(struct computers *c);

struct computer_session *computer_session_new(struct computers *c, const char *principal);
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
    const char *id; /* NULL: the session's default one, made on first use under a random slug */
    enum lifetime lifetime;
    const struct progress *progress; /* of making it; NULL: nobody listens */
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

const char *computer_id(const struct computer *c);
bool computer_is_temporary(const struct computer *c);

/* 1-63 of a-z 0-9 '-', alphanumeric at both ends. ERR_INVALID states the rule. */
int slug_check(const char *id, struct error *err);
