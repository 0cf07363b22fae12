/* The bench's figures, and the stages that find them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "measure.h"

enum figure_id {
    START,
    FIRST_CALL,
    WARM_ARGS,
    WARM_COMMAND,
    CREATE_BWRAP,
    CREATE_RUNSC,
    CREATE_DOCKER,
    CREATE_PODMAN,
    POOL,
    MEMORY_START,
    MEMORY_100,
    MEMORY_PRINTABLE,
    MEMORY_WORST,
    PARALLEL,
    IDLE,
    GROWTH_CREATE,
    GROWTH_CALL,
    END_1000,
    RATE,
    RESTART,
    LIFE_CREATE,
    LIFE_RESTART,
    LIFE_RESET,
    LIFE_DELETE,
    LIST_1000,
    LIST_GROWTH,
    LIST_METRICS_1000,
    LIST_METRICS_GROWTH,
    POLL_CPU,
    HTTP_WARM,
    HTTP_RATE,
    HTTP_SESSIONS,
    HTTP_SESSIONS_MEMORY,
    HTTP_STREAMS,
    WASM_BUSYBOX,
    WASM_START,
    WASM_GUEST,
    WASM_COMPUTE,
    DOCKER_WARM_CLI,
    DOCKER_WARM_API,
    DOCKER_WARM_PYTHON,
    DOCKER_SHELL_PYTHON,
    DOCKER_CREATE,
    DOCKER_END,
    DOCKER_END_PYTHON,
    DOCKER_PARALLEL,
    DOCKER_MEMORY,
    E2B_WARM,
    E2B_WARM_WALL,
    E2B_CREATE,
    E2B_CPU,
    E2B_PARALLEL,
    FLY_WARM,
    FLY_WARM_WALL,
    FLY_CREATE,
    FLY_CPU,
    FLY_PARALLEL,
    MODAL_WARM,
    MODAL_WARM_WALL,
    MODAL_CREATE,
    MODAL_CPU,
    MODAL_PARALLEL,
    E2B_PYTHON_WALL,
    E2B_PYTHON_CPU,
    E2B_PYTHON_AT_ONCE,
    MODAL_PYTHON_WALL,
    MODAL_PYTHON_CPU,
    MODAL_PYTHON_AT_ONCE,
    FIGURES,
    WASM_FIRST = WASM_BUSYBOX,
    WASM_LAST = WASM_COMPUTE,
    DOCKER_FIRST = DOCKER_WARM_CLI,
    DOCKER_LAST = DOCKER_MEMORY
};

struct figure {
    const char *key, *title, *unit;
    double must, aim; /* 0: for information */
    bool more_is_better;
    bool measured;
    double value;
    double subject, floor; /* what value is a ratio of; 0: it isn't */
    size_t samples;
    const char *note; /* why it wasn't measured, or what else there is to say */
};

struct bench {
    const char *server, *state_dir;
    size_t runs; /* samples of each median */
    struct figure *figures;
};

/* Our server with the native backend; what is NULL is as usual for a stage. */
struct native {
    const char *state_dir; /* NULL: the bench's */
    const char *cpus;      /* of each computer; NULL: the server's default */
    const char *pool;      /* NULL: none, so that it is making computers that is measured */
    bool lifecycle;        /* with the tools about computers as such */
};
void native_start(const struct bench *b, const struct native *how, struct subject *ret);

void figure_set(struct bench *b, enum figure_id id, double value, size_t samples);
void figure_set_ratio(struct bench *b, enum figure_id id, double subject, double floor, size_t samples);

/* Lets a server remove what earlier ones had no time for, so that it disturbs no measurement. */
void stage_sweep(struct bench *b);
void stage_start(struct bench *b);
void stage_warm(struct bench *b);
void stage_create(struct bench *b);
void stage_pool(struct bench *b);
void stage_memory(struct bench *b);
void stage_parallel(struct bench *b);
void stage_many(struct bench *b);
void stage_restart(struct bench *b);
void stage_lifecycle(struct bench *b);
void stage_http(struct bench *b);
void stage_wasm(struct bench *b);
/* Beside the fakes of hosted providers, which need Node and root. */
#define FAKES_NEED_ROOT "the fakes' rooms are for root"
void stage_clouds(struct bench *b);
/* The same with the Python program at their side. */
void stage_cloud_peers(struct bench *b);
/* Beside an engine of our own, where one can run. The Python program is measured there, too. */
void stage_docker(struct bench *b);
/* Has a second bench run one stage beside such an engine, and takes over these figures. */
void bench_beside_engine(struct bench *b, const char *engine, const char *stage, enum figure_id first,
                         enum figure_id last);
/* The same beside a provider's fake, which is given these options; PROVIDER names it there. */
void bench_beside_fake(struct bench *b, const char *provider, const char *options, const char *stage,
                       enum figure_id first, enum figure_id last);

/* The Python program whose place ours takes, where it is installed: PEER_PYTHON_V names its executable, else
 * it is the one on PATH (ours may have the same name there, but is no script). NULL: it isn't there. */
const char *peer_python(void);
#define PEER_PYTHON_ABSENT "the Python program isn't on PATH, nor named by PEER_PYTHON_V"
/* The same calls on it, on the other Python program, whose executable PEER_PYTHON_K names, and on ours, with
 * PEER_ARGS (optional) for further arguments of theirs, separated by blanks. Prints a table of its own. */
void compare_peers(struct bench *b);
