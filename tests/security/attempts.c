/* What hostile code tries, and the refusal that it must get. In the environment: $P the prober (prober.c),
 * $SECRET a file of the host, $SECRET_DIR its folder, $STATE the server's state directory, $SOCKET, $ABSTRACT
 * and $PORT listeners of the host. The computer "victim" has files and processes named victim, and listens on
 * the abstract socket "victim" and on port 7777. Where success would harm the machine that runs the suite,
 * the attempt is made such that it stops short of it. */
#include "attempts.h"

#include "base/macros.h"

#define REFUSED ": (EPERM|EACCES|ENOSYS)\n"
#define UNREADABLE "open: (EPERM|EACCES|ENOENT|ENOSYS)\n"
#define READ_ONLY "Read-only file system|Permission denied|Operation not permitted"
#define NO_FAMILY ": (EPERM|EACCES|ENOSYS|EAFNOSUPPORT|EPROTONOSUPPORT|ESOCKTNOSUPPORT)\n"
#define NOTHING "^0\nexit"
#define NO_SPACE_NAMES "((fd|full|null|ptmx|pts|random|shm|stderr|stdin|stdout|tty|urandom|zero)\n)+"

/* clang-format off */
/* A call into a folder that is a link to the host's half of the time. */
#define IN_RACE {"races", "pwd -P; cat secret; touch ESCAPED-from-the-race", "race/dir|not exist|No such|can't|cannot", \
                 .arguments = "{'working_directory': '/tmp/race/dir'}"}
/* A call into a folder that is moved all the time, by a path that leads out of it again. */
#define IN_MOVED {"races", "pwd -P; cat ../../..$SECRET; cat $SECRET", "No such|not exist|can't|cannot", \
                  .arguments = "{'working_directory': '/tmp/moved/in/../../../..'}"}
/* The program that begins commands is asked to begin itself. */
#define AS_SERVER(words) {"beginning", NULL, "exit=", .arguments = "{'args': [" words "], 'timeout': 1}"}
#define AS_SERVER_5(words) AS_SERVER(words), AS_SERVER(words), AS_SERVER(words), AS_SERVER(words), AS_SERVER(words)
#define AS_SERVER_10(words) AS_SERVER_5(words), AS_SERVER_5(words)
/* More output than a result holds. */
#define FLOOD(group) {group, "head -c 2000000 /dev/zero | tr '\\0' x", "exit=0"}

