/* The maxima that users meet, in one place: what a client or a sandbox controls is bounded by these, some of
 * which flags can lower. Those that are one file's own business stand there. Bytes unless a name says
 * otherwise. */
#pragma once

#define KIB 1024UL
#define MIB (1024UL * KIB)

/* protocol */
/* One JSON-RPC message; a longer line is discarded and refused. A call with all its arguments at their
 * limits, each byte escaped (\u0000), is less. */
#define LIMIT_MESSAGE_BYTES (24 * MIB)
#define LIMIT_INLINE_PARSE_BYTES (64 * KIB) /* a longer message is parsed on a worker */
#define LIMIT_JSON_DEPTH 64                 /* nesting of a message */
#define LIMIT_JSON_VALUES (256 * KIB)       /* in one text, whoever sent it */
#define LIMIT_MESSAGE_VALUES (32 * KIB)     /* in one message: more than a call can use */
#define LIMIT_BATCH_MESSAGES 64             /* of a 2025-03-26 batch */
#define LIMIT_IN_FLIGHT_REQUESTS 1024       /* per session */
#define LIMIT_SEND_QUEUE_BYTES (64 * MIB)   /* queued for a slow reader; beyond it reading pauses */
#define LIMIT_RESULT_BYTES (64 * MIB)       /* one result, escaped */
#define LIMIT_IN_FLIGHT_BYTES (64 * MIB)    /* per session, of their messages */
#define LIMIT_REQUEST_ID_BYTES 1024         /* raw text of a request id */
#define LIMIT_PROGRESS_TOKEN_BYTES 1024
#define PROGRESS_INTERVAL_MS 10000

/* exec */
#define LIMIT_STDIN_BYTES (2 * MIB)            /* as the seeds */
#define LIMIT_COMMAND_BYTES (1 * MIB)          /* command text */
#define LIMIT_COMMAND_INLINE_BYTES (128 * KIB) /* a longer command runs as a script from a memfd */
#define LIMIT_ARG_BYTES (128 * KIB)            /* one element of args: MAX_ARG_STRLEN */
#define LIMIT_ARGS_BYTES (1 * MIB)             /* all elements */
#define LIMIT_ARGS_COUNT 4096
#define LIMIT_ENV_BYTES (256 * KIB)
#define LIMIT_ENV_COUNT 1024
#define LIMIT_CWD_BYTES 4096
#define LIMIT_OUTPUT_BYTES_MAX (8 * MIB) /* of --output-limit and output_limit */
#define LIMIT_SPOOL_BYTES (64 * MIB)     /* one stream's full output inside the computer */
#define LIMIT_BACKGROUND_PIDS 64         /* listed in a result */
#define LIMIT_TIMEOUT_MIN_S 0.1
#define LIMIT_TIMEOUT_MAX_S 86400.0
#define DRAIN_GRACE_MS 250          /* after the main process ended, while others hold the pipes */
#define LIMIT_DRAIN_BYTES (1 * MIB) /* read in that time */

/* computers */
#define LIMIT_COMPUTER_ID_BYTES 63
#define LIMIT_PRINCIPAL_BYTES 63
#define LIMIT_PRINCIPALS 4096
#define LIMIT_COMPUTERS 10000 /* per server */
#define LIMIT_RECORD_BYTES (64 * KIB)
#define LIMIT_KEPT_ENV_BYTES (48 * KIB) /* a computer's own environment, as its record has it */
#define LIMIT_COMPUTER_CPUS_MIN 0.01    /* of the flags, and of computer_create */
#define LIMIT_COMPUTER_CPUS_MAX 1024.0
#define LIMIT_COMPUTER_MEMORY_MIN (4 * MIB)
#define LIMIT_COMPUTER_MEMORY_MAX (64 * MIB * MIB)
#define LIMIT_COMPUTER_PIDS_MIN 4
#define LIMIT_COMPUTER_PIDS_MAX 4194304
#define LIMIT_COMPUTER_DISK_MIN (16 * MIB)
#define LIMIT_COMPUTER_DISK_MAX (1 * MIB * MIB)
#define TOMBSTONE_SECONDS (24 * 3600)
#define LIMIT_PULL_SECONDS 1800     /* one image, whoever waits for it */
#define LIMIT_PULL_STALL_SECONDS 60 /* without a byte of it */
#define CREATE_SECONDS 60           /* for making or attaching one, beside the command's own timeout */

/* threads and logs */
#define LIMIT_QUEUED_CALLS 4096 /* waiting for a thread, all principals */
#define WORKER_STACK_BYTES (256 * KIB)
#define LIMIT_LOG_LINE_BYTES 4096       /* one write that can't block: PIPE_BUF */
#define LIMIT_HTTP_BODY_BYTES (4 * MIB) /* of a peer, unless a request says otherwise */
#define LIMIT_HTTP_HEADERS_BYTES (64 * KIB)
#define LIMIT_UNREAD_BYTES (256 * MIB)      /* of answers that wait for readers, over HTTP of all together */
#define LIMIT_SMALL_ANSWER_BYTES (64 * KIB) /* one that is sent over stdio even then */
#define LIMIT_KEPT_EVENTS_BYTES (256 * MIB) /* for who resumes, all sessions; half for a principal */
#define LIMIT_CONFIG_FILE_BYTES (1 * MIB)
#define LIMIT_CONFIG_LIST 256 /* elements of a repeatable option */
