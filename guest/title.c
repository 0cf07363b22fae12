/* What ps(1) shows of a process that was never exec'd: see title.h. */
#include "guest/title.h"

#include <string.h>
#include <sys/prctl.h>

static char *title;
static size_t room;

void title_begin(char *argv0)
{
    title = argv0;
    room = strlen(argv0);
    title_set(argv0);
}

void title_set(const char *name)
{
    prctl(PR_SET_NAME, name);
    if (strlen(name) <= room && name != title)
        strncpy(title, name, room); /* fills up with NUL */
}
