/* Logging to stderr or a file, as text or JSON lines. Never blocks: a line that can't be written at once is
 * dropped and counted, and the count is told with the next line that can. Any thread. Library code logs at
 * debug only; see error.h for who logs errors. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/macros.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* Before any thread is started. program: the prefix of text lines. path NULL: stderr. The descriptor is
 * opened anew where that is possible, so that O_NONBLOCK stays ours. */
int log_open(const char *program, enum log_level level, bool json, const char *path, struct error *err);
void log_close(void);
void log_msg(enum log_level level, const char *file, int line, const char *fmt, ...) _printf_(4, 5);
uint64_t log_dropped(void);

#define log_error(...) log_msg(LOG_ERROR, __FILE__, __LINE__, __VA_ARGS__)
#define log_warning(...) log_msg(LOG_WARNING, __FILE__, __LINE__, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __FILE__, __LINE__, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __FILE__, __LINE__, __VA_ARGS__)
