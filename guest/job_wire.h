/* What the server and the guest program say to each other where there are neither streams nor long calls:
 * only execs of a program with text in and text out, that last seconds, whose answers may be lost, and which
 * may be begun again. A command is a *job* there. It runs on its own, and what it says (the frames of
 * serve_wire.h) is kept in a file until it was read. The guest is started as one of
 *
 *   GUEST job put ID OFFSET SIZE                        keeps a piece of the job's input
 *   GUEST job run ID OFFSET SIZE WAIT_MS stay|end [DONE ...]
 *                                                       keeps the last piece; starts the job, unless that was
 *                                                       done before; waits for its end
 *   GUEST job read ID OFFSET WAIT_MS stay|end           waits for its end
 *   GUEST job kill ID OFFSET                            ends it; one that isn't there never starts
 *   GUEST job touch                                     nothing but what each of them does: renews the lease
 *   GUEST job sweep                                     ends everything in the machine but what it began with
 *   GUEST main LEASE_S                                  the machine's main process
 *
 * and works in the folder that it lies in. ID is of lower case letters and digits, and never reused. put and
 * run have SIZE bytes of input as base64 on their standard input; the first has OFFSET 0. The whole of it is
 * CONFIG with SERVE_ONCE, and RUN. run, read and kill answer with what the job has said from OFFSET on (run:
 * from the beginning), after they have waited for its end, at most WAIT_MS; "end": then it is ended, and
 * waited for a little longer. DONE are jobs whose answers have come: nothing of them is needed any more.
 *
 * Everything may be asked again, and comes to the same. Each prints base64 of a struct job_answer and `size`
 * bytes, and exits with 0; whatever else is printed comes from a stranger.
 *
 * Trust: as in serve_wire.h. Shared by guest/ and src/backends/ only. */
#pragma once

#include "guest/serve_wire.h"

#define JOB_COMMAND "job"
#define JOB_PUT "put"
#define JOB_RUN "run"
#define JOB_READ "read"
#define JOB_KILL "kill"
#define JOB_TOUCH "touch"
#define JOB_SWEEP "sweep"
#define JOB_STAY "stay"
#define JOB_END "end"
#define JOB_MAIN "main"

#define JOB_PLACE "work"              /* beside the program: where it keeps what it must, 0700 */
#define JOB_ENVIRONMENT "environment" /* in it: of the main process, as in its /proc/PID/environ */

#define JOB_VERSION 1
#define JOB_MAGIC 0x6a6d6263U                 /* "cbmj" */
#define JOB_ID_MAX 40                         /* bytes */
#define JOB_PIECE_MAX (1088U << 10)           /* of input; so two of them hold 2 MiB and a command */
#define JOB_INPUT_MAX (SERVE_RUN_MAX + 4096U) /* all pieces */
#define JOB_ANSWER_MAX (2U << 20)             /* bytes beside one answer */
#define JOB_WAIT_MAX_MS 20000
#define JOB_END_WAIT_MS 2500 /* for a job that was ended */
#define JOB_DONE_MAX 16      /* named by one run */
#define JOBS_MAX 1024        /* kept; beyond it nothing is started: JOB_FAILED, EAGAIN */

enum job_state {
    JOB_KEPT = 1,    /* of put, touch and sweep */
    JOB_RUNNING = 2, /* more may come */
    JOB_OVER = 3,    /* all is there; it says its END, unless it was ended from outside, or never began */
    JOB_ABSENT = 4,  /* no job of this ID was ever run, or it was long ago */
    JOB_FAILED = 5,  /* see error */
};

struct job_answer {
    uint32_t magic, version;
    uint32_t state;  /* enum job_state */
    uint32_t size;   /* of what follows */
    uint64_t offset; /* of its first byte */
    uint64_t total;  /* that the job has said so far, at least offset + size */
    struct guest_error error;
    uint32_t reserved;
};
_Static_assert(sizeof(struct job_answer) == 288, "no holes");
