/* See memory_file.h. */
#include "backends/wasm/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

int memory_file_new(const char *name, struct error *err)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd >= 0 ? fd : error_errno(err, ERR_LIMIT, errno, "make a file in memory");
}

int memory_file_seal(int fd, struct error *err)
{
    if (lseek(fd, 0, SEEK_SET) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return error_errno(err, ERR_LIMIT, errno, "seal a file in memory");
    return 0;
}
