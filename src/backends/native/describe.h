/* Words for people about what a computer of this backend is. All malloced. */
#pragma once

#include "backends/native/cgroups.h"
#include "backends/native/disk.h"

/* "an isolated Debian GNU/Linux 12 (bookworm) computer with this machine's programs (/usr is read-only)".
 * rootfs NULL: the toolbox. */
char *describe_environment(const char *rootfs);
/* The same of the rung "weak". */
char *describe_weak_environment(void);
/* "1 GiB". */
char *describe_size(int64_t bytes);
/* "512 MiB of memory, 512 processes, 1 CPU, 1 GiB of disk", with what isn't enforced named as such. held
 * NULL: that isn't known yet of the first three. */
char *describe_limits(const struct cgroup_values *values, const struct cgroups *held,
                      const struct disks *disks);
