/* The contract between the domain (computers/) and what makes computers. A backend is a table of functions;
 * tests/contract holds every backend to it.
 *
 * Threads: everything here is called on workers and may block, within the given `struct wait`, unless a line
 * says otherwise. Several execs run at once on one instance. remove and detach are called when no exec runs
 * any more (the domain cancels them and waits). What makes, brings back or ends a computer is called by the
 * owner of its folder only, so never twice at once for one.
 *
 * A backend that lacks something says so by capability, and what can't be done is refused before anything is
 * made: ERR_UNSUPPORTED, never something weaker in silence. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/limits.h"

struct backend;
struct instance; /* one computer, as its backend knows it */

enum backend_capability {
    BACKEND_PERSISTENT = 1 << 0,  /* permanent computers keep their files */
    BACKEND_NETWORK = 1 << 1,     /* can give a network */
    BACKEND_NETWORK_OFF = 1 << 2, /* can withhold it */
    /* Known after probe: memory, pids and cpu limits are enforced, and the disk's if there is one; there is
     * one of the disk, and it is enforced. */
    BACKEND_LIMITS = 1 << 3,
    BACKEND_DISK_LIMIT = 1 << 5,
    /* Our own program starts the commands. Without it a signal is only an exit code, background processes and
     * a file with the full output are not told, and longer texts than LIMIT_COMMAND_INLINE_BYTES are
     * ERR_UNSUPPORTED. Single computers may lack it all the same: their record says so. */
    BACKEND_GUEST = 1 << 4,
    /* What runs in permanent computers goes on when the server ends, however it does, and attach finds it. */
    BACKEND_OUTLIVES = 1 << 6,
    /* There is one program, the backend's own: argv is what comes after its name, perhaps nothing. */
    BACKEND_OWN_PROGRAM = 1 << 7,
    /* list knows of computers that run only: others are in their folders alone. */
    BACKEND_LISTS_RUNNING = 1 << 8,
    /* create takes the id, so that nobody else can (ERR_EXISTS). Without it, where find is, two servers may
     * make one id at once, and look afterwards whose it is. */
    BACKEND_TAKES_ID = 1 << 9,
};

/* Tells whoever waits for something long how far it is. Any thread. */
struct progress {
    void (*tell)(void *ctx, const char *text, uint64_t done, uint64_t total); /* total 0: unknown */
    void *ctx;
};

/* Which server process made a computer, as labels at a provider say it. The domain's words (owner.h); ""
 * everywhere: another program made it. */
struct computer_owner {
    char machine[40], boot[40], pid[16], start[24];
    char state[40]; /* of its state directory */
};

/* What one computer may have of its own, where the backend can do it; what isn't given is as the server has
 * it for all. */
enum computer_option {
    COMPUTER_IMAGE = 1 << 0,
    COMPUTER_CPUS = 1 << 1,
    COMPUTER_MEMORY = 1 << 2,
    COMPUTER_PIDS = 1 << 3,
    COMPUTER_DISK = 1 << 4,
    COMPUTER_NETWORK = 1 << 5,
    COMPUTER_ENV = 1 << 6,
};
struct computer_options {
    unsigned given; /* of enum computer_option */
    const char *image;
    double cpus;
    int64_t memory_bytes, pids, disk_bytes;
    bool network;
    char *const *env; /* NAME=VALUE, for each of its commands */
};

/* What a new computer is to be. Strings are borrowed for the call. */
struct computer_spec {
    const char *id;        /* slug; "": see give_id */
    const char *principal; /* slug */
    const char *key;       /* 16 hex digits, unique for this creation: names of groups, containers, volumes */
    const char *folder;    /* absolute, exists, 0711, ours: the record lives in it; a backend may add to it */
    bool temporary;
    bool replacing;                         /* it is made beside one that has its id: see take_over */
    const struct computer_options *options; /* NULL: nothing of its own. Only what ops->options has */
    bool prepared;                          /* prepare was called with this key */
    const struct computer_owner *owner;     /* NULL: nobody that is known */
    const struct progress *progress;        /* NULL: nobody listens */
};

/* A computer that exists where computers are made, whether or not there is a record of it here. Owned by the
 * caller. */
