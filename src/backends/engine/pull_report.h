/* What an engine tells while it pulls an image: a stream of JSON objects about layers, and perhaps an error.
 * Source: Engine API v1.41 ImageCreate, and github.com/moby/moby/pkg/jsonmessage. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define PULL_LAYERS_MAX 512 /* those beyond aren't counted */

struct pull_layer {
    char id[32];
    int phase;
    uint64_t done, total; /* bytes of the download */
};

struct pull_report {
    struct buf object; /* that has begun */
    int depth;         /* of brackets in it */
    bool in_string, escaped;
    struct pull_layer layers[PULL_LAYERS_MAX];
    unsigned layer_count;
};
void pull_report_init(struct pull_report *r);
void pull_report_done(struct pull_report *r);

/* The next piece of the stream. -1: the engine says that it failed, in its words (ERR_UNAVAILABLE), or sends
 * what is no such stream. */
int pull_report_feed(struct pull_report *r, const void *bytes, size_t n, struct error *err);
/* The stream has ended. -1: inside an object. */
int pull_report_end(const struct pull_report *r, struct error *err);

struct pull_status {
    unsigned layers, downloaded; /* of them */
    uint64_t done, total;        /* bytes, as far as is known */
    bool unpacking;              /* nothing is left to download */
};
void pull_report_status(const struct pull_report *r, struct pull_status *ret);

/* What the words of an engine or of a registry mean, if that is known; else `code`. */
enum error_code pull_meaning(const char *words, enum error_code code);
