/* Running commands in a computer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "harness.h"

static struct zygote zygote;
static struct computer computer;
static struct ended ended;

static int set_up(void **state)
{
    zygote = zygote_start(GUEST_ROOT_TOOLBOX);
    computer = computer_make(&zygote, "exec", have_cgroup2() ? GUEST_HAS_CGROUP2 : 0);
    return computer.error.stage[0] != 0;
}

static int tear_down(void **state)
{
    computer_end(&computer);
    zygote_stop(&zygote);
    return 0;
}

static void run(const char *const *argv)
{
    assert_true(command_run(&computer, &(struct command){.argv = argv}, &ended));
}

static void shell(const char *text)
{
    assert_true(shell_run(&computer, text, &ended));
    assert_int_equal(ended.record.stage, GUEST_STAGE_RAN);
}

static void expect_stage(uint32_t stage, int sys)
{
    assert_int_equal(ended.record.stage, stage);
    assert_int_equal(ended.record.sys, sys);
}

static void test_output_and_statuses_come_back(void **state)
{
    shell("echo out; echo err >&2; exit 5");
    assert_string_equal(ended.out, "out\n");
    assert_string_equal(ended.err, "err\n");
    assert_true(WIFEXITED(ended.record.wait_status));
    assert_int_equal(WEXITSTATUS(ended.record.wait_status), 5);
    shell("kill -9 $$");
    assert_true(WIFSIGNALED(ended.record.wait_status));
    assert_int_equal(WTERMSIG(ended.record.wait_status), SIGKILL);
}

static void test_what_can_not_run_is_told_apart(void **state)
{
    run((const char *const[]){"no-such-cmd", NULL});
    expect_stage(GUEST_STAGE_EXEC, ENOENT);
    run((const char *const[]){"/no/such/cmd", NULL});
    expect_stage(GUEST_STAGE_EXEC, ENOENT);
    run((const char *const[]){"/etc", NULL});
    expect_stage(GUEST_STAGE_EXEC, EACCES);
    run((const char *const[]){"", NULL});
    expect_stage(GUEST_STAGE_EXEC, ENOENT);
    shell("mkfifo -m 777 /tmp/fifo; touch /tmp/plain; ln -s loop /tmp/loop");
    run((const char *const[]){"/tmp/fifo", NULL});
    expect_stage(GUEST_STAGE_EXEC, EACCES);
    run((const char *const[]){"/tmp/plain", NULL});
    expect_stage(GUEST_STAGE_EXEC, EACCES);
    run((const char *const[]){"/tmp/loop", NULL});
    expect_stage(GUEST_STAGE_EXEC, ELOOP);
    run((const char *const[]){"true", NULL});
    expect_stage(GUEST_STAGE_RAN, 0);
}

static void test_the_path_of_the_environment_is_searched(void **state)
{
    shell("mkdir -p /tmp/a/tool /tmp/b /tmp/c; printf '#!/bin/sh\\necho b $1 $X' > /tmp/b/tool; chmod +x "
          "/tmp/b/tool;"
          "cp /tmp/b/tool /tmp/c/forbidden; chmod -x /tmp/c/forbidden");
    const char *const env[] = {"X=y", "PATH=/nowhere:/tmp/a:/etc/passwd::/tmp/b:/usr/bin", NULL};
    const char *const tool[] = {"tool", "arg", NULL}, *const here[] = {"hosts", NULL};
    assert_true(command_run(&computer, &(struct command){.argv = tool, .env = env}, &ended));
    assert_string_equal(ended.out, "b arg y\n");
    /* An empty element is the working directory. EACCES is remembered: ENOENT behind it doesn't hide it. */
    assert_true(command_run(&computer, &(struct command){.argv = here, .env = env, .cwd = "/etc"}, &ended));
    expect_stage(GUEST_STAGE_EXEC, EACCES);
    const char *const none[] = {NULL};
    assert_true(command_run(
        &computer, &(struct command){.argv = (const char *const[]){"true", NULL}, .env = none}, &ended));
    expect_stage(GUEST_STAGE_RAN, 0);
}

static void test_a_script_without_interpreter_is_run_by_the_shell(void **state)
{
    shell("printf 'echo \"$0 $1\"' > /tmp/script; chmod +x /tmp/script");
    run((const char *const[]){"/tmp/script", "arg", NULL});
    expect_stage(GUEST_STAGE_RAN, 0);
    assert_string_equal(ended.out, "/tmp/script arg\n");
}

