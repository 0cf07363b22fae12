/* System calls and constants that the C library has no name for. Each returns -1 and sets errno, as its peers
 * do. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <linux/sched.h>

#define _cleanup_fd_ __attribute__((cleanup(sys_close_fd)))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S (1000 * NS_PER_MS)

/* <linux/mount.h> and <sys/mount.h> can't be included together with every C library. */
struct sys_mount_attr {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};
#define SYS_MOUNT_RDONLY 0x1U
#define SYS_MOUNT_NOSUID 0x2U
#define SYS_MOUNT_NODEV 0x4U
#define SYS_MOUNT_NOEXEC 0x8U
#define SYS_MOUNT_IDMAP 0x100000U
#define SYS_OPEN_TREE_CLONE 1U
#define SYS_MOVE_MOUNT_F_EMPTY_PATH 0x04U
#define SYS_MOVE_MOUNT_T_EMPTY_PATH 0x40U
#define SYS_FSCONFIG_SET_STRING 1U
#define SYS_FSCONFIG_CMD_CREATE 6U

static inline void sys_close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

/* Of the monotonic clock. */
static inline int64_t sys_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static inline int sys_close(int fd)
{
    sys_close_fd(&fd);
    return -1;
}

/* One by one where the kernel, or an engine's filter, has no such call; as far as our limit lets them go. */
static inline int sys_close_range(unsigned first, unsigned last)
{
    struct rlimit files;
    int ret = (int)syscall(SYS_close_range, first, last, 0);
    if (ret == 0 || (errno != ENOSYS && errno != EPERM) || getrlimit(RLIMIT_NOFILE, &files) < 0)
        return ret;
    for (rlim_t fd = first; fd <= last && fd < files.rlim_cur; fd++)
        close((int)fd);
    return 0;
}

/* dup3(2), and the old number is free. -1 goes through, with errno as it was. */
static inline int sys_move_fd(int from, int to)
{
    if (from < 0 || from == to)
        return from;
    if (dup3(from, to, O_CLOEXEC) < 0)
        return -1;
    close(from);
    return to;
}

static inline int sys_open_tree(int dir, const char *path, unsigned flags)
{
    return (int)syscall(SYS_open_tree, dir, path, flags);
}

#define SYS_AT_RECURSIVE 0x8000U

static inline int sys_mount_setattr(int fd, const struct sys_mount_attr *attr, unsigned flags)
{
    return (int)syscall(SYS_mount_setattr, fd, "", flags, attr, sizeof(*attr));
}

static inline int sys_move_mount(int from, int to_dir, const char *to)
{
    return (int)syscall(SYS_move_mount, from, "", to_dir, to,
                        SYS_MOVE_MOUNT_F_EMPTY_PATH | (*to ? 0 : SYS_MOVE_MOUNT_T_EMPTY_PATH));
}

static inline int sys_fsopen(const char *type, unsigned flags)
{
    return (int)syscall(SYS_fsopen, type, flags);
}

static inline int sys_fsconfig(int fd, unsigned command, const char *key, const char *value)
{
    return (int)syscall(SYS_fsconfig, fd, command, key, value, 0);
}

static inline int sys_fsmount(int fd, unsigned flags, unsigned attributes)
{
    return (int)syscall(SYS_fsmount, fd, flags, attributes);
}

static inline int sys_pivot_root(const char *new_root, const char *put_old)
{
    return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int sys_openat2(int dir, const char *path, const struct open_how *how)
{
    return (int)syscall(SYS_openat2, dir, path, how, sizeof(*how));
}

/* With the semantics of fork(2). */
static inline pid_t sys_clone3(struct clone_args *args)
{
    return (pid_t)syscall(SYS_clone3, args, sizeof(*args));
}

/* With a stack of its own in `args`: the child calls run(context), which must not return. `token` travels in
 * the two argument registers that the call doesn't use; the seccomp filter knows it (privileges.c). Returns a
 * negative errno, unlike the rest: the library's errno must not be touched while the child shares it. */
static inline long sys_clone3_call(const struct clone_args *args, void (*run)(void *), void *context,
                                   const uint64_t token[2])
{
#if defined(__x86_64__)
    register uint64_t token0 __asm__("r8") = token[0];
    register uint64_t token1 __asm__("r9") = token[1];
    register void (*function)(void *) __asm__("r12") = run;
    register void *argument __asm__("r13") = context;
    long ret;
    __asm__ volatile("syscall\n"
                     "test %%rax, %%rax\n"
                     "jnz 1f\n"
                     "xor %%ebp, %%ebp\n"
                     "mov %%r13, %%rdi\n"
                     "call *%%r12\n"
                     "ud2\n"
                     "1:\n"
                     : "=a"(ret)
                     : "a"((long)SYS_clone3), "D"(args), "S"(sizeof(*args)), "r"(token0), "r"(token1),
                       "r"(function), "r"(argument)
                     : "rcx", "r11", "cc", "memory");
    return ret;
#elif defined(__aarch64__)
    register long ret __asm__("x0") = (long)args;
    register size_t size __asm__("x1") = sizeof(*args);
    register uint64_t token0 __asm__("x4") = token[0];
    register uint64_t token1 __asm__("x5") = token[1];
    register long number __asm__("x8") = SYS_clone3;
    register void (*function)(void *) __asm__("x19") = run;
    register void *argument __asm__("x20") = context;
    __asm__ volatile("svc #0\n"
                     "cbnz x0, 1f\n"
                     "mov x29, #0\n"
                     "mov x0, x20\n"
                     "blr x19\n"
                     "brk #0\n"
                     "1:\n"
                     : "+r"(ret)
                     : "r"(size), "r"(token0), "r"(token1), "r"(number), "r"(function), "r"(argument)
                     : "cc", "memory");
    return ret;
#else
#error "only x86-64 and aarch64"
#endif
}
