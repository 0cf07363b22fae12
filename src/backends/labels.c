/* See labels.h. */
#include "backends/labels.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

void labels_copy(const json_t *object, const char *member, char *ret, size_t size)
{
    const char *value = json_get_string(object, member);
    snprintf(ret, size, "%s", value ? value : "");
}

static bool is_key(const char *text)
{
    return strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16;
}

bool labels_read(const json_t *labels, const char *principal, struct backend_found *ret)
{
    const char *id = json_get_string(labels, LABEL_ID);
    const char *said = json_get_string(labels, LABEL_PRINCIPAL);
    const char *temporary = json_get_string(labels, LABEL_TEMPORARY);
    principal = said ? said : principal;
    if (!id || !principal || !temporary)
        return false;
    *ret = (struct backend_found){
        .id = xstrdup(id),
        .principal = xstrdup(principal),
        .temporary = strcmp(temporary, "true") == 0,
    };
    labels_copy(labels, LABEL_KEY, ret->key, sizeof(ret->key));
    if (!is_key(ret->key))
        ret->key[0] = '\0';
    labels_copy(labels, LABEL_MACHINE, ret->owner.machine, sizeof(ret->owner.machine));
    labels_copy(labels, LABEL_BOOT, ret->owner.boot, sizeof(ret->owner.boot));
    labels_copy(labels, LABEL_PID, ret->owner.pid, sizeof(ret->owner.pid));
    labels_copy(labels, LABEL_START, ret->owner.start, sizeof(ret->owner.start));
    labels_copy(labels, LABEL_STATE, ret->owner.state, sizeof(ret->owner.state));
    return true;
}

static void set(json_t *object, const char *name, const char *value)
{
    if (value && *value)
        json_object_set_new(object, name, json_string(value));
}

void labels_write(json_t *labels, const struct computer_spec *spec)
{
    set(labels, LABEL_OURS, "true");
    set(labels, LABEL_ID, spec->id);
    set(labels, LABEL_PRINCIPAL, spec->principal);
    set(labels, LABEL_KEY, spec->key);
    set(labels, LABEL_TEMPORARY, spec->temporary ? "true" : "false");
    if (!spec->owner)
        return;
    set(labels, LABEL_MACHINE, spec->owner->machine);
    set(labels, LABEL_BOOT, spec->owner->boot);
    set(labels, LABEL_PID, spec->owner->pid);
    set(labels, LABEL_START, spec->owner->start);
    set(labels, LABEL_STATE, spec->owner->state);
}