struct backend_found {
    char *id, *principal;
    struct computer_owner owner;
    bool temporary;
    char key[17]; /* of its spec; "" if another program made it */
    json_t *data; /* for attach and reap */
    /* From list only, as far as it knows without asking for each; "": unknown. */
    bool running;
    char paused[120]; /* a running one whose processes somebody holds up: how to let them go on; "": they run
                       */
    bool aside;       /* it replaces the one that has its id's name, or was replaced by that: see take_over */
    char created_at[32], provider_id[80], image[256];
};
void backend_found_done(struct backend_found *f);
/* It has the spec's principal and id. */
bool backend_found_is(const struct backend_found *f, const struct computer_spec *spec);
typedef void backend_found_fn(void *ctx, struct backend_found *f); /* may keep it by taking its members */

/* One command. Exactly one of argv and command is set. Strings are borrowed for the call. */
struct exec_request {
    char *const *argv;   /* argv[0] is searched in PATH when it has no slash; see BACKEND_OWN_PROGRAM */
    const char *command; /* text for the computer's shell */
    size_t command_len;
    const char *cwd;         /* absolute; NULL: the backend's default */
    char *const *env;        /* NAME=VALUE on top of the backend's own; NULL: none */
    const void *stdin_bytes; /* NULL: /dev/null */
    size_t stdin_len;
    size_t output_limit; /* kept bytes of stdout + stderr */
    struct wait wait;    /* deadline of the command, and its cancel token */
};

/* One stream's output: everything, or its head and its tail. */
struct exec_stream {
    struct buf head; /* all of it if omitted == 0 */
    struct buf tail;
    uint64_t total;   /* bytes written by the command */
    uint64_t omitted; /* between head and tail */
    char *path;       /* in the computer: the full output, up to LIMIT_SPOOL_BYTES, if it was cut; or NULL */
    uint64_t path_bytes; /* how much of it is there: less than total if a limit or a full disk was met */
};

/* What a command and those that it has waited for have used. 0: it isn't known. */
struct exec_usage {
    uint64_t cpu_us;     /* user and system time */
    uint64_t peak_bytes; /* resident memory of the largest process */
};

/* A command that ran, whatever came of it: also one that timed out (exit_code 124), or whose program isn't
 * there (127) or can't be executed (126, with the reason in `note`). */
struct exec_result {
    int exit_code; /* 128 + signal if a signal ended it */
    int signal;    /* 0: none */
    bool timed_out;
    bool oom_killed; /* the memory limit ended a process of the computer while this ran */
    bool disk_full;  /* its disk is full, or was meanwhile; the note says more */
    int64_t duration_ns;
    struct exec_usage usage;
    struct exec_stream out, err;
    int background[LIMIT_BACKGROUND_PIDS]; /* pids, as the computer sees them, of what it left running */
    size_t background_count;               /* listed */
    bool background_more;                  /* there are others, not listed */
    char *note;                            /* what the caller should know, e.g. why it is 127; or NULL */
};
void exec_result_done(struct exec_result *r);
/* Behind what its note says already. */
void exec_result_add_note(struct exec_result *r, const char *words);

/* Words for the exec tool's description, and what holds for every computer of this backend. Valid as long as
 * the backend. */
struct backend_description {
    const char *environment; /* "an isolated Debian GNU/Linux 12 (bookworm) computer ..." */
    const char *place;       /* as whom and where commands run; NULL: "as root and from /" */
    const char *shell;       /* path in use */
    const char *usage;       /* lines that begin with "- ", on how to work in it; NULL: as in any Linux */
    const char *network;     /* "no network: loopback only" */
    /* "512 MiB of memory, 512 processes, 1 CPU", with what isn't enforced named as such */
    const char *limits;
    bool limited_there; /* a provider holds them, in its own way: without BACKEND_LIMITS all the same */
    const char *weaker; /* than this backend is where it may do all, known after probe; or NULL: nothing */
};

