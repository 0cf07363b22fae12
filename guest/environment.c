/* See environment.h. Whoever in the machine may write to the file may do all there. */
#include "guest/environment.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest/job_wire.h"
#include "guest/place.h"
#include "guest/sys.h"

#define BYTES_MAX (256U << 10)
#define ENTRIES_MAX 2048 /* no more are passed on */

void environment_keep(int place, bool anew)
{
    _cleanup_fd_ int fd =
        place_open_file(place, JOB_ENVIRONMENT, O_WRONLY | O_CREAT | (anew ? O_TRUNC : O_EXCL));
    for (char **entry = environ; fd >= 0 && *entry; entry++)
        if (write(fd, *entry, strlen(*entry) + 1) < 0)
            return;
}

void environment_take(int place)
{
    static char text[BYTES_MAX + 1];
    static char *entries[ENTRIES_MAX + 1];
    unsigned count = 0;
    _cleanup_fd_ int fd = place_open_file(place, JOB_ENVIRONMENT, O_RDONLY);
    const ssize_t size = fd < 0 ? 0 : read(fd, text, BYTES_MAX);
    for (char **entry = environ; *entry && count < ENTRIES_MAX / 2; entry++)
        entries[count++] = *entry;
    for (ssize_t at = 0; at < size && count < ENTRIES_MAX; at += (ssize_t)strlen(text + at) + 1)
        entries[count++] = text + at; /* the last of a name counts */
    environ = entries;
}
