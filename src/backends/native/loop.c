/* The lock belongs to the open file that the loop device holds too, so it lasts exactly as long as the kernel
 * may write to the file: two mounts of one file system would destroy it. */
#include "backends/native/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define DEVICE_TRIES 64 /* another process may take the device that we were told is free */
#define LOCK_TIMEOUT_NS (10 * NSEC_PER_SEC)

static const char *const flags[] = {
    "noinit_itable", /* what was never used of the tables isn't written */
    "discard",       /* what the computer deletes, the host has back */
};

int loop_lock(int image, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    if (fd_lock(image, LOCK_TIMEOUT_NS, wait, &why) == 0)
        return 0;
    if (why.code == ERR_BUSY)
        return error_set(err, ERR_BUSY,
                         "the computer's disk is still mounted: processes of it may be stuck in the kernel");
    return error_set(err, why.code, "the computer's disk: %s", why.msg);
}

/* A device with this file. Freed when nobody has it open or mounted. */
static int attach_device(int image, char *path, size_t size, struct error *err)
{
    const struct loop_config config = {.fd = (unsigned)image, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
    _cleanup_fd_ int control = open(LOOP_CONTROL, O_RDWR | O_CLOEXEC);
    if (control < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "open " LOOP_CONTROL);
    for (int i = 0; i < DEVICE_TRIES; i++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "get a loop device");
        snprintf(path, size, "/dev/loop%d", number);
        _cleanup_fd_ int device = open(path, O_RDWR | O_CLOEXEC);
        if (device < 0)
            return error_errno(err, ERR_UNAVAILABLE, errno, "open %s", path);
        if (ioctl(device, LOOP_CONFIGURE, &config) == 0)
            return TAKE_FD(device);
        if (errno != EBUSY)
            return error_errno(err, ERR_UNAVAILABLE, errno, "set up %s", path);
    }
    return error_set(err, ERR_UNAVAILABLE, "others take every loop device that is free");
}

/* The kernel's own words are to be read from the context. */
static int refused(int context, const char *device, int sys, struct error *err)
{
    char words[256];
    ssize_t n = read(context, words, sizeof(words) - 1);
    if (n <= 0)
        return error_errno(err, ERR_UNAVAILABLE, sys, "mount %s", device);
    words[n] = '\0';
    return error_errno(err, ERR_UNAVAILABLE, sys, "mount %s: %s", device, words);
}

int loop_mount(int image, struct error *err)
{
    char path[32];
    _cleanup_fd_ int device = attach_device(image, path, sizeof(path), err);
    if (device < 0)
        return -1;
    _cleanup_fd_ int context = fsopen("ext4", FSOPEN_CLOEXEC);
    if (context < 0)
        return error_errno(err, ERR_UNAVAILABLE, errno, "use ext4");
    if (fsconfig(context, FSCONFIG_SET_STRING, "source", path, 0) < 0)
        return refused(context, path, errno, err);
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (fsconfig(context, FSCONFIG_SET_FLAG, flags[i], NULL, 0) < 0)
            return refused(context, path, errno, err);
    if (fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return refused(context, path, errno, err);
    int mount = fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOATIME);
    return mount < 0 ? error_errno(err, ERR_UNAVAILABLE, errno, "mount %s", path) : mount;
}
