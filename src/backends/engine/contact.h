/* First contact with what may be an engine, below HTTP proper: a connection, a ping over it, and the last
 * words of a program that should have led there. */
#pragma once

#include "base/cancel.h"

/* A connected socket, non-blocking; -1 with errno. One that is too busy to take us at once is EAGAIN. */
int contact_connect(const char *unix_path);
/* Sends a HEAD of /_ping and reads its answer, whatever its status; the connection is then ready for the next
 * request. ERR_UNAVAILABLE: it ended, or what came is no HTTP. */
int contact_ping(int fd, const struct wait *wait, struct error *err);
/* What a program printed, for an error: its end, on one line, in UTF-8, without control characters. Malloced;
 * "" if it is blank. */
char *contact_words(const char *bytes, size_t n);
/* The same of a text that begins with what matters: no more than its first `most` bytes. */
char *contact_beginning(const char *text, size_t most);
