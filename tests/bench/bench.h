/* The bench's figures, and the stages that find them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum figure_id {
    START,
    FIRST_CALL,
    WARM_ARGS,
    WARM_COMMAND,
    CREATE,
    POOL,
    MEMORY_START,
    MEMORY_100,
    MEMORY_PRINTABLE,
    MEMORY_WORST,
    PARALLEL,
    IDLE,
    GROWTH_CREATE,
    GROWTH_CALL,
    END_500,
    DOCKER_WARM_CLI,
    DOCKER_WARM_API,
    DOCKER_WARM_PYTHON,
    DOCKER_CREATE,
    DOCKER_END,
    DOCKER_PARALLEL,
    DOCKER_MEMORY,
    FIGURES,
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
/* Beside an engine of our own, where one can run. PEER_PYTHON_V (below) is measured there, too. */
void stage_docker(struct bench *b);

/* The same calls on the two Python programs, where PEER_PYTHON_V and PEER_PYTHON_K name their executables,
 * and PEER_ARGS (optional) further arguments, separated by blanks. Prints a table of its own. */
void compare_peers(struct bench *b);