/* A computer as it is now. What isn't known is 0, of disk_bytes -1. */
struct instance_stat {
    char provider_id[80]; /* as the engine or provider calls it; "": there is no such name */
    char image[256];      /* that its files come from; "": none */
    uint64_t cpu_ns;      /* used since it was started */
    int64_t memory_bytes, disk_bytes;
    int pids;
    double cpus_limit; /* what holds for it; 0: no limit */
    int64_t memory_limit, pids_limit, disk_limit;
    bool network;
    unsigned enforced; /* of enum computer_option: limits that the kernel or engine holds */
};

struct backend_ops {
    const char *name;
    unsigned late_options; /* of enum computer_option: see begin */
    int create_seconds;    /* that making one may take; 0: CREATE_SECONDS */
    /* remove and detach mostly wait for somebody elsewhere: so many are best begun at once, each on a thread
     * of its own. 0: they are this machine's own work */
    int ends_at_once;
    /* Finds out what works, by doing; once (later calls answer from memory). ERR_UNAVAILABLE or ERR_DENIED
     * says what to do. */
    int (*probe)(struct backend *b, const struct wait *wait, struct error *err);
    /* After a probe that worked: makes what takes long and a first create needs. NULL: there is nothing.
     * Errors are kept for the create that needs it. */
    void (*warm)(struct backend *b, const struct wait *wait);
    /* Any thread, never blocks. */
    unsigned (*capabilities)(const struct backend *b);
    void (*describe)(const struct backend *b, struct backend_description *ret);

