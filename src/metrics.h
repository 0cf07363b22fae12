/* Figures for Prometheus, in its text format (version 0.0.4). Loop thread only. */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "computers/computers.h"
#include "protocol/protocol.h"
#include "transport/http.h"

struct metrics;
struct metrics *metrics_new(void);
struct metrics *metrics_free(struct metrics *m); /* returns NULL */
void metrics_call(struct metrics *m, const struct call_report *report);
/* Appends all of it. -1: it doesn't fit. */
int metrics_write(const struct metrics *m, const struct computers_counts *computers,
                  const struct http_figures *http, struct buf *ret) _must_use_;
