/* See guest_file.h. */
#include "guest_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/native/image.h"
#include "harness.h"

static char guest_path[64];

static void remove_guest(void)
{
    unlink(guest_path);
}

const char *guest_file(void)
{
    if (guest_path[0])
        return guest_path;
    snprintf(guest_path, sizeof(guest_path), "/tmp/guest-test-XXXXXX");
    int fd = mkostemp(guest_path, O_CLOEXEC);
    if (fd < 0 || write(fd, guest_image, guest_image_size) != (ssize_t)guest_image_size ||
        fchmod(fd, 0755) < 0)
        harness_die(guest_path);
    close(fd);
    atexit(remove_guest);
    return guest_path;
}