static void test_environment_and_working_directory_are_those_given(void **state)
{
    const char *const argv[] = {"/bin/sh", "-c", "pwd; env | grep -v -e PWD= -e SHLVL= -e _=", NULL};
    const char *const env[] = {"A=1", "B=two words", NULL};
    assert_true(
        command_run(&computer, &(struct command){.argv = argv, .env = env, .cwd = "/var/tmp"}, &ended));
    assert_string_equal(ended.out, "/var/tmp\nA=1\nB=two words\n");
    assert_true(command_run(&computer, &(struct command){.argv = argv, .cwd = "/nope"}, &ended));
    expect_stage(GUEST_STAGE_CHDIR, ENOENT);
    assert_true(command_run(&computer, &(struct command){.argv = argv, .cwd = "/etc/passwd"}, &ended));
    expect_stage(GUEST_STAGE_CHDIR, ENOTDIR);
}

static void test_input_is_passed_and_absent_input_is_empty(void **state)
{
    const char *const cat[] = {"cat", NULL};
    assert_true(command_run(&computer, &(struct command){.argv = cat, .in = "some\ntext"}, &ended));
    assert_string_equal(ended.out, "some\ntext");
    assert_true(command_run(&computer, &(struct command){.argv = cat}, &ended));
    assert_string_equal(ended.out, "");
    assert_int_equal(ended.record.wait_status, 0);
}

static void test_a_long_body_travels_in_a_memfd(void **state)
{
    static char word[100000];
    memset(word, 'w', sizeof(word) - 1);
    const char *const argv[] = {"/bin/sh", "-c", "echo ${#1} ${#2}", "sh", word, word, NULL};
    assert_true(command_run(&computer, &(struct command){.argv = argv, .body_in_memfd = true}, &ended));
    assert_string_equal(ended.out, "99999 99999\n");
}

static void test_a_script_becomes_descriptor_3(void **state)
{
    const char *const argv[] = {"/bin/sh", "/proc/self/fd/3", NULL};
    assert_true(
        command_run(&computer, &(struct command){.argv = argv, .script = "echo from script"}, &ended));
    assert_string_equal(ended.out, "from script\n");
}

static void test_a_command_has_only_its_descriptors(void **state)
{
    static const char list[] = "for i in $(seq 0 255); do [ -L /proc/$$/fd/$i ] && echo -n $i; done";
    shell(list);
    assert_string_equal(ended.out, "012");
    const char *const argv[] = {"/bin/sh", "-c", list, NULL};
    assert_true(command_run(&computer, &(struct command){.argv = argv, .script = "x"}, &ended));
    assert_string_equal(ended.out, "0123");
}

static void test_a_command_starts_clean(void **state)
{
    shell("cat /proc/self/status > /tmp/status; grep -E '^Sig(Blk|Ign|Cgt)' /tmp/status; ulimit -n; ulimit "
          "-c; umask; cat "
          "/proc/self/oom_score_adj;"
          "ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && echo leader");
    assert_string_equal(ended.out,
                        "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n"
                        "1024\n0\n0022\n500\nleader\n");
    char text[16] = "", path[64];
    snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", computer.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    assert_true(atoi(text) < 500); /* init is the last to go */
}

static void test_the_record_does_not_wait_for_the_background(void **state)
{
    const char *const argv[] = {"/bin/sh", "-c", "sleep 1000 & echo $!", NULL};
    struct started started = command_start(&computer, &(struct command){.argv = argv});
    assert_true(command_end(&started, &ended));
    assert_int_equal(ended.record.wait_status, 0);
    char kill_it[64];
    snprintf(kill_it, sizeof(kill_it), "kill -0 %d && kill -9 %d", atoi(ended.out), atoi(ended.out));
    shell(kill_it);
    assert_int_equal(ended.record.wait_status, 0);
}

static void test_orphans_leave_no_zombies(void **state)
{
    shell("for i in 1 2 3 4 5; do (setsid -f true &) ; done");
    /* Each end of a command is a round of reaping; all are gone when no zombie is left. */
    for (int i = 0; i < 200; i++) {
        shell("grep -l '^State:.Z' /proc/[0-9]*/status | wc -l");
        if (strcmp(ended.out, "0\n") == 0)
            return;
    }
    fail_msg("zombies stay: %s", ended.out);
}

