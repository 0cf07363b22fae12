/* What containers and sandboxes say of the computer that they are: pairs of names and texts, which never
 * change, for whoever finds them. The names are those of the Python programs, and ours beside them. */
#pragma once

#include "backends/backend.h"

#define LABEL_OURS "kilntainers" /* "true" */
#define LABEL_ID "kilntainers.computer-id"
#define LABEL_TEMPORARY "kilntainers.temporary" /* "true" or "false" */
#define LABEL_PRINCIPAL "kilntainers.principal"
#define LABEL_KEY "kilntainers.key" /* of this creation */
#define LABEL_MACHINE "kilntainers.owner.machine"
#define LABEL_BOOT "kilntainers.owner.boot"
#define LABEL_PID "kilntainers.owner.pid"
#define LABEL_START "kilntainers.owner.start"
#define LABEL_STATE "kilntainers.owner.state"

/* "" if the object lacks that member, or it is no text. */
void labels_copy(const json_t *object, const char *member, char *ret, size_t size);
/* Id, principal, temporary, key and owner; everything else is empty. False: it is no computer, or the labels
 * make no sense. `principal`: whose it is without a label that says so; NULL: then it is no computer. */
bool labels_read(const json_t *labels, const char *principal, struct backend_found *ret);
/* All of them, of a new computer. */
void labels_write(json_t *labels, const struct computer_spec *spec);
