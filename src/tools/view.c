/* The members of the Python program's list first, in its order; then ours, those that say something. */
#include "tools/view.h"

#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "tools/result.h"

#define CONTAINER_ID_CHARACTERS 64
#define SHORT_ID_CHARACTERS 12

static void write_text(struct json_writer *w, const char *key, const char *value)
{
    jw_key(w, key);
    jw_string(w, value);
}

static void write_time(struct json_writer *w, const char *key, int64_t wall)
{
    char text[CLOCK_RFC3339_SIZE];
    write_text(w, key, clock_rfc3339(wall, text));
}

/* Those of containers are cut as engines do it: they take them so. */
void view_write_sandbox_id(struct json_writer *w, const struct computer_view *v)
{
    const char *id = v->stat.provider_id;
    const size_t n = strlen(id), hex = strspn(id, "0123456789abcdef");
    jw_key(w, "sandbox_id");
    jw_string_n(w, id, hex == n && n == CONTAINER_ID_CHARACTERS ? SHORT_ID_CHARACTERS : n);
}

static void write_limits(struct json_writer *w, const struct instance_stat *s)
{
    const struct {
        const char *name;
        double value;
        enum computer_option option;
    } limits[] = {
        {"memory", (double)s->memory_limit, COMPUTER_MEMORY},
        {"pids", (double)s->pids_limit, COMPUTER_PIDS},
        {"cpu", s->cpus_limit, COMPUTER_CPUS},
        {"disk", (double)s->disk_limit, COMPUTER_DISK},
    };
    jw_key(w, "limits");
    jw_begin_object(w);
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        if (limits[i].value <= 0)
            continue;
        jw_key(w, limits[i].name);
        jw_begin_object(w);
        jw_key(w, "value");
        jw_real(w, limits[i].value);
        jw_key(w, "enforced");
        jw_bool(w, s->enforced & limits[i].option);
        jw_end_object(w);
    }
    jw_end_object(w);
}

static void write_commands(struct json_writer *w, const struct computer_view *v)
{
    size_t listed = v->running_count < COMMANDS_LISTED ? v->running_count : COMMANDS_LISTED;
    if (listed > 0) {
        jw_key(w, "running");
        jw_begin_array(w);
        for (size_t i = 0; i < listed; i++) {
            jw_begin_object(w);
            jw_key(w, "command");
            jw_integer(w, (int64_t)v->running[i].number);
            write_text(w, "text", v->running[i].text);
            write_time(w, "started_at", v->running[i].began);
            jw_end_object(w);
        }
        jw_end_array(w);
    }
    if (v->last.number > 0) {
        jw_key(w, "last_command");
        jw_begin_object(w);
        write_text(w, "text", v->last.text);
        jw_key(w, "exit_code");
        jw_integer(w, v->last.exit_code);
        jw_key(w, "duration_ms");
        jw_integer(w, v->last.duration_ns / NSEC_PER_MSEC);
        write_time(w, "ended_at", v->last.began + v->last.duration_ns);
        jw_end_object(w);
    }
}

static void write_metrics(struct json_writer *w, const struct instance_stat *s)
{
    jw_key(w, "metrics");
    jw_begin_object(w);
    jw_key(w, "cpu_ns");
    jw_integer(w, (int64_t)s->cpu_ns);
    jw_key(w, "memory_bytes");
    jw_integer(w, s->memory_bytes);
    jw_key(w, "pids");
    jw_integer(w, s->pids);
    if (s->disk_bytes >= 0) {
        jw_key(w, "disk_bytes");
        jw_integer(w, s->disk_bytes);
    }
    jw_end_object(w);
}

static void write_more(struct json_writer *w, const struct computer_view *v)
{
    if (v->last_used[0])
        write_text(w, "last_used", v->last_used);
    jw_key(w, "sessions");
    jw_integer(w, v->sessions);
    jw_key(w, "commands_running");
    jw_integer(w, (int64_t)v->running_count);
    if (v->has_stat) {
        jw_key(w, "network");
        jw_bool(w, v->stat.network);
        write_limits(w, &v->stat);
    }
    if (v->description[0])
        write_text(w, "description", v->description);
    if (result_write_expiry(w, v->expires_in_s))
        write_text(w, "on_expiry", v->expiry_deletes ? "delete" : "stop");
    if (v->elsewhere) {
        jw_key(w, "elsewhere");
        jw_bool(w, true);
    }
    if (v->paused) {
        jw_key(w, "paused");
        jw_bool(w, true);
    }
    if (v->reason[0])
        write_text(w, "reason", v->reason);
}

void view_write(struct json_writer *w, const struct computer_view *v)
{
    jw_begin_object(w);
    write_text(w, "computer_id", v->id);
    view_write_sandbox_id(w, v);
    write_text(w, "backend", v->backend);
    write_text(w, "state", computer_condition_name(v->condition));
    jw_key(w, "temporary");
    jw_bool(w, v->temporary);
    write_text(w, "image", v->stat.image);
    write_text(w, "created_at", v->created_at);
    write_more(w, v);
    write_commands(w, v);
    if (v->has_usage)
        write_metrics(w, &v->stat);
    jw_end_object(w);
}
