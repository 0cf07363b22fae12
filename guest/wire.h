/* What the server and the guest program say to each other, over SOCK_SEQPACKET unix sockets: one packet, one
 * message, descriptors beside it by SCM_RIGHTS. Both ends are of the same build, so this is not a public
 * protocol; GUEST_VERSION guards against a mix-up. Shared by guest/ and src/backends/native/ only.
 *
 * - control socket, server <-> zygote: setup once, then create and name; one reply each.
 * - channel, server <-> init, one per computer: the server makes the pair and passes the far end with create,
 *   so it may send before init is there: GUEST_BEGIN first, which init answers with GUEST_READY, then
 *   requests. A computer that was given GUEST_KEEP outlives its server: the next one connects to init's
 *   socket and has a new channel, with GUEST_ATTACH first.
 * - status pipe, init -> server, one per exec: exactly one struct guest_exit, then end of file. End of file
 *   without it: the computer is gone.
 *
 * Trust: the guest believes the server. The server believes nothing from a channel or a status pipe beyond
 * its bounds: init shares a kernel with hostile code. */
#pragma once

#include <limits.h>
#include <stdint.h>

/* To be raised with every change of what server and init say to each other: computers outlive servers. */
#define GUEST_VERSION 2

/* When the zygote starts it has this descriptor, /dev/null as 0, 1 and 2, argv {"sandbox-zygote"} and an
 * empty environment. */
#define GUEST_FD_CONTROL 3

#define GUEST_PACKET_MAX 16384 /* one packet; a longer exec body travels in a memfd */
#define GUEST_FDS_MAX 8
#define GUEST_TEXT_MAX 200
#define GUEST_PATH_MAX 512
#define GUEST_GROUP_MAX 32
#define GUEST_BODY_MAX (3U << 20) /* argv + environment + cwd of one exec */

enum guest_type {
    GUEST_SETUP = 1,  /* server -> zygote; reply GUEST_REPLY */
    GUEST_CREATE = 2, /* server -> zygote; reply GUEST_REPLY with the pidfd of init */
    GUEST_REPLY = 3,
    GUEST_READY = 4,   /* init -> server, once, or twice (GUEST_AHEAD): the computer is complete, or what
                          failed; then init exits */
    GUEST_EXEC = 5,    /* server -> init; answered on the status pipe */
    GUEST_KILL = 6,    /* server -> init: end all of an exec (only with GUEST_SCOPE_REAPER) */
    GUEST_OPEN = 7,    /* server -> init: make a new file; answered on the socket passed with it */
    GUEST_BEGIN = 8,   /* server -> init, first: all that it needs is there */
    GUEST_NAME = 9,    /* server -> zygote: a computer gets its name late; reply GUEST_REPLY */
    GUEST_OWN = 10,    /* server -> zygote: change owners; reply GUEST_REPLY, in whatever order */
    GUEST_KEEP = 11,   /* server -> init: from now on the computer outlives its server */
    GUEST_ATTACH = 12, /* server -> init, first on a channel of its own; reply GUEST_READY */
    GUEST_LEAVE = 13,  /* server -> init, last: GUEST_READY if processes are left, else init ends */
};

/* A step that failed, as a record, so that a failure deep inside arrives as a normal error. */
struct guest_error {
    char stage[48];            /* "mount overlay"; "" is success */
    int32_t sys;               /* errno */
    char text[GUEST_TEXT_MAX]; /* the kernel's or our own words, may be "" */
};

/* The zygote makes its own mount namespace and pivots into a minimal root that holds only the state folder
 * (at /state), the root folder for computers (at /base), the toolbox, a template of /dev, /proc, and places
 * to mount on. Descriptors: [0] pidfd of the server, then folders that the groups of computers are in: where
 * computers outlive the server, the zygote does too, and removes their groups. */
struct guest_setup {
    uint32_t type, version;
    uint32_t flags;                 /* GUEST_ROOT_* */
    char state_dir[GUEST_PATH_MAX]; /* absolute */
    char base_dir[GUEST_PATH_MAX];  /* lower of every computer: the toolbox skeleton, or --rootfs */
};
/* The host's /usr is bound read-only (and /bin, /sbin, /lib* if they are no links), /usr/local/etc hidden. */
#define GUEST_ROOT_TOOLBOX (1U << 0)
/* No overlay: FOLDER/root holds the whole writable root (the server filled it). */
#define GUEST_ROOT_PLAIN (1U << 1)
/* The zygote isn't root of the machine: it becomes root of a user namespace of its own, in which all
 * computers lie. Ids in later packets are those of that namespace. It sends a first GUEST_REPLY when it needs
 * its ids mapped, and goes on at GUEST_BEGIN. */
