/* What a computer has of its own: its options and its terms, as they are kept, written to its record, and
 * compared with what somebody asks for. A kept one owns its strings. */
#pragma once

#include "base/json.h"
#include "computers/computers.h"

/* NULL: nothing of its own. */
struct computer_options options_copy(const struct computer_options *o);
void options_done(struct computer_options *o);
void options_write(struct json_writer *w, const struct computer_options *o);
/* object NULL: nothing of its own. False, with nothing to free: it can't be read as options. */
bool options_read(const json_t *object, struct computer_options *ret);
/* ERR_UNSUPPORTED for one that isn't possible; wanted may be NULL. */
int options_check_possible(const struct backend *b, const struct computer_options *wanted, struct error *err);
/* What is asked for of a computer that exists, and that it doesn't have: ERR_EXISTS. wanted may be NULL. */
int options_check_same(const char *id, const struct computer_options *has,
                       const struct computer_options *wanted, struct error *err);

/* What isn't given is as `all` has it, for all computers of the server. */
struct computer_terms terms_copy(const struct computer_terms *t, const struct computer_terms *all);
void terms_done(struct computer_terms *t);
bool terms_are_none(const struct computer_terms *t);
void terms_write(struct json_writer *w, const struct computer_terms *t);
bool terms_read(const json_t *object, struct computer_terms *ret);
int terms_check_same(const char *id, const struct computer_terms *has, const struct computer_terms *wanted,
                     struct error *err);
