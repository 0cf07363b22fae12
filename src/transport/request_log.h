/* A line of JSON per request, for who wants to know afterwards who asked for what. Loop thread only. */
#pragma once

#include "base/error.h"
#include "transport/http_server.h"

struct request_log;
/* path "-": standard error. */
struct request_log *request_log_new(const char *path, struct error *err);
/* Opens the file anew, so that it can be renamed away. */
int request_log_reopen(struct request_log *log, struct error *err);
struct request_log *request_log_free(struct request_log *log); /* returns NULL */
/* principal: NULL if nobody was identified. Never blocks: a line that can't be written at once is lost, and
 * the next one says how many were. */
void request_log_write(struct request_log *log, const struct http_request *r, const char *principal,
                       bool sent);
