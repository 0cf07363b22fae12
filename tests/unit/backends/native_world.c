/* See native_world.h. Whatever fails here says why, then fails the case that asked. */
#include "native_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

struct world world = {
    .machine = {.host_root = "/",
                .proc = "/proc",
                .cgroup_files = {"/proc/self/cgroup", "/proc/self/mountinfo"}},
};

const struct wait for_ever = {.deadline = DEADLINE_NONE};

struct subject common;

void subject_name(struct subject *s, const char *id)
{
    struct error err = ERROR_INIT;
    snprintf(s->id, sizeof(s->id), "%s", id);
    random_hex(s->key, 8);
    snprintf(s->folder, sizeof(s->folder), "%s/computers/%s", world.state, id);
    assert_int_equal(dir_make(s->folder, 0711, &err), 0);
    s->spec = (struct computer_spec){
        .id = s->id, .principal = "local", .key = s->key, .folder = s->folder, .temporary = true};
}

void subject_create(struct subject *s, const char *id)
{
    struct error err = ERROR_INIT;
    subject_name(s, id);
    int failed = world.backend->ops->create(world.backend, &s->spec, &for_ever, &s->i, &err);
    if (failed)
        print_error("create: %s\n", err.msg);
    assert_int_equal(failed, 0);
}

void assert_no_trace(const struct subject *s)
{
    _cleanup_(cleanup_free) char *command = xasprintf(
        "find /sys/fs/cgroup -name '*%s*' -print -o -name 'mcp-sandbox-*' -prune 2>/dev/null | grep -q .",
        s->key);
    assert_int_not_equal(system(command), 0);
    _cleanup_(cleanup_free) char *files = xasprintf("test -z \"$(ls -A %s)\"", s->folder);
    assert_int_equal(system(files), 0);
}

void subject_remove(struct subject *s)
{
    struct error err = ERROR_INIT;
    int failed = world.backend->ops->remove(s->i, &err);
    if (failed)
        print_error("remove: %s\n", err.msg);
    assert_int_equal(failed, 0);
    assert_no_trace(s);
}

struct exec_request request(const char *command)
{
    return (struct exec_request){
        .command = command, .command_len = strlen(command), .output_limit = OUTPUT_LIMIT, .wait = for_ever};
}

int run_request(struct subject *s, const struct exec_request *r, struct exec_result *ret, struct error *err)
{
    *ret = (struct exec_result){0};
    int failed = world.backend->ops->exec(s->i, r, ret, err);
    if (failed && err->code == ERR_INTERNAL)
        print_error("exec: %s\n", err->msg);
    return failed;
}

void run_ok(struct subject *s, const struct exec_request *r, struct exec_result *ret)
{
    struct error err = ERROR_INIT;
    int failed = run_request(s, r, ret, &err);
    if (failed)
        print_error("exec: %s: %s\n", error_code_name(err.code), err.msg);
    assert_int_equal(failed, 0);
}

void run_command(struct subject *s, const char *command, struct exec_result *ret)
{
    struct exec_request r = request(command);
    run_ok(s, &r, ret);
}

void assert_output(struct subject *s, const char *command, const char *expected)
{
    struct exec_result r;
    run_command(s, command, &r);
    if (strcmp(buf_str(&r.out.head), expected) != 0)
        print_error("%s: stdout '%s', stderr '%s'\n", command, buf_str(&r.out.head), buf_str(&r.err.head));
    assert_string_equal(buf_str(&r.out.head), expected);
    exec_result_done(&r);
}

pid_t find_zygote(void)
{
    char command[64], line[32] = "";
    snprintf(command, sizeof(command), "pgrep -n -P %d sandbox-zygote", (int)getpid());
    FILE *found = popen(command, "r");
    assert_non_null(found);
    assert_non_null(fgets(line, sizeof(line), found));
    pclose(found);
    return (pid_t)atoi(line);
}
