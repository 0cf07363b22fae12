/* One command by one process of our program, which ends with it (SERVE_ONCE): for computers in which a stream
 * costs something while it is open, or where there are none. What goes in is made at once; what comes out is
 * fed as it comes. */
#pragma once

#include "backends/engine/frames.h"
#include "backends/serve.h"
#include "backends/shells.h"

#define ONCE_LEASE_SLACK_S 60 /* that our program there waits for us beyond the command's own time */
#define ONCE_INPUT_MAX (SERVE_RUN_MAX + KIB)

struct once {
    int64_t began;         /* clock_now() scale */
    struct shells *shells; /* told of what the computer has */
    struct frames frames;
    struct serve_answer answer;
    bool greeted; /* our program has begun */
    bool strange; /* what came before that was none of its words */
};

void once_init(struct once *o, struct shells *shells, size_t output_limit);
void once_done(struct once *o);
/* Appends all that our program has to be told. ERR_INVALID, ERR_LIMIT. */
int once_append(struct buf *out, const char *spool_dir, const struct exec_request *request, const char *shell,
                struct error *err);
/* The same as a text for the environment that our program is started with (SERVE_EARLY), so that nothing has
 * to be sent to it. Malloced; NULL: it is longer than so many letters. */
char *once_early(const struct buf *frames, size_t letters_max);
/* And what ends it before its time: its END follows. */
extern const struct serve_frame once_kill;
/* It wasn't our program that was started there: somebody has removed it, or put another in its place, and
 * nothing of the command has begun. over: what was started has ended. */
bool once_lacks_program(const struct once *o, bool over);
/* It can't be put back, for that reason. */
int once_not_put_back(const char *why, struct error *err);
/* How one kind of computer does it; `call` is its own. */
struct once_way {
    int (*run)(void *call, const char *shell, struct error *err); /* until its END has come */
    char *(*stop)(
        void *call); /* its time is up, or nobody wants it; NULL: nothing of it is left, else a note */
    int (*broken)(void *call, const struct error *why, struct error *err); /* anything else: what it means */
};
/* Runs it, from once_init() on. As shells_run_fn. */
int once_run(struct once *o, const struct once_way *way, void *call, const char *shell,
             struct exec_result *ret, struct guest_exit *ret_exit, struct error *err);
/* For stop, where nothing answers in the `where`. Malloced. */
char *once_unknown(const char *where);
/* For broken, of a computer that is as it was. */
int once_unclear(const struct error *why, struct error *err);

/* Some of what it says. What comes after its END is nobody's. -1: it makes no sense, or comes from another
 * version (ERR_UNAVAILABLE). */
int once_feed(struct once *o, const void *bytes, size_t n, struct error *err);