    /* Makes ahead of time, in the folder and by the key of a spec without an id, what create would make, as
     * far as it isn't the computer's own. ret: a computer that isn't complete, and gets so by begin and
     * give_id; until then there is no exec. If it stays NULL, create is told (`prepared`), with the same key;
     * the folder may have moved. NULL: there is nothing. What it has made, remove or reap removes; also after
     * a failure. */
    int (*prepare)(struct backend *b, const struct computer_spec *spec, struct instance **ret,
                   struct error *err);
    /* Computers that outlive the state directory's memory of them. Both NULL: there are none. fn is called
     * for each under the spec's principal and id, or for each. */
    int (*find)(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                backend_found_fn *fn, void *ctx, struct error *err);
    int (*list)(struct backend *b, const struct wait *wait, backend_found_fn *fn, void *ctx,
                struct error *err);
    /* Makes a computer that is ready for commands, after a probe that worked. On failure nothing of it is
     * left: ERR_UNAVAILABLE, ERR_LIMIT, ERR_TIMEOUT and the token's codes; ERR_EXISTS: somebody has just made
     * one under this id, which find finds. */
    int (*create)(struct backend *b, const struct computer_spec *spec, const struct wait *wait,
                  struct instance **ret, struct error *err);
    /* Which of enum computer_option a computer may have of its own. Any thread, never blocks. NULL: none. */
    unsigned (*options)(const struct backend *b);
    /* Ends all that runs in it and starts it again, files kept; the instance stays. While no exec runs. NULL:
     * it can't be done so that the files are kept. After a failure it is as `alive` and `lost` say. */
    int (*restart)(struct instance *i, const struct wait *wait, struct error *err);
    /* Says that a computer's folder is now at another place, since another has taken its own. Before it is
     * removed. NULL: it keeps nothing there. */
    int (*make_way)(struct instance *i, const char *folder, struct error *err);
    /* Gives a computer whose spec was `replacing` the name that goes with its id, whoever has that yet.
     * `move` as for give_id. NULL: computers can't be replaced. */
    int (*take_over)(struct instance *i, const struct computer_spec *spec,
                     int (*move)(void *ctx, struct error *err), void *ctx, struct error *err);
    /* May take a second where an engine has to be asked; usage false: what holds for it is enough, at once.
     */
    int (*stat)(struct instance *i, bool usage, const struct wait *wait, struct instance_stat *ret,
                struct error *err);
    /* Whether somebody else holds up all of its processes at the moment. NULL: nobody can. */
    bool (*paused)(struct instance *i, const struct wait *wait);
    /* Somebody wants a computer that prepare or create made for a spec without an id: it gets what it is to
     * have of its own (NULL: nothing), only of late_options, and begins with what takes it time, beside the
     * caller. From then on record tells of that. give_id comes next, and never without it; nobody has used
     * it. ERR_UNSUPPORTED: it is too late for that; after any failure the computer is to be removed. NULL:
     * there is nothing to begin, and no late_options. */
    int (*begin)(struct instance *i, const struct computer_options *options, struct error *err);
    /* Gives a computer that create made for a spec without an id ("") the id of this one: it is then as if it
     * had been made for it. While no exec runs. `move` brings its folder to spec->folder, or fails and leaves
     * it where it is; it is called once at most. NULL: computers of this backend need their id from birth.
     * On failure the computer is to be removed. */
    int (*give_id)(struct instance *i, const struct computer_spec *spec,
                   int (*move)(void *ctx, struct error *err), void *ctx, struct error *err);
    /* Brings back a permanent computer from what `record` gave last. It works whatever the server before has
     * left, also if that was ended by SIGKILL. With BACKEND_OUTLIVES what still runs of the computer goes on,
     * else it is ended first, so settle need not come before. ERR_BUSY: it runs where this server can't reach
     * it. ERR_GONE: its files are lost; after any other error they are as they were. */
    int (*attach)(struct backend *b, const struct computer_spec *spec, const json_t *data,
                  const struct wait *wait, struct instance **ret, struct error *err);
    /* The backend's own part of the computer's record, before and after create. plan: where what create makes
     * will be found, all that reap needs; after probe, and when the folder isn't there yet (spec->folder is
     * NULL). record: that, and what attach needs. A new reference. Never block. */
    json_t *(*plan)(const struct backend *b, const struct computer_spec *spec);
    json_t *(*record)(const struct instance *i);
    /* 0 with ret set, for exec_result_done(), or -1: ERR_GONE (ended by itself; message says why),
     * ERR_CANCELLED and the token's other codes, ERR_CWD_NOT_FOUND, ERR_SHELL_NOT_FOUND, ERR_INVALID (what
     * no program can be given), ERR_LIMIT (no process or descriptor to be had), ERR_BUSY (too many at once),
     * ERR_UNAVAILABLE, ERR_INTERNAL. A timeout is a result, not an error. When it returns, nothing of the
     * command runs any more, except `background`. */
    int (*exec)(struct instance *i, const struct exec_request *request, struct exec_result *ret,
                struct error *err);
    /* False once it has ended, by itself or by kill. Never blocks. */
    bool (*alive)(const struct instance *i);
    /* After ERR_GONE of a permanent one: nothing is left that attach could bring back, so it is removed, not
     * detached. Never blocks. NULL: that doesn't happen. */
    bool (*lost)(const struct instance *i);
    /* The beginning of the end, never blocks: kills everything inside, so that many can end in parallel. Any
     * thread, also while execs run (they fail with ERR_GONE or their token's code); again is harmless. */
    void (*kill)(struct instance *i);
    /* Ends it and frees the instance, whatever happens. detach keeps the files of a permanent computer, and
     * with BACKEND_OUTLIVES, if there are any, its processes: 1, they go on. remove leaves nothing (the
     * folder itself and the record are the domain's). -1 tells what was left behind, for settle or reap to
     * end. */
    int (*detach)(struct instance *i, struct error *err);
    int (*remove)(struct instance *i, struct error *err);
    /* Removes what a computer whose server is dead has left: processes, groups, files. data: what plan or
     * record gave, or NULL: spec->key then names everything. Absent things are success. */
    int (*reap)(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
    /* Ends what of a permanent computer a dead server has left running; its files stay, for attach. data as
     * for reap. */
    int (*settle)(struct backend *b, const struct computer_spec *spec, const json_t *data, struct error *err);
    /* Is it one whose processes go on, and are to be left to whoever attaches next? Never blocks. NULL: there
     * are none. */
    bool (*lives)(struct backend *b, const struct computer_spec *spec, const json_t *data);
    /* All instances are gone. Returns NULL. */
    struct backend *(*free)(struct backend *b);
};

/* True if a file could not be made or written since the disk is full that the computers' folders are on: the
 * error is ERR_LIMIT then, and says what to do. */
bool backend_tell_full(struct error *err);

/* Embedded first in each backend's and each instance's own struct. */
struct backend {
    const struct backend_ops *ops;
};
struct instance {
    const struct backend_ops *ops;
};
