/* Intrusive doubly linked list: the node lives inside the element. An initialised but unlinked node points to
 * itself, so unlinking twice is harmless. */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}
static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}
static inline void list_append(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}
static inline void list_unlink(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}
#define list_entry(node, type, member) CONTAINER_OF(node, type, member)
/* Removing the current node inside is allowed. */
#define list_for_each(pos, head)                                                                             \
    for (struct list *pos = (head)->next, *pos##_next = pos->next; pos != (head);                            \
         pos = pos##_next, pos##_next = pos->next)
