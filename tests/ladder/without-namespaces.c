/* Runs a command as under an engine's filter of system calls: no namespace can be made, nothing mounted. What
 * depends on arguments in memory isn't there, so that the C library falls back.
 *
 *   without-namespaces COMMAND [ARGUMENT ...]
 */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <unistd.h>

#define NAMESPACES                                                                                           \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |            \
     CLONE_NEWNET)

static const int refused[] = {SCMP_SYS(unshare),    SCMP_SYS(setns),      SCMP_SYS(mount),
                              SCMP_SYS(umount2),    SCMP_SYS(pivot_root), SCMP_SYS(fsopen),
                              SCMP_SYS(move_mount), SCMP_SYS(open_tree)};

static int shut_in(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int failed = filter ? 0 : -1;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]) && !failed; i++)
        failed = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
    for (unsigned flag = 1; flag && !failed; flag <<= 1)
        if (flag & NAMESPACES)
            failed = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                      SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
    if (!failed)
        failed = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return failed ? failed : seccomp_load(filter);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: without-namespaces COMMAND [ARGUMENT ...]\n");
        return 2;
    }
    if (shut_in() != 0) {
        printf("skipped: no filter can be set\n");
        return 77;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 127;
}