static void test_twenty_at_once(void **state)
{
    enum { COUNT = 20 };
    struct started started[COUNT];
    int gate[2];
    char up[3], newlines[COUNT];
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    for (int i = 0; i < COUNT; i++) {
        char text[64];
        snprintf(text, sizeof(text), "echo up; read x; exit %d", i);
        const char *const argv[] = {"/bin/sh", "-c", text, NULL};
        started[i] = command_start(&computer, &(struct command){.argv = argv, .in_fd = &gate[0]});
    }
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(read(started[i].out, up, sizeof(up)), sizeof(up));
    shell("echo one more"); /* while all wait */
    memset(newlines, '\n', sizeof(newlines));
    assert_int_equal(write(gate[1], newlines, sizeof(newlines)), sizeof(newlines));
    for (int i = 0; i < COUNT; i++) {
        assert_true(command_end(&started[i], &ended));
        assert_int_equal(WEXITSTATUS(ended.record.wait_status), i);
    }
    close(gate[0]);
    close(gate[1]);
}

static void send_exec(const struct guest_exec *exec, const char *body, size_t size, int fd_count)
{
    char packet[256];
    int fds[GUEST_FDS_MAX], status[2];
    assert_int_equal(pipe2(status, O_CLOEXEC), 0);
    for (int i = 0; i < fd_count; i++)
        fds[i] = status[1];
    memcpy(packet, exec, sizeof(*exec));
    memcpy(packet + sizeof(*exec), body, size);
    send_packet(computer.channel, packet, sizeof(*exec) + size, fds, (unsigned)fd_count);
    close(status[1]);
    memset(&ended, 0, sizeof(ended));
    assert_int_equal(read(status[0], &ended.record, sizeof(ended.record)), sizeof(ended.record));
    close(status[0]);
    assert_int_equal(ended.record.id, exec->id);
}

static void test_malformed_requests_are_refused_and_the_next_works(void **state)
{
    static const char body[] = "/\0true";
    const struct guest_exec good = {.type = GUEST_EXEC, .id = 7000, .argc = 1, .body_bytes = sizeof(body)};
    struct guest_exec bad = good;
    bad.argc = 2;
    send_exec(&bad, body, sizeof(body), 3);
    expect_stage(GUEST_STAGE_REQUEST, EINVAL);
    bad = good;
    bad.body_bytes = 3;
    send_exec(&bad, body, sizeof(body), 3);
    expect_stage(GUEST_STAGE_REQUEST, EINVAL);
    send_exec(&good, body, sizeof(body), 4);
    expect_stage(GUEST_STAGE_REQUEST, EINVAL);
    bad.flags = GUEST_EXEC_STDIN | GUEST_EXEC_BODY;
    send_exec(&bad, body, sizeof(body), 4);
    expect_stage(GUEST_STAGE_REQUEST, EINVAL);
    bad.flags = GUEST_EXEC_BODY; /* a pipe is no memfd */
    send_exec(&bad, body, sizeof(body), 4);
    expect_stage(GUEST_STAGE_REQUEST, EINVAL);
    for (size_t size = 1; size < 40; size++)
        send_packet(computer.channel,
                    "\5\0\0\0\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377"
                    "\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377",
                    size, NULL, 0);
    send_exec(&good, body, sizeof(body), 3);
    expect_stage(GUEST_STAGE_RAN, 0);
}

static void test_an_unsealed_body_is_refused(void **state)
{
    static const char body[] = "/\0true";
    const struct guest_exec exec = {
        .type = GUEST_EXEC, .id = 7100, .flags = GUEST_EXEC_BODY, .argc = 1, .body_bytes = sizeof(body)};
    int status[2], memfd = sealed_memfd("body", body, sizeof(body), F_SEAL_GROW);
    assert_int_equal(pipe2(status, O_CLOEXEC), 0);
    const int fds[] = {status[1], status[1], status[1], memfd};
    send_packet(computer.channel, &exec, sizeof(exec), fds, 4);
    close(status[1]);
    close(memfd);
    assert_int_equal(read(status[0], &ended.record, sizeof(ended.record)), sizeof(ended.record));
    close(status[0]);
    expect_stage(GUEST_STAGE_REQUEST, EINVAL);
}

