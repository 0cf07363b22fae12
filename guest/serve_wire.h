/* What the server and the guest program say to each other where they share no kernel objects, only a stream
 * of bytes: `sandbox-guest serve` in a container (as its first process, or started by the engine in one that
 * runs), with its standard input and output carried by whatever the engine has. Both ends are of the same
 * build; the guest says hello first, so that a stranger's stream is noticed. Shared by guest/ and
 * src/backends/ only.
 *
 * A frame is a struct serve_frame and `size` bytes. Integers are of the machine's own order: engines run what
 * they are like, or the guest doesn't run at all. Many commands run at once, told apart by id.
 *
 * server -> guest: CONFIG first; RUN (with everything of the command, its whole input too); KILL; CLEAR;
 * PING. guest -> server: HELLO first; then READY in answer to CONFIG; per command OUTPUT, at most
 * output_limit bytes in all, and exactly one END; one END per CLEAR; PONG.
 *
 * Trust: as in wire.h. The server checks every size and number that comes from a guest. */
#pragma once

#include <stdint.h>

#include "guest/wire.h"

#define SERVE_VERSION 1
#define SERVE_MAGIC 0x78626d63U /* "cmbx" */

/* argv of the guest: "sandbox-guest", "serve", and maybe SERVE_FIRST. It asks for no environment, and passes
 * its own, which is the image's, on to commands beneath what RUN gives, but for SERVE_EARLY where it has
 * taken that. */
#define SERVE_COMMAND "serve"
/* With this as one more argument, what would come first over the stream may be in a variable of that name, as
 * base64, and the stream goes on behind it: who starts a guest for one short command has nothing more to say.
 * The guest alone sees it. It is held to what it may be as the stream is. */
#define SERVE_FIRST "first"
#define SERVE_EARLY "SANDBOX_SERVE_FIRST"
#define SERVE_EARLY_MAX (120U << 10) /* letters: exec takes no longer variable than 128 KiB */

enum serve_type {
    SERVE_HELLO = 1,
    SERVE_CONFIG = 2,
    SERVE_READY = 3,
    SERVE_RUN = 4,
    SERVE_OUTPUT = 5,
    SERVE_END = 6,
    SERVE_KILL = 7, /* no body: end all of this command; END follows */
    SERVE_PING = 8, /* no body; renews the lease, answered by PONG */
    SERVE_PONG = 9,
    SERVE_CLEAR =
        10, /* no body: end all but the first process. END follows, of this id, which is no command's:
             * stage RAN, or REQUEST with EPERM (not asked of the first process) or ETIMEDOUT */
};

struct serve_frame {
    uint32_t size; /* of the body */
    uint32_t type; /* enum serve_type */
    uint32_t id;   /* of the command; 0 where there is none. Never reused on one stream */
};
#define SERVE_FRAME_MAX (64U << 10)       /* body of a frame to the server */
#define SERVE_OUTPUT_LIMIT_MAX (8U << 20) /* of a RUN's output_limit */
#define SERVE_COMMANDS_MAX 128            /* at once; beyond it END says GUEST_STAGE_REQUEST, EAGAIN */
/* Of a RUN: body of wire.h's exec, and input. */
#define SERVE_RUN_MAX (GUEST_BODY_MAX + (2U << 20) + (1U << 20) + 4096U)

struct serve_hello {
    uint32_t magic, version;
    int32_t pid; /* as the container numbers it; 1: its first process */
};

struct serve_config {
    uint32_t flags;   /* SERVE_* below */
    uint32_t nofile;  /* RLIMIT_NOFILE of commands; 0: as it is */
    uint32_t lease_s; /* 0: none. Without a word from the server for so long, a dying one ends itself */
    uint32_t reserved;
    char spool_dir[GUEST_PATH_MAX]; /* where output that isn't kept goes; "": nowhere. May be sent without
                                     * what is behind its NUL */
};
/* The end of the stream, or of the lease, is the end of the container (as its first process), or of all that
 * was started here. Without it commands are ended, but background processes and the first process live on. */
#define SERVE_DIES (1U << 0)
/* Close the way to metadata services and to the engine's own machine; as the first process only, and while
 * nothing else runs. It needs CAP_NET_ADMIN, which is given up in any case, also by one that isn't the first:
 * the engine gives it to whatever it starts. */
#define SERVE_FIREWALL (1U << 1)
/* One command is all: after its END the guest ends, and background processes live on. Not as the first
 * process. For streams that cost something while they are open. */
#define SERVE_ONCE (1U << 2)
#define SERVE_ONCE_ID 1 /* that its command has where nothing else says so */

/* What the guest found out. Frames that follow say no more than this allows. */
struct serve_ready {
    uint32_t firewall; /* enum serve_firewall */
    uint32_t reserved;
    struct guest_error error; /* why the firewall isn't there */
    char has_shell[4];        /* 1 each: /bin/bash /bin/sh, as told at the start; the rest is 0 */
};
enum serve_firewall { SERVE_FIREWALL_NONE, SERVE_FIREWALL_ON, SERVE_FIREWALL_FAILED };

/* Followed by body_bytes as of struct guest_exec (cwd, argc arguments, envc NAME=VALUE, each ended by NUL),
 * stdin_bytes of input, and script_bytes of a script (see SERVE_RUN_SCRIPT). An empty cwd: as the container's
 * working directory is. */
struct serve_run {
    uint32_t flags;
    uint32_t argc, envc;
    uint32_t body_bytes, stdin_bytes, script_bytes;
    uint32_t output_limit; /* bytes of both streams that are sent */
    uint32_t spool_limit;  /* bytes of each stream that go to a file once not all is sent */
};
#define SERVE_RUN_STDIN (1U << 0)  /* there is input, if only of no bytes; else /dev/null */
#define SERVE_RUN_SCRIPT (1U << 1) /* the script becomes GUEST_SCRIPT_FD of the command */

/* Followed by bytes of one stream. First those of the head, as they come; those of the tail are sent when the
 * command has ended, before END. */
struct serve_output {
    uint32_t stream; /* 0 stdout, 1 stderr */
    uint32_t part;   /* 0 head, 1 tail */
};

/* Sent without the zeros at its end, of which it mostly consists. */
struct serve_end {
    struct guest_exit exit; /* as in wire.h; its id is the frame's */
    uint16_t killed;        /* by KILL, so that nothing of it is left */
    uint16_t disk_full;     /* there is no room on the file system of the root */
    uint32_t oom_kills;     /* by the memory limit while it ran */
    uint64_t total[2];      /* bytes that each stream had */
    uint64_t spooled[2];    /* bytes in spool_path; 0: there is none */
    char spool_path[2][GUEST_PATH_MAX / 2];
};
#define SERVE_END_LEAST 16U /* bytes that are sent in any case */
_Static_assert(sizeof(struct serve_end) + sizeof(struct serve_frame) < SERVE_FRAME_MAX, "fits");
