/* The words of TOML, for readers of some small part of it: blanks, comments, and texts in quotes with \"
 * \\ \b \t \n \f \r \uXXXX \UXXXXXXXX, or in apostrophes, where \ is nothing special. Every error says
 * FILE:LINE. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

struct toml {
    const char *p, *end; /* what is left */
    const char *name;    /* of the file, for errors */
    int line;
    struct error *err;
};

/* Looks for what no text file has (NUL, what is no UTF-8): -1. A byte order mark is skipped. Everything is
 * borrowed. */
int toml_begin(struct toml *r, const char *name, const char *bytes, size_t n, struct error *err);
/* ERR_INVALID, at the line that is being read. */
int toml_fail(const struct toml *r, const char *fmt, ...) _printf_(2, 3);

int toml_peek(const struct toml *r); /* -1: the end */
bool toml_take(struct toml *r, char c);
/* How many of the characters that follow are in the set. */
size_t toml_span(const struct toml *r, const char *set);
void toml_skip_blanks(struct toml *r); /* and a comment */
void toml_skip_lines(struct toml *r);  /* empty ones */
/* 1: there was a text, which is appended; 0: something else follows. */
int toml_text(struct toml *r, struct buf *to);
