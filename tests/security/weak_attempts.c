/* What hostile code tries in a computer without namespaces (guest/weak.h), as attempts.c has it for the
 * others. Beside what is named there: $CANARY is a process of the host, of the user who runs the server. The
 * working directory is the computer's own; "victim" has a file and a process of that name. What ends the
 * computer itself is not held there, and not tried. */
#include "attempts.h"

#include "base/macros.h"

#define DENIED "(Permission denied|Operation not permitted|Read-only|No such file)"
#define NOTHING "^0\nexit"
#define CLOSED "open: (EPERM|EACCES|ENOENT)\n"
#define REFUSED ": (EPERM|EACCES|ENOSYS|ESRCH)\n"
#define NO_FAMILY ": (EAFNOSUPPORT|EPROTONOSUPPORT|EPERM)\n"
#define VICTIM "../../../victim/native/upper"
#define FLOOD "head -c 2000000 /dev/zero | tr '\\0' x"

/* clang-format off */
const struct attempt weak_attempts[] = {
    {"files", "cat $SECRET", DENIED},
    {"files", "cat /proc/self/root$SECRET; cat /proc/self/cwd/../../../../../../../../../..$SECRET; ln -s $SECRET l; cat l", "(" DENIED ".*\n?){2}.*" DENIED},
    {"files", "echo x >$SECRET; echo x >>$SECRET; truncate -s 0 $SECRET; : >$SECRET_DIR/ESCAPED; mkdir $SECRET_DIR/ESCAPED", "(" DENIED ".*\n?){5}"},
    {"files", "rm -f $SECRET; mv $SECRET stolen; ln $SECRET stolen; ln -s x $SECRET_DIR/ESCAPED; mkfifo $SECRET_DIR/ESCAPED; cat stolen",
              "(" DENIED "|cross-device)"},
    {"files", "touch mine; mv mine $SECRET; ln mine $SECRET_DIR/ESCAPED; cp mine $SECRET_DIR/ESCAPED", "(" DENIED "|cross-device)"},
#ifdef __x86_64__
    {"files", "$P call 76 $SECRET 0", "76" REFUSED}, /* truncate */
#endif
    {"files", "ls $SECRET_DIR", DENIED},
    {"files", "for d in / /tmp /var/tmp /root /home /run /var /opt /srv /mnt /etc /dev /sys /boot; do ls $d >/dev/null 2>&1 && echo ESCAPED $d; done; echo looked", "^looked\n"},
    {"files", "for f in /etc/shadow /etc/gshadow /etc/sudoers /etc/hosts /etc/fstab /root/.bashrc /etc/ssh/sshd_config; do head -c 1 $f >/dev/null 2>&1 && echo ESCAPED $f; done; echo looked", "^looked\n"},
    {"files", "for d in /tmp /var/tmp /dev/shm /usr/bin /usr/local/bin / /run; do : >$d/ESCAPED; mkdir $d/ESCAPED; done; echo tried", DENIED ".*tried\n|tried\n"},
    {"files", "ls -A $STATE; cat $STATE/computers/local/*/record.json", DENIED},
    {"files", "ls ..; ls ../..; ls ../../..; echo x >../ESCAPED; echo x >../../record.json", "(" DENIED ".*\n?){5}"},
    {"files", "$P call mknodat -100 disk 0060660 0x800; $P call mknodat -100 null 0020666 0x103", "(mknodat" REFUSED "){2}"},
    {"files", "cp /bin/true s; chmod 6755 s; ./s && stat -c %a s", "^6755\n"},

    {"computers", "cat " VICTIM "/victim; ls " VICTIM "; echo x >" VICTIM "/ESCAPED", "(" DENIED ".*\n?){3}"},
    {"computers", "for p in $(grep -lsa victim-[s]leep /proc/[0-9]*/cmdline | cut -d/ -f3); do kill -9 $p; kill -STOP $p; $P open /proc/$p/mem w; $P open /proc/$p/environ r; done;"
                  " echo tried", "tried\n"},
    {"computers", "for i in $(seq 200); do cat " VICTIM "/victim; done 2>&1 | grep -vc denied", NOTHING},

    {"processes", "$P open /proc/$CANARY/environ r; $P open /proc/$CANARY/mem w; $P open /proc/$CANARY/maps r; $P open /proc/$CANARY/auxv r", "(" CLOSED "){4}"},
    /* How many files it has open is its user's to see, which they are is not. */
    {"processes", "ls -l /proc/$CANARY/fd | grep -c -e '->'; ls /proc/$CANARY/root/; cd /proc/$CANARY/cwd", "^(ls: .*\n)*0\n(.*" DENIED ".*\n?){2}"},
    {"processes", "for p in /proc/[0-9]*; do cat $p/environ; done 2>/dev/null | tr '\\0' '\\n' | grep -c '^SERVER_TOKEN='", NOTHING},
    {"processes", "$P call ptrace 16 $CANARY 0 0; $P call ptrace 0x4206 $CANARY 0 0", "(ptrace" REFUSED "){2}"},
    {"processes", "$P call process_vm_readv $CANARY \"$P\" 1 \"$P\" 1 0", "process_vm_readv: (EPERM|EACCES|ENOSYS|EINVAL|EFAULT|ESRCH)\n"},
    {"processes", "kill -9 $CANARY; kill -STOP $CANARY; kill -TERM $CANARY", "(not permitted|No such process)"},
    {"processes", "kill -9 -1; $P call kill -1 9; $P call kill 0xffffffffffffffff 9", "(kill: EPERM\n){2}.*not permitted"},
    {"processes", "for s in $(seq 1 64); do kill -$s $CANARY; done 2>/dev/null; echo sent", "^sent\n"},
    {"processes", "$P call prlimit64 $CANARY 7 @16 0; $P call prlimit64 $CANARY 9 @16 0", "(prlimit64: EPERM\n){2}"},
    {"processes", "$P call setpriority 0 $CANARY 19; $P call setpriority 2 0 19", "(setpriority: EPERM\n){2}"},
    {"processes", "taskset -p 1 $CANARY; ionice -c 3 -p $CANARY", "(failed|not permitted|not found)"},
    {"processes", "f=$($P call pidfd_open $CANARY 0); $P call pidfd_getfd 3 0 0", "pidfd_getfd: (EPERM|ENOSYS|EBADF)\n"},
    {"processes", "echo 1000 >/proc/$CANARY/oom_score_adj; echo x >/proc/$CANARY/comm; echo -1000 >/proc/self/oom_score_adj", DENIED},

    {"sockets", "$P connect-unix \"$ABSTRACT\"; $P connect-unix $SOCKET; $P connect-tcp 127.0.0.1 $PORT; $P connect-tcp 169.254.169.254 80", "^(connect: EBADF\n){4}"},
    {"sockets", "for f in $(seq 0 45); do $P call socket $f 1 0; $P call socket $f 2 0; done | grep -c 'socket: [0-9]'", NOTHING},
    {"sockets", "for f in $(seq 0 45); do $P ask socket $f 1 0; done | grep -c 'let through'", NOTHING},
    {"sockets", "$P call socketpair 1 2 0 @8; $P call socketpair 1 3 0 @8; $P call socketpair 1 0x80802 0 @8; $P call socketpair 2 1 0 @8", "(socketpair" NO_FAMILY "){4}"},
    {"sockets", "$P call socketpair 1 1 0 @8; $P call socketpair 1 5 0 @8", "^(socketpair: 0\n){2}"},

    {"shares", "ipcmk -M 4096; ipcmk -Q; ipcmk -S 1", "(failed|not implemented)"},
    {"shares", "ls /dev/shm /dev/mqueue; echo x >/dev/shm/ESCAPED", DENIED},

    {"namespaces", "for f in 0x20000 0x2000000 0x4000000 0x8000000 0x10000000 0x20000000 0x40000000 0x80; do $P call unshare $f; done | grep -vc ' \\(EPERM\\|ENOSYS\\)$'", NOTHING},
    {"namespaces", "unshare -Ur true", "Operation not permitted|Function not implemented"},
    {"namespaces", "$P call clone $((0x10000000 | 17)) 0 0 0 0; $P clone3 0x10000000; $P clone3 0", "clone" REFUSED "(clone3: ENOSYS\n){2}"},
    {"namespaces", "$P call mount none . tmpfs 0 0; $P call fsopen tmpfs 0; $P call pivot_root . .; $P call open_tree -100 / 1", "mount" REFUSED "fsopen" REFUSED "pivot_root" REFUSED "open_tree" REFUSED},
    {"namespaces", "mkdir jail; $P call chroot jail", "chroot" REFUSED},
    {"namespaces", "exec 3</proc/self/ns/user; $P call setns 3 0", "setns" REFUSED},
    {"namespaces", "$P call sethostname evil 4", "sethostname" REFUSED},

    {"privilege", "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status", "NoNewPrivs:\t1\nSeccomp:\t2\n"},
    {"privilege", "grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | grep -vc 0000000000000000", NOTHING},
    {"privilege", "test $(id -u) != 0 && echo user", "^user\n"},
    {"privilege", "su -c id </dev/null; sudo -n id", "(must be run|Authentication|not found|failure|cannot|privileges|denied)"},
    {"privilege", "ulimit -c; ulimit -c unlimited", "^0\n.*(cannot modify|Operation not permitted)"},
    {"privilege", "bash -c 'kill -SEGV $$'; ls -d core*", "No such file"},

    {"kernel", "for k in -1 -2 -3 -4 -5; do $P call keyctl 0 $k 1; $P call keyctl 6 $k; done | grep -vc EPERM", NOTHING},
    {"kernel", "date -s 2001-01-01", "Operation not permitted"},
    {"kernel", "$P call io_uring_setup 1 @128; $P call bpf 0 0 0; $P call perf_event_open @128 0 -1 -1 0; $P call userfaultfd 0", "io_uring_setup" REFUSED "bpf" REFUSED "perf_event_open" REFUSED "userfaultfd" REFUSED},
    {"kernel", "$P terminal 0x5412", "ptmx: EACCES\n"},
    {"kernel", "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/hostname; do echo x >$f; done", "(" DENIED ".*\n?){3}"},
    {"kernel", "$P sweep 0 600 0; $P sweep 0 600 -1; $P sweep 0 600 @", "(sweep: 601 numbers.*\n){3}", 120},

    {"beginning", "pwd -P; cat secret", DENIED, .arguments = "{'working_directory': '/proc/self/fd/3'}"},
    {"beginning", "cat shadow; ls", DENIED, .arguments = "{'working_directory': '/etc'}"},
    {"beginning", NULL, "exit=(126|127|[0-9]+)", .arguments = "{'args': ['/proc/self/exe']}"},

    {"spool", "rm -rf tmp/command-output; ln -s $SECRET_DIR tmp/command-output", "^exit=0"}, {"spool", FLOOD, "exit=0"},
    {"spool", "rm -rf tmp; ln -s $SECRET_DIR tmp", "^exit=0"}, {"spool", FLOOD, "exit=0"},
    {"spool", "rm -rf tmp; mkdir tmp; echo back", "^back\n"}, {"spool", FLOOD, "exit=0"},
    {"races", "mkdir -p race/dir && ln -s $SECRET_DIR race/link && ($P swap race/dir race/link 3 >/dev/null &); for i in $(seq 300); do cat race/dir/secret; echo x >race/dir/ESCAPED; rm -f race/dir/ESCAPED; done 2>/dev/null; echo raced", "^raced\n"},

    {"resources", "$P fork-all; while :; do :; done", "fork: (EAGAIN|ENOMEM)\n.*exit=124", 2},
    {"resources", ":(){ :|:& };:; while :; do :; done", "exit=(124|254|1)\n|fork", 2},
    {"resources", "$P fork-all stop; while :; do :; done", "fork: (EAGAIN|ENOMEM)\n.*exit=124", 2},
    {"resources", "trap '' TERM INT HUP; setsid bash -c 'trap \"\" TERM; while :; do :; done' & while :; do :; done", "exit=124", 1},
    {"resources", "tail /dev/zero", "exit=137|memory exhausted"},
    {"resources", "kill -STOP $$; echo ESCAPED", "exit=124", 1},
};
/* clang-format on */
const size_t weak_attempt_count = ARRAY_LEN(weak_attempts);