#define GUEST_USERS (1U << 2)
/* With GUEST_USERS: the one id that an ordinary user has is all there is. The zygote maps it itself and asks
 * nobody. In computers changing owners seems to work, and does nothing. */
#define GUEST_ONE_ID (1U << 3)
/* No namespaces at all: see weak.h. FOLDER/upper is what a computer may write to, and its first working
 * directory. Its init ends everything else in the computer when it ends by itself, so it is told to end by
 * GUEST_END_SIGNAL. */
#define GUEST_WEAK (1U << 4)
#define GUEST_END_SIGNAL 15 /* SIGTERM */
/* Said by the zygote of itself: see GUEST_REPLY_PROC_HIDDEN. */
#define GUEST_PROC_HIDDEN (1U << 5)

/* Descriptors: [0] init's end of the channel, then the cgroup2 folder that init is born in, if
 * GUEST_HAS_CGROUP2, then the lock of a computer that is to outlive the server, if GUEST_KEPT: open until the
 * computer and its groups are gone. `folder` need not be there before GUEST_BEGIN. */
struct guest_create {
    uint32_t type;
    uint32_t request; /* echoed in the reply */
    uint32_t flags;
    /* User and group ids that are 0 .. in the computer; see users_map(). GUEST_WEAK: the first is its user.
     */
    uint32_t id_base, id_count;
    uint32_t nofile;             /* RLIMIT_NOFILE */
    uint64_t shm_bytes;          /* size of /dev/shm */
    uint64_t file_bytes;         /* RLIMIT_FSIZE of its commands; 0: none */
    char hostname[65];           /* "": it gets one by GUEST_NAME, once */
    char group[GUEST_GROUP_MAX]; /* name of its groups */
    /* Beneath state_dir; holds upper and work (or root); 0700, owned by id_base. GUEST_BEGIN_DISK: unused. */
    char folder[GUEST_PATH_MAX];
};
#define GUEST_HAS_CGROUP2 (1U << 0)
#define GUEST_SCOPE_REAPER (1U << 1) /* no cgroup2 to kill by: a subreaper process per exec */
#define GUEST_KEPT (1U << 2)
/* `folder` is there: init makes its tree, says GUEST_READY, waits for GUEST_BEGIN, and says GUEST_READY
 * again. */
#define GUEST_AHEAD (1U << 3)

/* The host name of a computer that was made without one. `pid` as the reply to its create had it.
 * Descriptors: [0] its lock, if it is to outlive the server. */
struct guest_name {
    uint32_t type;
    uint32_t request;
    int32_t pid;
    char hostname[65];
};

/* With GUEST_USERS: a folder and all that is in it becomes that id's. What lies very deep may be moved up
 * into it, as GUEST_DEEP_PREFIX and a number. */
#define GUEST_DEEP_PREFIX "native-trash-"

struct guest_own {
    uint32_t type;
    uint32_t request;
    uint32_t id;
    char folder[GUEST_PATH_MAX]; /* beneath state_dir */
};

/* Descriptors of a successful create: [0] pidfd of init. Of a setup with GUEST_USERS, but neither
 * GUEST_ONE_ID nor GUEST_ROOT_PLAIN: [0] the base, an empty folder in memory that the server fills with a
 * copy of base_dir, since only such files can have their ids shifted by who isn't root of the machine. */
struct guest_reply {
    uint32_t type;
    uint32_t request;
    int32_t pid; /* of init, as the zygote sees it */
    uint32_t flags;
    struct guest_error error;
};
/* Of a setup: the kernel lets computers have no /proc of their own, since parts of the one around are hidden.
 * Theirs holds a few files about the machine, and no processes. */
#define GUEST_REPLY_PROC_HIDDEN (1U << 0)

/* What takes the server time, folders and groups, is made while the kernel makes the namespaces: init waits
 * for this packet before it touches any. With GUEST_AHEAD it waits later, so that all of this is over before
 * somebody wants a computer. Descriptors: with GUEST_BEGIN_DISK, a mount that is attached nowhere, whose root
 * is what `folder` is otherwise; then files `tasks` of v1 groups, open for writing. Init writes "0" to each
 * before it runs anything, while it has one thread. (`cgroup.procs` would do too, but each write to it waits
 * for a grace period of the kernel's RCU, 6 ms and more when idle.) */
struct guest_begin {
    uint32_t type;
    uint32_t flags;
    uint32_t nproc;      /* RLIMIT_NPROC, where no control group counts processes; 0: none */
    uint64_t data_bytes; /* RLIMIT_DATA, where no control group counts memory; 0: none */
};
#define GUEST_BEGIN_DISK (1U << 0)

