/* Counters and histograms. Labels come from fixed sets (tools, names of errors, statuses), so that no client
 * makes them grow; principals are none, since there may be many and their names are their own. */
#include "metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/mem.h"

#define TOOLS_MAX 32 /* more than there are */

static const double BOUNDS[] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

struct tool_figures {
    char *name;
    uint64_t outcomes[ERR_CODE_COUNT];
    uint64_t buckets[ARRAY_LEN(BOUNDS) + 1];
    uint64_t duration_ns, reply_bytes;
};

struct metrics {
    struct tool_figures tools[TOOLS_MAX];
    size_t tool_count;
};

struct metrics *metrics_new(void)
{
    return xcalloc(1, sizeof(struct metrics));
}

struct metrics *metrics_free(struct metrics *m)
{
    if (!m)
        return NULL;
    for (size_t i = 0; i < m->tool_count; i++)
        free(m->tools[i].name);
    free(m);
    return NULL;
}

static struct tool_figures *figures_of(struct metrics *m, const char *tool)
{
    for (size_t i = 0; i < m->tool_count; i++)
        if (strcmp(m->tools[i].name, tool) == 0)
            return &m->tools[i];
    if (m->tool_count == TOOLS_MAX)
        return NULL;
    m->tools[m->tool_count].name = xstrdup(tool);
    return &m->tools[m->tool_count++];
}

void metrics_call(struct metrics *m, const struct call_report *report)
{
    struct tool_figures *f = figures_of(m, report->tool);
    size_t bucket = 0;
    if (!f)
        return;
    while (bucket < ARRAY_LEN(BOUNDS) && (double)report->duration_ns > BOUNDS[bucket] * NSEC_PER_SEC)
        bucket++;
    f->buckets[bucket]++;
    f->outcomes[report->outcome]++;
    f->duration_ns += (uint64_t)report->duration_ns;
    f->reply_bytes += report->reply_bytes;
}

/* -- The text. */

/* Appends until the first failure; what it wrote then doesn't matter. */
struct writer {
    struct buf *out;
    bool failed;
};

#define put(w, ...) ((w)->failed = (w)->failed || buf_printf((w)->out, __VA_ARGS__) < 0)

static void put_head(struct writer *w, const char *name, const char *type, const char *help)
{
    put(w, "# HELP sandbox_%s %s\n# TYPE sandbox_%s %s\n", name, help, name, type);
}

static void put_calls(struct writer *w, const struct metrics *m)
{
    put_head(w, "calls_total", "counter", "Tool calls that are over, by what came of them.");
    for (size_t i = 0; i < m->tool_count; i++)
        for (size_t code = 0; code < ERR_CODE_COUNT; code++)
            if (m->tools[i].outcomes[code] > 0)
                put(w, "sandbox_calls_total{tool=\"%s\",outcome=\"%s\"} %" PRIu64 "\n", m->tools[i].name,
                    code == ERR_NONE ? "ok" : error_code_name((enum error_code)code),
                    m->tools[i].outcomes[code]);
    put_head(w, "reply_bytes_total", "counter", "Bytes of the replies to tool calls.");
    for (size_t i = 0; i < m->tool_count; i++)
        put(w, "sandbox_reply_bytes_total{tool=\"%s\"} %" PRIu64 "\n", m->tools[i].name,
            m->tools[i].reply_bytes);
}

static void put_latency(struct writer *w, const struct metrics *m)
{
    put_head(w, "call_seconds", "histogram", "Duration of tool calls, with their time in the queue.");
    for (size_t i = 0; i < m->tool_count; i++) {
        const struct tool_figures *f = &m->tools[i];
        uint64_t sum = 0;
        for (size_t b = 0; b < ARRAY_LEN(BOUNDS); b++) {
            sum += f->buckets[b];
            put(w, "sandbox_call_seconds_bucket{tool=\"%s\",le=\"%g\"} %" PRIu64 "\n", f->name, BOUNDS[b],
                sum);
        }
        sum += f->buckets[ARRAY_LEN(BOUNDS)];
        put(w, "sandbox_call_seconds_bucket{tool=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", f->name, sum);
        put(w, "sandbox_call_seconds_sum{tool=\"%s\"} %.6f\n", f->name,
            (double)f->duration_ns / NSEC_PER_SEC);
        put(w, "sandbox_call_seconds_count{tool=\"%s\"} %" PRIu64 "\n", f->name, sum);
    }
}

static void put_now(struct writer *w, const struct computers_counts *computers,
                    const struct http_figures *http)
{
    put_head(w, "computers", "gauge", "Computers by state; those ahead are made and nobody's yet.");
    put(w, "sandbox_computers{state=\"creating\"} %d\n", computers->creating);
    put(w, "sandbox_computers{state=\"running\"} %d\n", computers->running);
    put(w, "sandbox_computers{state=\"ending\"} %d\n", computers->ending);
    put(w, "sandbox_computers{state=\"ahead\"} %d\n", computers->ahead);
    put_head(w, "calls_running", "gauge", "Tool calls that run or wait.");
    put(w, "sandbox_calls_running %d\n", http->running);
    put_head(w, "sessions", "gauge", "Sessions of the protocol versions that have them.");
    put(w, "sandbox_sessions %d\n", http->sessions);
    put_head(w, "event_streams", "gauge", "Open event streams.");
    put(w, "sandbox_event_streams %d\n", http->streams);
    put_head(w, "connections", "gauge", "Open connections.");
    put(w, "sandbox_connections %d\n", http->server.connections);
}

static void put_server(struct writer *w, const struct http_figures *http)
{
    const struct http_server_counts *c = &http->server;
    put_head(w, "connections_accepted_total", "counter", "Connections that were accepted.");
    put(w, "sandbox_connections_accepted_total %" PRIu64 "\n", c->accepted);
    put_head(w, "http_answers_total", "counter", "Answers by HTTP status.");
    for (int status = 0; status < HTTP_STATUSES; status++)
        if (http->answers[status] > 0)
            put(w, "sandbox_http_answers_total{status=\"%d\"} %" PRIu64 "\n", status, http->answers[status]);
    put_head(w, "rejects_total", "counter", "Requests that were refused or cut off, by reason.");
    put(w, "sandbox_rejects_total{reason=\"framing\"} %" PRIu64 "\n", c->refused_framing);
    put(w, "sandbox_rejects_total{reason=\"limit\"} %" PRIu64 "\n", c->refused_limit);
    put(w, "sandbox_rejects_total{reason=\"slow\"} %" PRIu64 "\n", c->cut_slow);
    put(w, "sandbox_rejects_total{reason=\"token\"} %" PRIu64 "\n", http->answers[401]);
    put(w, "sandbox_rejects_total{reason=\"host_or_origin\"} %" PRIu64 "\n", http->answers[403]);
}

int metrics_write(const struct metrics *m, const struct computers_counts *computers,
                  const struct http_figures *http, struct buf *ret)
{
    struct writer w = {.out = ret};
    put_calls(&w, m);
    put_latency(&w, m);
    put_now(&w, computers, http);
    put_server(&w, http);
    return w.failed ? -1 : 0;
}