static int open_file(const char *path, struct guest_opened *ret)
{
    struct guest_open request = {.type = GUEST_OPEN};
    int pair[2], fd;
    snprintf(request.path, sizeof(request.path), "%s", path);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    send_packet(computer.channel, &request, sizeof(request), &pair[1], 1);
    close(pair[1]);
    assert_true(receive_packet(pair[0], ret, sizeof(*ret), &fd));
    close(pair[0]);
    return fd;
}

static void test_a_file_is_made_for_the_server(void **state)
{
    struct guest_opened opened;
    int fd = open_file("/var/spool/a/b/output", &opened);
    assert_true(fd >= 0);
    assert_string_equal(opened.error.stage, "");
    assert_int_equal(write(fd, "spooled", 7), 7);
    char byte;
    assert_int_equal(read(fd, &byte, 1), -1);
    close(fd);
    shell("cat /var/spool/a/b/output; stat -c ' %a %u' /var/spool/a/b/output /var/spool/a");
    assert_string_equal(ended.out, "spooled 600 0\n 755 0\n");
    assert_int_equal(open_file("/var/spool/a/b/output", &opened), -1);
    assert_int_equal(opened.error.sys, EEXIST);
    shell("ln -s /tmp/target /tmp/link; mkfifo /tmp/pipe");
    assert_int_equal(open_file("/tmp/link", &opened), -1);
    assert_int_equal(opened.error.sys, EEXIST);
    assert_int_equal(open_file("/tmp/pipe", &opened), -1);
    assert_int_equal(open_file("/tmp/link/x", &opened), -1);
    assert_int_equal(open_file("/usr/x", &opened), -1);
    assert_int_equal(opened.error.sys, EROFS);
}

static void test_work_of_every_day(void **state)
{
    static const struct {
        const char *needs, *text, *output;
    } works[] = {
        {"/usr/bin/perl", "perl -e 'print 6*7'", "42"},
        {"/usr/bin/python3",
         "/usr/bin/python3 -c 'import subprocess,threading; "
         "print(subprocess.check_output([\"echo\",\"hi\"]))'",
         "b'hi\\n'\n"},
        {"/usr/bin/gcc", "cd /tmp && echo 'int main(void){return 7;}' > t.c && gcc t.c -o t && ./t; echo $?",
         "7\n"},
        {"/usr/bin/git",
         "export HOME=/root; cd /tmp && git init -q r && cd r && git config user.email a@b && git config "
         "user.name n && "
         "echo x > f && git add f && git commit -qm m && git log --format=%s",
         "m\n"},
        {"/usr/bin/node",
         "node -e 'new (require(\"worker_threads\").Worker)(\"console.log(1+1)\",{eval:true})'", "2\n"},
        {"/usr/bin/setpriv", "setpriv --reuid 65534 --regid 65534 --clear-groups id",
         "uid=65534(nobody) gid=65534(nogroup) groups=65534(nogroup)\n"},
        {"/usr/bin/script", "script -qc 'tty' /dev/null | tr -d '\\r'", "/dev/pts/0\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(works); i++) {
        if (access(works[i].needs, X_OK) < 0)
            continue;
        shell(works[i].text);
        assert_string_equal(ended.out, works[i].output);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_and_statuses_come_back),
        cmocka_unit_test(test_what_can_not_run_is_told_apart),
        cmocka_unit_test(test_the_path_of_the_environment_is_searched),
        cmocka_unit_test(test_a_script_without_interpreter_is_run_by_the_shell),
        cmocka_unit_test(test_environment_and_working_directory_are_those_given),
        cmocka_unit_test(test_input_is_passed_and_absent_input_is_empty),
        cmocka_unit_test(test_a_long_body_travels_in_a_memfd),
        cmocka_unit_test(test_a_script_becomes_descriptor_3),
        cmocka_unit_test(test_a_command_has_only_its_descriptors),
        cmocka_unit_test(test_a_command_starts_clean),
        cmocka_unit_test(test_the_record_does_not_wait_for_the_background),
        cmocka_unit_test(test_orphans_leave_no_zombies),
        cmocka_unit_test(test_twenty_at_once),
        cmocka_unit_test(test_malformed_requests_are_refused_and_the_next_works),
        cmocka_unit_test(test_an_unsealed_body_is_refused),
        cmocka_unit_test(test_a_file_is_made_for_the_server),
        cmocka_unit_test(test_work_of_every_day),
    };
    const char *obstacle = harness_obstacle();
    if (obstacle) {
        printf("skipped: %s\n", obstacle);
        return 77;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
