/* What the server and its engine processes say to each other. They are one program, so nothing here needs a
 * version; but a process that runs a guest may have been taken over by it: what comes back is checked.
 *
 *   PROGRAM internal-wasm check LIBRARY -    prints the engine's major version on fd 2
 *   PROGRAM internal-wasm compile LIBRARY F  module on fd 0, compiled code to fd 1, F: "fuel" or "-"
 *   PROGRAM internal-wasm zygote LIBRARY F   see below
 *
 * These end with 0, or with 1 and one line on fd 2 that says why.
 *
 * The zygote gets the compiled module as fd WASM_FD_CODE and a SOCK_SEQPACKET socket as fd WASM_FD_CONTROL,
 * on which it says WASM_READY once it is loaded. It ends when that is closed, and all of its children with
 * it. Each packet on it is a struct wasm_request with descriptors in the order of enum wasm_fd: one command.
 *
 * A command's line, a SOCK_SEQPACKET socket of its own, carries back at most one struct wasm_verdict, by the
 * command's process, then one struct wasm_over, by the zygote: then nothing of it runs any more. Shutting
 * down our side of the line kills the command. */
#pragma once

#include <stdint.h>

#define WASM_FD_CONTROL 3
#define WASM_FD_CODE 4

#define WASM_READY 'R'

enum wasm_fd {
    WASM_LINE,
    WASM_BODY, /* a sealed memfd: argv, then env, each with its NUL; then stdin */
    WASM_ROOT, /* the computer's folder */
    WASM_CWD,  /* beneath it; the same file if there is no other */
    WASM_OUT,
    WASM_ERR,
    WASM_FDS
};

struct wasm_request {
    uint64_t memory_bytes;
    uint64_t fuel;       /* 0: no limit */
    uint64_t file_bytes; /* that no file may grow beyond; 0: no limit */
    uint32_t argc, envc;
    uint32_t text_bytes; /* of argv and env */
    uint32_t stdin_bytes;
};

enum wasm_tag { WASM_VERDICT = 1, WASM_OVER };

enum wasm_end {
    WASM_EXITED,      /* code */
    WASM_TRAPPED,     /* text */
    WASM_OUT_OF_FUEL, /* text */
    WASM_REFUSED,     /* it couldn't be started: text */
    WASM_NO_ROOM      /* of the machine's: text */
};

struct wasm_verdict {
    uint32_t tag; /* WASM_VERDICT */
    uint32_t end; /* enum wasm_end */
    uint32_t code;
    char text[400];
};

struct wasm_over {
    uint32_t tag;    /* WASM_OVER */
    uint32_t signal; /* that ended it; 0: none */
    uint32_t code;   /* exit status */
    uint64_t cpu_us, peak_bytes;
};