const struct attempt attempts[] = {
    /* init is the one process of ours inside: all of it is closed, and it can't be hurt */
    {"proc", "$P open /proc/1/environ r", UNREADABLE},
    {"proc", "$P open /proc/1/mem r; $P open /proc/1/mem w", UNREADABLE UNREADABLE},
    {"proc", "$P open /proc/1/maps r", UNREADABLE},
    {"proc", "$P open /proc/1/auxv r", UNREADABLE},
    {"proc", "$P open /proc/1/syscall r", UNREADABLE},
    {"proc", "ls /proc/1/fd", "Permission denied"},
    {"proc", "ls /proc/1/map_files", "Permission denied"},
    {"proc", "$P open /proc/1/exe r; $P open /proc/1/exe w", UNREADABLE UNREADABLE},
    {"proc", "readlink /proc/1/exe || echo hidden", "^hidden\n"},
    {"proc", "ls /proc/1/root/", "Permission denied"},
    {"proc", "cd /proc/1/cwd", "Permission denied"},
    {"proc", "ls /proc/1/task/1/fd", "Permission denied"},
    {"proc", "$P open /proc/1/ns/mnt r; $P open /proc/1/ns/net r; $P open /proc/1/ns/user r",
             UNREADABLE UNREADABLE UNREADABLE},
    {"proc", "$P call ptrace 16 1 0 0; $P call ptrace 0x4206 1 0 0", "ptrace" REFUSED "ptrace" REFUSED},
    {"proc", "$P call process_vm_readv 1 @16 0 @16 0 0", "process_vm_readv: (EPERM|ENOSYS|0)\n"},
    {"proc", "$P call process_vm_readv 1 \"$P\" 1 \"$P\" 1 0", "process_vm_readv: (EPERM|EACCES|ENOSYS|EINVAL|EFAULT)\n"},
    {"proc", "f=$($P call pidfd_open 1 0); $P call pidfd_getfd 3 0 0", "pidfd_getfd: (EPERM|ENOSYS|EBADF)\n"},
    {"proc", "for s in $(seq 1 64); do kill -$s 1; done 2>/dev/null; echo sent", "^sent\n"},
    {"proc", "kill -9 -1; echo sent", "sent|exit=137"},

    /* the rest of /proc shows this computer only, and changes nothing of the kernel */
    {"proc", "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'host-[c]anary'", NOTHING},
    {"proc", "ls -d /proc/[0-9]* | wc -l", "^[1-9]\n"},
    /* A root that is no overlay is a folder of the machine's, whose name the kernel tells. */
    {"proc", "grep -v ' [^ ]*/native/root / ' /proc/self/mountinfo | grep -c \"$STATE\\|$SECRET_DIR\"", NOTHING},
    {"proc", "grep -c \"$STATE\\|$SECRET_DIR\" /proc/self/mountstats", NOTHING},
    {"proc", "for f in kernel/core_pattern kernel/panic kernel/modprobe kernel/hostname vm/drop_caches net/ipv4/ip_forward; do"
             " echo 1 >/proc/sys/$f && echo ESCAPED; done", READ_ONLY},
    {"proc", "for f in kernel/poweroff_cmd kernel/hotplug kernel/usermodehelper/bset kernel/sysrq kernel/pid_max kernel/ns_last_pid"
             " kernel/yama/ptrace_scope kernel/seccomp/actions_logged kernel/tainted vm/overcommit_memory vm/panic_on_oom fs/file-max"
             " fs/suid_dumpable fs/protected_symlinks fs/binfmt_misc/register user/max_user_namespaces net/core/bpf_jit_enable; do"
             " [ -e /proc/sys/$f ] && echo 1 >/proc/sys/$f && echo ESCAPED; done; echo tried", "tried\n"},
    {"proc", "sysctl -w kernel.core_pattern='|/tmp/x'", "permission denied|Read-only|not found"},
    {"proc", "echo x >/proc/self/attr/exec; echo x >/proc/self/attr/keycreate; echo x >/proc/thread-self/attr/current",
             "(Invalid argument|Permission denied|Operation not permitted|No such file)"},
    {"proc", "mv /proc /p; rmdir /proc; rm -rf /proc/sysrq-trigger; mv /proc/sys /tmp/s", "(busy|Read-only|not permitted|cross-device|denied)"},
    {"proc", "for p in /proc/[0-9]*; do [ $(stat -c %u $p) -lt 65535 ] || echo ESCAPED $p; done; echo looked", "looked\n"},
    {"proc", "for i in $(seq 300); do : >/proc/sysrq-trigger; cat /proc/kcore; done 2>&1 | grep -vc 'Read-only\\|denied\\|No such'", NOTHING},
    {"proc", "$P open /proc/sysrq-trigger w", "open: (EPERM|EACCES|EROFS|ENOENT)\n"},
    {"proc", "cat /proc/kcore 2>&1 | head -c 4 | tr -d '\\0' | grep -c ELF", NOTHING},
    {"proc", "cat /proc/kmsg | wc -c", NOTHING},
    {"proc", "for f in keys key-users timer_list sched_debug interrupts vmallocinfo slabinfo pagetypeinfo kpageflags kpagecount;"
             " do head -c 64 /proc/$f; done 2>/dev/null | tr -d '0 \\n-' | grep -c '^..........*'", NOTHING},
    {"proc", "grep -vc '^ *0*-0* :' /proc/iomem", "^0\n|No such file|Permission denied"},
    {"proc", "grep -vc '^0000000000000000' /proc/kallsyms || true", "^0\n|No such file|Permission denied"},
    {"proc", "for f in /proc/irq /proc/bus /proc/fs /proc/asound /proc/acpi /proc/scsi; do"
             " [ -e $f ] && touch $f/x && echo ESCAPED; done; echo tried", "tried\n"},
    {"proc", "echo -1000 >/proc/self/oom_score_adj", "Permission denied|Operation not permitted"},
    {"proc", "echo '0 0 1' >/proc/self/uid_map", "Operation not permitted|Permission denied"},
    {"proc", "echo x >/proc/self/exe", "Read-only file system|Text file busy|Permission denied"},
    {"proc", "tr '\\0' '\\n' </proc/self/environ | grep -c '^SERVER_TOKEN='", NOTHING},

    {"sys", "ls -A /sys | wc -l", NOTHING},
    {"sys", "ls -A /sys/fs/cgroup /sys/kernel/debug /sys/firmware", "No such file"},
    {"sys", "grep -c cgroup /proc/self/mounts", NOTHING},
    {"sys", "grep -vcE '^[0-9]+:[^:]*:/(e[0-9]+)?$' /proc/self/cgroup", NOTHING},
    {"sys", "find / -xdev -name cgroup.procs -o -xdev -name release_agent -o -xdev -name uevent_helper | wc -l", NOTHING},

    {"sys", "unshare -UrmC sh -c 'mount -t cgroup -o rdma c /mnt && echo ESCAPED'", "Operation not permitted|not implemented"},
    {"sys", "$P call mount c /mnt cgroup 0 none,name=x; $P call mount d /mnt debugfs 0 0; $P call mount s /mnt securityfs 0 0;"
            " $P call mount b /mnt bpf 0 0; $P call mount t /mnt tracefs 0 0", "(mount" REFUSED "){5}"},
    {"sys", "echo '|/tmp/x' >/sys/kernel/uevent_helper; echo 1 >/sys/fs/cgroup/release_agent", "(No such file|Permission denied|Read-only)"},

    {"devices", "ls /dev", "^" NO_SPACE_NAMES "exit=0"},
    {"devices", "find /dev -type b | wc -l", NOTHING},
    {"devices", "find /dev -type c ! -path '/dev/pts/*' | wc -l", "^[067]\n"}, /* 0: each lies on a file */
    {"devices", "$P call mknodat -100 /tmp/disk 0060660 0x800", "mknodat" REFUSED},
    {"devices", "$P call mknodat -100 /tmp/mem 0020660 0x101", "mknodat" REFUSED},
    {"devices", "$P call mknodat -100 /dev/shm/kmsg 0020660 0x10b", "mknodat" REFUSED},
    {"devices", "mknod /tmp/m b 8 0", "Operation not permitted|Permission denied"},
    {"devices", "echo x >/dev/ESCAPED", READ_ONLY},
    {"devices", "rm -f /dev/null; chmod 000 /dev/zero", READ_ONLY},
    {"devices", "echo test >/dev/tty", "No such device"},
    {"devices", "$P terminal 0x5412; $P terminal 0x100005412; $P terminal 0x541c", "(terminal: EPERM\n){3}"},
    {"devices", "$P terminal 0x5423; $P terminal 0xff00000000005423", "(terminal: EPERM\n){2}"},
    {"devices", "mknod /tmp/whiteout c 0 0 && echo ESCAPED", "Permission denied|Operation not permitted"},
    {"devices", "ls /dev/console /dev/rtc /dev/ptp0 /dev/vsock /dev/ppp /dev/uinput /dev/input /dev/dri /dev/snd 2>&1 | grep -vc 'No such file'", NOTHING},
    {"devices", "rmdir /dev/pts; mv /dev /d; ln -sfn /proc/sys /dev/pts", "(busy|" READ_ONLY ")"},
    {"devices", "for d in mem kmem port kmsg sda vda loop0 loop-control fuse kvm net/tun mapper/control vhost-vsock; do"
                " [ -e /dev/$d ] && echo ESCAPED; done; echo none", "^none\n"},

    {"mounts", "$P call mount none /mnt tmpfs 0 0", "mount" REFUSED},
    {"mounts", "$P call mount proc /mnt proc 0 0; $P call mount sys /mnt sysfs 0 0", "mount" REFUSED "mount" REFUSED},
    {"mounts", "$P call mount c /mnt cgroup 0 memory; $P call mount c /mnt cgroup2 0 0", "mount" REFUSED "mount" REFUSED},
    {"mounts", "$P call mount o /mnt overlay 0 lowerdir=/,upperdir=/tmp,workdir=/root", "mount" REFUSED},
    {"mounts", "$P call mount f /mnt fuse 0 fd=0; $P call mount d /mnt devpts 0 0", "mount" REFUSED "mount" REFUSED},
    {"mounts", "$P call mount /dev/sda /mnt ext4 0 0; $P call mount b /mnt binfmt_misc 0 0", "mount" REFUSED "mount" REFUSED},
    {"mounts", "$P call mount / /mnt none 0x1000 0", "mount" REFUSED},
    {"mounts", "$P call mount none /usr none 0x20 0; $P call mount none /usr none 0x1020 0", "mount" REFUSED "mount" REFUSED},
    {"mounts", "$P call mount none /proc/sys none 0x1020 0; $P call mount none / none 0x1020 0", "mount" REFUSED "mount" REFUSED},
    {"mounts", "$P call mount /proc /mnt none 0x2000 0", "mount" REFUSED},
    {"mounts", "$P call mount none / none 0x104000 0", "mount" REFUSED},
    {"mounts", "$P call umount2 /proc/sys 2; $P call umount2 /usr 2; $P call umount2 / 2",
               "umount2" REFUSED "umount2" REFUSED "umount2" REFUSED},
    {"mounts", "$P call pivot_root . .; $P call pivot_root / /mnt", "pivot_root" REFUSED "pivot_root" REFUSED},
    {"mounts", "$P call fsopen tmpfs 0; $P call fsconfig 3 6 0 0 0; $P call fsmount 3 0 0; $P call fspick -100 / 0",
               "fsopen" REFUSED "fsconfig" REFUSED "fsmount" REFUSED "fspick" REFUSED},
    {"mounts", "$P call open_tree -100 / 1; $P call move_mount -100 / -100 /mnt 0", "open_tree" REFUSED "move_mount" REFUSED},
    {"mounts", "$P call mount_setattr -100 /usr 0 @32 32; $P call 467 -100 / 1 @32 32", "mount_setattr" REFUSED "467: (EPERM|ENOSYS)\n"},
    {"mounts", "$P call 457 @64 @64 64 0; $P call 458 @64 @64 8 0", "457: (EPERM|ENOSYS)\n458: (EPERM|ENOSYS)\n"},
    {"mounts", "mount -t tmpfs none /mnt", "permission denied|Operation not permitted|must be superuser"},
    {"mounts", "echo x >/usr/bin/ESCAPED", "Read-only file system", .toolbox = true},
    {"mounts", "$P call open_by_handle_at -100 @64 0; $P call name_to_handle_at -100 / @128 @8 0",
               "open_by_handle_at" REFUSED "name_to_handle_at" REFUSED},
    {"mounts", "$P chroot-escape $SECRET", "open: ENOENT\n"},
    {"mounts", "$P call swapon /tmp/x 0; $P call swapoff /tmp/x; $P call quotactl 0 0 0 0; $P call acct /tmp/x",
               "swapon" REFUSED "swapoff" REFUSED "quotactl" REFUSED "acct" REFUSED},

    {"namespaces", "for f in 0x20000 0x2000000 0x4000000 0x8000000 0x10000000 0x20000000 0x40000000 0x80;"
                   " do $P call unshare $f; done | grep -vc ' \\(EPERM\\|ENOSYS\\)$'", NOTHING},
    {"namespaces", "for f in 0x20000 0x2000000 0x4000000 0x8000000 0x10000000 0x20000000 0x40000000;"
                   " do $P call clone $((f | 17)) 0 0 0 0; done | grep -vc ' \\(EPERM\\|ENOSYS\\)$'", NOTHING},
    {"namespaces", "$P call clone 0xffffffff10000011 0 0 0 0", "clone" REFUSED},
    {"namespaces", "for b in $(seq 0 63); do $P ask clone $((1 << b | 17)); done | grep -c EPERM", "^7\n"},
    {"namespaces", "$P clone3 0x10000000; $P clone3 0", "clone3: ENOSYS\nclone3: ENOSYS\n"},
    {"namespaces", "exec 3</proc/self/ns/user; $P call setns 3 0; $P call setns 3 0x10000000", "setns" REFUSED "setns" REFUSED},
    {"namespaces", "unshare -Ur true", "Operation not permitted|Function not implemented"},
    {"namespaces", "nsenter -t 1 -m true", "Permission denied|Operation not permitted"},
    {"namespaces", "$P call sethostname evil 4; $P call setdomainname evil 4", "sethostname" REFUSED "setdomainname" REFUSED},

    {"computers", "ls -R /root /home /tmp /var /run /opt /srv /mnt | grep -c victim", NOTHING},
    {"computers", "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[v]ictim'", NOTHING},
    {"computers", "$P connect-unix victim", "connect: ECONNREFUSED\n"},
    {"computers", "$P connect-tcp 127.0.0.1 7777", "connect: ECONNREFUSED\n"},
    {"computers", "ls -A /dev/shm /dev/mqueue 2>/dev/null | grep -c victim", NOTHING},
    {"computers", "tail -n +2 /proc/sysvipc/shm | wc -l", NOTHING},
    {"computers", "for p in $(seq 2 4000); do kill -9 $p; done 2>/dev/null; echo done", "done|exit=137"},
    {"computers", "find / -xdev -path '*computers*' | wc -l; ls /state /base", "^0\n.*No such file.*No such file"},

    {"sockets", "$P connect-unix \"$ABSTRACT\"", "connect: ECONNREFUSED\n"},
    {"sockets", "$P connect-unix $SOCKET", "connect: ENOENT\n"},
    {"sockets", "$P connect-tcp 127.0.0.1 $PORT", "connect: ECONNREFUSED\n"},
    {"sockets", "for a in 169.254.169.254 8.8.8.8 10.0.0.1 172.17.0.1 192.168.0.1; do $P connect-tcp $a 80; done | sort -u",
                "^connect: ENETUNREACH\nexit"},
    {"sockets", "for s in docker podman/podman containerd/containerd dbus/system_bus_socket systemd/private; do"
                " ls /run/$s* /var/run/$s* && echo ESCAPED; done 2>/dev/null; echo none", "^none\n"},
    {"sockets", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "^lo\nexit"},
    {"sockets", "tail -n +2 /proc/net/route | wc -l", NOTHING},
    {"sockets", "grep -c '@' /proc/net/unix", NOTHING},
    {"sockets", "$P call socket 40 1 0; $P call socket 0x100000028 1 0; $P call socket 38 5 0",
                "socket" NO_FAMILY "socket" NO_FAMILY "socket" NO_FAMILY},
    {"sockets", "$P call socket 17 3 0x300; $P call socket 17 2 0", "socket" NO_FAMILY "socket" NO_FAMILY},
    {"sockets", "for n in 4 5 6 9 10 12 15 16 20 21; do $P call socket 16 3 $n; done | grep -c 'socket: [0-9]'", NOTHING},
    {"sockets", "for f in $(seq 0 45); do $P ask socket $f 1 0; done | grep -c 'let through'", "^4\n"},
    {"sockets", "for p in $(seq 0 262); do $P ask socket 2 1 $p; done | grep -c 'let through'", "^5\n"},
    {"sockets", "for t in $(seq 0 15); do $P ask socket 10 $((t | 0x80800)) 0; done | grep -c 'let through'", "^4\n"},
    {"sockets", "$P call socket 2 1 132; $P call socket 2 5 0; $P call socket 2 6 33; $P call socket 2 1 262; $P call socket 10 2 136",
                "(socket: (EPROTONOSUPPORT|ESOCKTNOSUPPORT)\n){5}"},
    {"sockets", "$P call socket 2 3 255; $P call socket 2 3 1; $P call socket 10 3 58", "(socket: (EPERM|EPROTONOSUPPORT)\n){3}"},
    {"sockets", "for o in 64 65 66 96 97 98 128; do $P sockopt 0 $o; done | grep -vc 'EPERM\\|errno 92'", NOTHING},
    {"sockets", "ip link add d0 type dummy || ip link set lo down || ip addr add 192.0.2.1/24 dev lo || ip route add default dev lo && echo ESCAPED",
                "Operation not permitted|not found"},
    {"sockets", "for a in 127.0.0.53 127.255.255.254 0.0.0.0; do $P connect-tcp $a $PORT; done | sort -u", "^connect: ECONNREFUSED\nexit"},
    {"sockets", "for f in 3 4 5 9 21 24 26 29 30 31 32 36 37 39 41 42 43 44 45; do $P call socket $f 2 0; $P call socket $f 3 1; done"
                " | grep -c 'socket: [0-9]'", NOTHING},

    {"descriptors", "ls /proc/self/fd", "^0\n1\n2\n3\nexit=0"},
    {"descriptors", "for f in 0 1 2; do readlink /proc/self/fd/$f; done", "^/dev/null\npipe:.*\npipe:.*\nexit=0"},
    {"descriptors", "pwd -P; cd /proc/self/cwd/../../../../../..; pwd -P; cat $SECRET", "^/.*\n/\n.*No such file"},
    {"descriptors", "for n in $(seq 3 64); do cat /proc/self/fd/$n/etc/shadow /proc/self/fd/$n/../../etc/shadow && echo ESCAPED; done"
                    " 2>/dev/null; echo none", "^none\n"},
    {"descriptors", "cat /etc/shadow", "No such file", .toolbox = true},
    {"descriptors", "cat $SECRET; ls $SECRET_DIR $STATE", "No such file.*No such file.*No such file"},
    {"descriptors", "tr '\\0' '\\n' </proc/$PPID/environ", "Permission denied|^exit|No such file"},

    {"kernel", "$P call bpf 0 @128 128; $P call perf_event_open @128 0 -1 -1 0", "bpf" REFUSED "perf_event_open" REFUSED},
    {"kernel", "$P call userfaultfd 0; $P call userfaultfd 1", "userfaultfd" REFUSED "userfaultfd" REFUSED},
    {"kernel", "$P call io_uring_setup 1 @128; $P call io_uring_enter 3 0 0 0 0; $P call io_uring_register 3 0 0 0",
               "io_uring_setup" REFUSED "io_uring_enter" REFUSED "io_uring_register" REFUSED},
    {"kernel", "$P call keyctl 0 -3 0; $P call add_key user x y 1 -3; $P call request_key user x 0 -3",
               "keyctl" REFUSED "add_key" REFUSED "request_key" REFUSED},
    {"kernel", "$P call kexec_load 0 0 0 0; $P call kexec_file_load -1 -1 0 0 0", "kexec_load" REFUSED "kexec_file_load" REFUSED},
    {"kernel", "$P call init_module 0 0 x; $P call finit_module -1 x 0; $P call delete_module x 0",
               "init_module" REFUSED "finit_module" REFUSED "delete_module" REFUSED},
    {"kernel", "$P call reboot 0xfee1dead 672274793 0", "reboot" REFUSED},
    {"kernel", "$P call clock_settime 0 xxxxxxxxxxxxxxxx; $P call settimeofday xxxxxxxxxxxxxxxx 0",
               "clock_settime" REFUSED "settimeofday" REFUSED},
    {"kernel", "$P call adjtimex @256; $P call clock_adjtime 0 @256", "adjtimex" REFUSED "clock_adjtime" REFUSED},
    {"kernel", "$P call personality 0x0400000; $P call personality 0x4", "personality" REFUSED "personality" REFUSED},
    {"kernel", "$P call kcmp 1 1 0 0 0; $P call process_madvise 3 @16 1 0 0", "kcmp" REFUSED "process_madvise" REFUSED},
    {"kernel", "$P call syslog 3 @256 256; $P call vhangup; $P call fanotify_init 0 0", "syslog" REFUSED "vhangup" REFUSED "fanotify_init" REFUSED},
    {"kernel", "$P call move_pages 1 0 0 0 0 0; $P call migrate_pages 1 8 @8 @8; $P call mbind 0 0 0 0 0 0; $P call set_mempolicy 0 0 0",
               "move_pages" REFUSED "migrate_pages" REFUSED "mbind" REFUSED "set_mempolicy" REFUSED},
    {"kernel", "$P call vmsplice 1 @16 1 0; $P call lookup_dcookie 0 @16 16; $P call nfsservctl 0 0 0",
               "vmsplice" REFUSED "lookup_dcookie" REFUSED "nfsservctl" REFUSED},
    {"kernel", "$P call setpriority 0 0 -20", "setpriority" REFUSED},
    {"kernel", "ulimit -r; ulimit -e; chrt -f 1 true", "^0\n0\n.*not permitted"},
    {"kernel", "for k in -1 -2 -3 -4 -5 -6 -7 -8 1 12345; do $P call keyctl 0 $k 1; $P call keyctl 6 $k; $P call keyctl 11 $k; done | grep -vc EPERM", NOTHING},
    {"kernel", "cat /proc/keys /proc/key-users | wc -c", NOTHING},
    {"kernel", "date -s 2001-01-01; date +%Y", "Operation not permitted"},
    {"kernel", "for c in 0 1 4 7 9 11; do $P call clock_settime $c xxxxxxxxxxxxxxxx; $P call clock_adjtime $c @256; done | grep -vc EPERM", NOTHING},
    {"kernel", "$P ask pipe2 0 0x80; $P ask pipe2 0 0x80880", "(pipe2: errno 65\n){2}"},
    {"kernel", "f=$(find /usr -xdev -type f -size +4k -perm -o+r | head -1); $P overwrite pipe $f; $P overwrite memory $f", "^(overwrite: unchanged\n){2}"},
    {"kernel", "$P call fsopen ext4 0; $P call fsopen cgroup2 0; $P call fsconfig 3 1 AAAAAAAAAAAAAAAAAAAAAAAAAAAA BBBBBBBBBBBBBBBB 0",
               "fsopen" REFUSED "fsopen" REFUSED "fsconfig" REFUSED},
    {"kernel", "$P call prlimit64 1 7 @16 0; $P call prlimit64 0x100000001 0 @16 0", "(prlimit64: EPERM\n){2}"},
    {"kernel", "for f in 0 0x8 0x40000 0xffffffff 0x0400000 0x0200000 0x100000 0x8000000 0x1000000 0x3; do $P ask personality $f; done | grep -c 'let through'", "^4\n"},
    {"kernel", "insmod /tmp/x.ko; modprobe dummy", "not permitted|not found|could not|ERROR|FATAL"},
#ifdef __x86_64__
    {"kernel", "$P call iopl 3; $P call ioperm 0x60 1 1; $P call uselib x; $P call ustat 0 @64; $P call sysfs 3",
               "iopl" REFUSED "ioperm" REFUSED "uselib" REFUSED "ustat" REFUSED "sysfs" REFUSED},
    {"kernel", "$P call 0x400000a5 none /mnt tmpfs 0 0; $P call 0x40000110 0x10000000", "0x400000a5: ENOSYS\n0x40000110: ENOSYS\n"},
    {"kernel", "$P compat 466", "^compat: 0\n"},
#endif

    {"privilege", "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status", "NoNewPrivs:\t1\nSeccomp:\t2\n"},
    {"privilege", "b=$((0x$(awk '/^CapBnd/{print $2}' /proc/self/status)));"
                  " for c in 12 16 17 19 20 21 22 23 24 25 27 34 37 38 39 40; do [ $((b >> c & 1)) = 1 ] && echo ESCAPED $c; done; echo none",
                  "^none\n"},
    {"privilege", "[ $(awk '{n += $3} END {print n}' /proc/self/uid_map) = 1 ] && echo 1000; cp /usr/bin/id /tmp/suid; chmod 4755 /tmp/suid; setpriv --reuid 1000 --clear-groups /tmp/suid -u", "^1000\n"},
    {"privilege", "cd /tmp && bash -c 'kill -SEGV $$'; bash -c 'kill -QUIT $$'; ls -d core* /var/lib/systemd/coredump /var/crash", "No such file.*No such file.*No such file"},
    {"privilege", "cp /bin/bash /root/setuid; chown 0:0 /root/setuid; chmod 6755 /root/setuid; stat -c '%a %u' /root/setuid", "^6755 0\n"},
    {"privilege", "capsh --addamb=cap_sys_admin -- -c 'echo ESCAPED'; setpriv --ambient-caps +sys_admin --inh-caps +sys_admin echo ESCAPED",
                  "not permitted|not found|unable|disabled"},
    {"privilege", "cp /bin/true /tmp/caps && setcap cap_sys_admin+ep /tmp/caps && /tmp/caps && echo ran", "ran\n|not permitted|not found|denied"},
    {"privilege", "ulimit -c; ulimit -c unlimited", "^0\n.*(cannot modify|Operation not permitted)"},
    {"privilege", "ulimit -Hn; ulimit -n 1048576", "^[0-9]+\n.*(cannot modify|Operation not permitted|Invalid)"},
    {"privilege", "awk '{print ($3 <= 65536 && ($2 > 0 || $3 == 1)) ? \"mapped\" : \"ESCAPED\"}' /proc/self/uid_map /proc/self/gid_map", "^mapped\nmapped\n"},
    {"privilege", "stat -c %u /usr/bin/true /proc/kcore", "^65534\n", .toolbox = true},

    /* how a command is begun: its working directory and its program are the client's to name, and hostile code
     * decides what these names mean */
    {"beginning", "pwd -P; cat secret; ls ..", "outside|not exist|No such|can't|cannot", .arguments = "{'working_directory': '/proc/self/fd/3'}"},
    {"beginning", "pwd -P", "not exist|No such|can't|cannot", .arguments = "{'working_directory': '/proc/self/fd/4/../..'}"},
    {"beginning", "pwd -P", "not exist|No such|can't|cannot", .arguments = "{'working_directory': '/proc/self/fd/5'}"},
    {"beginning", "pwd -P", "not exist|No such|can't|cannot", .arguments = "{'working_directory': '/proc/self/fd/6'}"},
    {"beginning", "pwd -P", "not exist|No such|can't|cannot", .arguments = "{'working_directory': '/proc/self/fd/7'}"},
    {"beginning", "pwd -P", "not exist|No such|can't|cannot", .arguments = "{'working_directory': '/proc/self/fd/8'}"},
    {"beginning", "pwd -P", "not exist|No such|can't|cannot", .arguments = "{'working_directory': '/proc/self/fd/9'}"},
    {"beginning", "pwd -P", "not exist|No such|can't|cannot", .arguments = "{'working_directory': '/dev/fd/10'}"},
    {"beginning", "pwd -P; cat $SECRET", "^/\n.*No such file|denied|can't", .arguments = "{'working_directory': '/proc/1/root'}"},
    {"beginning", "pwd -P; cat $SECRET", "^/\n.*No such file|denied|can't", .arguments = "{'working_directory': '/proc/1/cwd'}"},
    {"beginning", "pwd -P; cat $SECRET", "^/\n.*No such file", .arguments = "{'working_directory': '/proc/self/root/../..'}"},
    {"beginning", NULL, "exit=126", .arguments = "{'args': ['/proc/1/exe']}"},
    {"beginning", NULL, "exit=127", .arguments = "{'args': ['/proc/self/fd/5']}"},
    {"beginning", "printf '#!/proc/self/exe\n' >/tmp/script && chmod 755 /tmp/script && ($P programs /tmp/enough /tmp/seen >/tmp/programs 2>&1 &); echo begun", "^begun\n"},
    AS_SERVER_10("'/proc/self/exe'"), AS_SERVER_10("'/proc/self/exe', 'serve'"), AS_SERVER_10("'/tmp/script'"), AS_SERVER_10("'/tmp/script', 'serve'"),
    {"beginning", NULL, "exit=", .arguments = "{'args': ['/proc/self/exe', 'serve'], 'timeout': 1}", .until = "/tmp/seen"},
    {"beginning", "touch /tmp/enough; until [ -s /tmp/programs ]; do sleep 0.02; done; cat /tmp/programs", "^programs: (by one processor [0-9]+|[1-9][0-9]*) seen, 0 written\n"},

    /* names that change their meaning while the server, by init, uses them */
    {"races", "mkdir -p /tmp/race/dir && ln -s $SECRET_DIR /tmp/race/link && ($P swap /tmp/race/dir /tmp/race/link 5 >/dev/null &); echo begun", "^begun\n"},
    IN_RACE, IN_RACE, IN_RACE, IN_RACE, IN_RACE, IN_RACE, IN_RACE, IN_RACE, IN_RACE, IN_RACE,
    {"races", "mkdir -p /tmp/command-output && ln -s $SECRET_DIR /tmp/elsewhere && ($P swap /tmp/command-output /tmp/elsewhere 4 >/tmp/swapped &); echo begun", "^begun\n"},
    FLOOD("races"), FLOOD("races"), FLOOD("races"), FLOOD("races"), FLOOD("races"), FLOOD("races"),
    {"races", "($P newborn /tmp/grown >/tmp/newborn 2>&1 &); echo begun", "^begun\n"},
    {"races", "true", "^exit=0"}, {"races", "id -u", "^0\n"}, {"races", "ls / >/dev/null", "^exit=0"}, {"races", "sleep 0.2", "^exit=0"},
    {"races", NULL, "^exit=0", .arguments = "{'args': ['true']}"}, {"races", NULL, "^exit=0", .arguments = "{'args': ['/bin/true']}"},
    {"races", NULL, "^x\n", .arguments = "{'args': ['cat'], 'stdin': 'x\\n'}"},
    {"races", "touch /tmp/grown; until [ -s /tmp/newborn ] && [ -s /tmp/swapped ]; do sleep 0.02; done; cat /tmp/newborn", "^newborn: [1-9][0-9]* looks"},
    {"races", "mkdir -p /tmp/m/a/b/c /tmp/n && cd /tmp/m/a/b/c && mv /tmp/m/a/b /tmp/n/ && cd ../../../../../.. && pwd -P; cat .$SECRET", "^/\n.*No such file"},
    {"races", "mkdir -p /tmp/gone/in && cd /tmp/gone/in && rm -r /tmp/gone; cat ../../..$SECRET; cd ..; ls; cat .$SECRET", "No such file"},
    {"races", "mkdir -p /tmp/moved/in && (while :; do mv /tmp/moved /tmp/away; mv /tmp/away /tmp/moved; done 2>/dev/null & sleep 3; kill $!) >/dev/null 2>&1 & echo begun", "^begun\n"},
    IN_MOVED, IN_MOVED, IN_MOVED, IN_MOVED, IN_MOVED, IN_MOVED, IN_MOVED, IN_MOVED,

    /* where output that is too long goes */
    {"spool", "rm -rf /tmp/command-output; ln -s $SECRET_DIR /tmp/command-output", "^exit=0"}, FLOOD("spool"),
    {"spool", "rm -rf /tmp/command-output; ln -s /proc/self/fd /tmp/command-output", "^exit=0"}, FLOOD("spool"),
    {"spool", "rm -rf /tmp/command-output; ln -s /proc/self/cwd/../.. /tmp/command-output", "^exit=0"}, FLOOD("spool"),
    {"spool", "rm -rf /tmp/command-output /dev/shm/o; ln -s /dev/shm/o /tmp/command-output", "^exit=0"}, FLOOD("spool"),
    {"spool", "rm -rf /tmp/command-output; mkfifo /tmp/command-output", "^exit=0"}, FLOOD("spool"),
    {"spool", "rm -rf /tmp/command-output; mkdir -m 000 /tmp/command-output; chown 1:1 /tmp/command-output", "^exit=0"}, FLOOD("spool"),
    {"spool", "rm -rf /tmp/command-output; ln -s /tmp/command-output /tmp/command-output", "^exit=0"}, FLOOD("spool"),
    {"spool", "until rm -rf /tmp 2>/dev/null; do sleep 0.1; done; ln -s /dev/pts /tmp", "^exit=0"}, FLOOD("spool"),
    {"spool", "rm -f /tmp; ln -s /proc/self/fd/0 /tmp", "^exit=0"}, FLOOD("spool"),
    {"spool", "rm -f /tmp; mkdir -m 1777 /tmp; truncate -s 1G /tmp/huge; echo back", "^back\n"}, FLOOD("spool"),

    /* what its writable layer may hold when somebody else walks or removes it */
    {"files", "ln -s $SECRET_DIR /root/link; ln -s / /root/root; ln -s ../../../../../../../.. /up; ln -s $SECRET_DIR /computers;"
              " ls /root/link/; ls /up/ | grep -c '^proc$'", "No such file|^1\n"},
    {"files", "ln /usr/bin/true /root/true", "cross-device|Operation not permitted", .toolbox = true},
    {"files", "mkdir -p /tmp/deep && cd /tmp/deep && $P deep-tree 3000", "depth: 3000\n"},
    {"files", "truncate -s 1T /tmp/sparse; stat -c %b /tmp/sparse", "^[0-8]\n|File too large"},
    {"files", "mkdir /tmp/many && cd /tmp/many && seq 1 5000 | xargs touch && mkfifo fifo && touch -- '-rf' '...' $'\\n' $'\\xff' && ls | wc -l",
              "^500[0-9]\n"},
    {"files", "mkdir -p /tmp/closed/in && touch /tmp/closed/in/file && chmod 000 /tmp/closed/in /tmp/closed && chown -R 1000:1000 /tmp/closed; echo made",
              "made\n"},
    {"files", "chattr +i /tmp/sparse", "Operation not permitted|not supported|not found"},
    {"files", "$P call setxattr /tmp/many trusted.overlay.opaque y 1 0; $P call setxattr /tmp/many user.overlay.redirect /../.. 6 0",
              "setxattr" REFUSED "setxattr: (EPERM|EACCES|EOPNOTSUPP|0)\n"},
    {"files", "rm -rf /var/tmp && ln -s $SECRET_DIR /var/tmp && head -c 5000000 /dev/zero | tr '\\0' x", "exit=0"},
    {"files", "ln -sfn $SECRET_DIR /etc/passwd; rm -f /etc/resolv.conf; ln -s /proc/1/environ /etc/resolv.conf; echo made", "made\n"},

    {"fillers", "mkdir /tmp/fill && cd /tmp/fill && head -c 300M /dev/zero >big; ls -s big | cut -d' ' -f2", "big"},
    {"fillers", "cd /tmp/fill && for d in $(seq 20); do mkdir d$d && (cd d$d && seq 500 | xargs touch); done; find . | wc -l", "[0-9]+\n"},
    {"fillers", "cd /tmp/fill && touch one && for i in $(seq 2000); do ln one link$i || break; done; ls | wc -l", "[0-9]+\n"},
    {"fillers", "cd /dev/shm && for i in $(seq 20000); do : >f$i || break; done; rm -f /dev/shm/f*", "No space left|Too many|not found|exit=0"},
    {"fillers", "fallocate -l 64M /tmp/fill/all; fallocate -l 8T /dev/shm/all; rm -f /dev/shm/all", "(No space|too large|not supported|Killed|not permitted|Invalid|exceeded)"},
    {"fillers", "df -i / >/dev/null; rm -rf /tmp/fill; echo room", "room\n"},

    {"resources", "$P fork-all; while :; do :; done", "fork: (EAGAIN|ENOMEM)\n.*exit=124", 2},
    {"resources", ":(){ :|:& };:; while :; do :; done", "exit=(124|254|1)\n|fork", 2},
    {"resources", "$P fork-all stop; while :; do :; done", "fork: (EAGAIN|ENOMEM)\n.*exit=124", 2},
    {"resources", "kill -STOP $$; echo ESCAPED", "exit=124", 1},
    {"resources", "trap '' TERM INT HUP PIPE XCPU; setsid bash -c 'trap \"\" TERM; while :; do :; done' & while :; do :; done", "exit=124", 1},
    {"resources", "tail /dev/zero", "exit=137|memory exhausted"},
    {"resources", "head -c 2G /dev/zero >/dev/shm/full; rm -f /dev/shm/full", "No space left|exit=137|Killed"},
    {"resources", "f=0; while [ $f -lt 100000 ] && exec {x}</dev/null; do f=$((f + 1)); done", "Too many open files"},
    {"resources", "i=0; while :; do i=$((i + 1)); (exec sleep 100) >/dev/null 2>&1 & done", "exit=(124|254|1)\n|fork|Resource", 2},

    {"output", "exec >&- 2>&-; sleep 0.1", "^exit=0"},
    {"output", "exec >&- 2>&-; while :; do :; done", "exit=124", 1},
    {"output", "yes", "exit=124", 1},
    {"output", "yes >/proc/self/fd/1 & yes >&2 & yes >/dev/stderr & wait", "exit=124", 1},
    {"output", "cat /proc/self/fd/1", "exit=124", 1},
    {"output", "sleep 30 </proc/self/fd/1 >/dev/null 2>&1 & echo left", "^left\n.*exit=0"},
    {"output", "dd if=/dev/zero of=/dev/stdout bs=1M count=200 status=none", "exit=0"},
    {"output", "head -c 3000000 /dev/zero | tr '\\0' '\\377'", "exit=0"},
    {"output", "for n in 1 2; do truncate -s 0 /proc/self/fd/$n; chmod 000 /proc/self/fd/$n; done; echo said", "said\n|exit="},
    {"output", "cat /dev/stdin | wc -c", NOTHING},
    {"output", "printf '\\033]0;title\\007\\033[2J{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\\n\\0\\r'", "jsonrpc"},

    {"system calls", "$P table", "numbers, [0-9]+ let through, 0 differ\n", 120},
    {"system calls", "$P sweep 0 600 0", "sweep: 601 numbers", 120},
    {"system calls", "$P sweep 0 600 -1", "sweep: 601 numbers", 120},
    {"system calls", "$P sweep 0 600 @", "sweep: 601 numbers", 120},
    {"system calls", "for seed in 1 2 3 4 5 6 7 8; do $P sweep 0 600 ~$seed; done | grep -c 'sweep: 601 numbers'", "^8\n", 120},
#ifdef __x86_64__
    {"system calls", "$P sweep 0x40000000 0x40000258 0; $P sweep 0x40000000 0x40000258 -1", "(sweep: 601 numbers, 0 ended.*){2}", 120},
#endif

    /* last, since what they take they keep: the suite then looks whether the host has still got its own */
    {"shares", "$P hoard aio 1", "^hoard: 0 some\n"},
    {"shares", "$P hoard terminals 4000", "^hoard: 256 some\n"},
    {"shares", "for i in 1 2 3 4; do $P hoard inotify 5000 hold & done >/dev/null 2>&1; echo held", "^held\n"},
    {"shares", "$P hoard timers 1000000 hold >/dev/null 2>&1 & echo held", "^held\n"},
    {"shares", "$P hoard queues 10000 hold >/dev/null 2>&1 & echo held", "^held\n"},
    {"shares", "$P hoard terminals 10000 hold >/dev/null 2>&1 & sleep 2; echo held", "^held\n"},
};
/* clang-format on */
const size_t attempt_count = ARRAY_LEN(attempts);
