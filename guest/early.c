/* See early.h. Where a process's environment can be seen (/proc/PID/environ) is the memory that exec put it
 * in: it is gone from there before any command begins. */
#include "guest/early.h"

#include <string.h>
#include <unistd.h>

#include "guest/memory.h"
#include "guest/request.h"
#include "guest/serve_wire.h"

/* The value; and all of that name leave the list. */
static char *cut_out(void)
{
    const size_t name = strlen(SERVE_EARLY);
    char *value = NULL, **kept = environ;
    for (char **entry = environ; *entry; entry++) {
        if (strncmp(*entry, SERVE_EARLY, name) != 0 || (*entry)[name] != '=')
            *kept++ = *entry;
        else if (!value)
            value = *entry + name + 1;
    }
    *kept = NULL;
    return value;
}

int early_take(void **ret, size_t *ret_size)
{
    char *text = cut_out();
    const size_t letters = text ? strlen(text) : 0;
    const ssize_t size = letters > 0 ? request_early(text, letters) : 0;
    *ret_size = size > 0 ? (size_t)size : 0;
    *ret = size > 0 ? memory_take(*ret_size) : NULL;
    if (*ret)
        memcpy(*ret, text, *ret_size);
    if (letters > 0)
        explicit_bzero(text, letters);
    return size < 0 || (size > 0 && !*ret) ? -1 : 0;
}
