/* A hash map from strings (copied) to pointers (borrowed), with a maximum number of entries. Not thread-safe.
 * The hash is keyed at random, since clients choose the strings. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct map;
struct map *map_new(size_t max_entries);
struct map *map_free(struct map *m); /* NULL is fine; must be empty; returns NULL */
size_t map_count(const struct map *m);
void *map_get(const struct map *m, const char *key);
/* 0; -1 when full or when the key is there already. value must not be NULL. */
int map_put(struct map *m, const char *key, void *value);
void *map_remove(struct map *m, const char *key); /* the value, or NULL */
/* Iterates in no order: start with *cursor = 0, ends with false. Removing the current entry is allowed,
 * adding is not. ret_key and ret_value may be NULL. */
bool map_next(const struct map *m, size_t *cursor, const char **ret_key, void **ret_value);