/* Descriptors, of the answer to GUEST_ATTACH: [0] the disk that came with GUEST_BEGIN_DISK. */
struct guest_ready {
    uint32_t type;
    uint32_t next_exec; /* no exec had this id, or a higher one */
    struct guest_error error;
};

/* Descriptors: [0] a bound SEQPACKET socket, on which init listens for the next server, [1] the computer's
 * lock, which init holds as long as it lives. When the server has gone, commands that somebody waited for
 * are ended, and all that they have started and not let go; what else runs goes on. Without a process and
 * without a server init ends. */
struct guest_keep {
    uint32_t type;
};

/* Descriptors: [0] pidfd of the server. */
struct guest_attach {
    uint32_t type, version;
    uint32_t flags;
};
#define GUEST_ATTACH_KEEP (1U << 0) /* it is to outlive this server too */

struct guest_leave {
    uint32_t type;
};

/* The body: cwd, then argc arguments, then envc NAME=VALUE, each ended by NUL. It follows the struct in the
 * packet, or is in a sealed memfd. A program without a slash is searched in the PATH of that environment.
 *
 * Descriptors in order: [stdin] stdout stderr status [scope] [memfd of the body] [memfd of a script].
 * The scope is either the exec's cgroup2 folder, O_RDONLY | O_DIRECTORY, with GUEST_EXEC_SCOPE_DIR: the
 * command is born in it. For that `cgroup.procs` in this folder and in the folder that init was born in must
 * belong to id_base (nothing inside can see them). Or it is the folder's `cgroup.procs`, open for writing,
 * with GUEST_EXEC_SCOPE: right, but slow (see struct guest_create). */
struct guest_exec {
    uint32_t type;
    uint32_t id; /* never reused within a computer's life */
    uint32_t flags;
    uint32_t argc, envc;
    uint32_t body_bytes;
};
#define GUEST_EXEC_STDIN (1U << 0)     /* else /dev/null of the computer */
#define GUEST_EXEC_SCOPE (1U << 1)     /* the child writes "0" there before execve */
#define GUEST_EXEC_BODY (1U << 2)      /* body in a memfd */
#define GUEST_EXEC_SCRIPT (1U << 3)    /* becomes GUEST_SCRIPT_FD of the command, not close-on-exec */
#define GUEST_EXEC_SCOPE_DIR (1U << 4) /* excludes GUEST_EXEC_SCOPE */
#define GUEST_SCRIPT_FD 3

enum guest_stage {
    GUEST_STAGE_RAN = 0, /* wait_status holds */
    GUEST_STAGE_SCOPE,   /* joining the scope failed */
    GUEST_STAGE_CHDIR,
    GUEST_STAGE_EXEC,    /* sys: ENOENT, EACCES, ENOEXEC ... */
    GUEST_STAGE_FORK,    /* no process to be had (EAGAIN: pids limit; ENOMEM) */
    GUEST_STAGE_REQUEST, /* malformed (EINVAL), or too many at once (EAGAIN) */
};
#define GUEST_BACKGROUND_MAX 64
struct guest_exit {
    uint32_t id;
    uint32_t stage;
    int32_t sys;
    int32_t wait_status;       /* of waitpid(2) form */
    uint64_t cpu_us;           /* of the command and what it has waited for, in both modes; 0: not known */
    uint64_t peak_bytes;       /* resident, of the largest of these */
    uint32_t background_count; /* reaper scopes only: what still runs, as the computer numbers it */
    uint32_t background_more;
    int32_t background[GUEST_BACKGROUND_MAX];
};
_Static_assert(sizeof(struct guest_exit) <= 512, "one atomic write, with room");

struct guest_kill {
    uint32_t type;
    uint32_t id;
};

/* Descriptors: [0] a SEQPACKET socket on which the answer comes: struct guest_opened, with the descriptor if
 * it worked. Parents of the path are made (0755); the file must not exist (O_EXCL, no link followed at its
 * end); mode 0600, write-only. */
struct guest_open {
    uint32_t type;
    char path[GUEST_PATH_MAX];
};
struct guest_opened {
    struct guest_error error;
};

_Static_assert(sizeof(struct guest_setup) < GUEST_PACKET_MAX, "fits");
_Static_assert(sizeof(struct guest_create) < GUEST_PACKET_MAX, "fits");
_Static_assert(sizeof(struct guest_name) < GUEST_PACKET_MAX, "fits");
_Static_assert(sizeof(struct guest_own) < GUEST_PACKET_MAX, "fits");
