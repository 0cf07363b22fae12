/* Computers of hosted providers, at their fakes over TLS with some latency: how many requests a command and a
 * computer take, which is what counts over a line as long as that to a provider, and what is ours beside.
 *
 * Each fake is one of our own: see beside.c. It tells what came in at FAKE_ADMIN (tests/fakes). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/mem.h"
#include "bench.h"
#include "measure.h"
#include "net/http.h"

#define TOOL "terminal_execute"
#define COMMAND_TRUE "{\"command\":\"true\",\"computer_id\":\"bench\"}"
#define LATENCY "20"
#define LATENCY_MS 20.0
#define ASK_SECONDS 60.0
#define END_SECONDS 60.0
#define CREATES 10
#define FAKE_BODY (64 * MIB)

struct cloud {
    const char *name, *options; /* of the fake */
    const char *flags[5];       /* of the server */
    int at_once;                /* computers */
    enum figure_id warm, wall, create, cpu, parallel;
};
static const struct cloud clouds[] = {
    {"e2b", "", {NULL}, 200, E2B_WARM, E2B_WARM_WALL, E2B_CREATE, E2B_CPU, E2B_PARALLEL},
    {"fly",
     "--app app --no-rate-limits",
     {"--fly-app", "app", "--fly-rate", "1000", NULL},
     40,
     FLY_WARM,
     FLY_WARM_WALL,
     FLY_CREATE,
     FLY_CPU,
     FLY_PARALLEL},
    {"modal", "", {NULL}, 200, MODAL_WARM, MODAL_WARM_WALL, MODAL_CREATE, MODAL_CPU, MODAL_PARALLEL},
};

static void start_server(const struct bench *b, const struct cloud *c, struct subject *ret)
{
    const char *const *f = c->flags;
    const char *const args[] = {"--backend",   c->name,      "--lifecycle-tools",
                                "--state-dir", b->state_dir, "--max-concurrent",
                                "512",         f[0],         f[1],
                                f[2],          f[3],         NULL};
    subject_start(ret, b->server, args);
}

/* How many requests have come in so far. */
static size_t requests_so_far(struct http_client *fake)
{
    struct error err = ERROR_INIT;
    _cleanup_(http_response_done) struct http_response r = {0};
    const struct http_request ask = {.method = "GET",
                                     .path = "/requests",
                                     .max_body = FAKE_BODY,
                                     .wait = {.deadline = clock_deadline_after(ASK_SECONDS)}};
    if (http_do(fake, &ask, &r, &err) < 0)
        die("the fake doesn't tell: %s", err.msg);
    _cleanup_(cleanup_json_decref) json_t *all = json_parse(buf_str(&r.body), r.body.len, NULL);
    if (!json_is_array(all))
        die("the fake tells nonsense: %.200s", buf_str(&r.body));
    return json_array_size(all);
}

static void measure_warm(struct bench *b, const struct cloud *c, struct subject *s, struct http_client *fake)
{
    struct series warm = {0};
    subject_do(s, TOOL, COMMAND_TRUE);
    const size_t before = requests_so_far(fake);
    const double cpu = subject_cpu_ms(s);
    for (size_t i = 0; i < b->runs; i++)
        series_add(&warm, subject_call(s, TOOL, COMMAND_TRUE, false));
    const double runs = (double)b->runs;
    figure_set(b, c->cpu, (subject_cpu_ms(s) - cpu) / runs, b->runs);
    figure_set(b, c->warm, (double)(requests_so_far(fake) - before) / runs, b->runs);
    figure_set_ratio(b, c->wall, series_median(&warm), LATENCY_MS, b->runs);
    series_done(&warm);
}

static void measure_creates(struct bench *b, const struct cloud *c, struct subject *s,
                            struct http_client *fake)
{
    struct series one = {0};
    const size_t before = requests_so_far(fake);
    for (int i = 0; i < CREATES; i++)
        series_add(&one, subject_call(s, "computer_create", "{}", false));
    figure_set(b, c->create, (double)(requests_so_far(fake) - before) / CREATES, CREATES);
    const double all = subject_calls(s, "computer_create", "{}", c->at_once);
    figure_set_ratio(b, c->parallel, all, series_median(&one), 1);
    series_done(&one);
}

/* Beside the fake. */
static void measure(struct bench *b, const struct cloud *c)
{
    struct error err = ERROR_INIT;
    struct subject s;
    const char *ca = getenv("FAKE_CA"), *admin = getenv("FAKE_ADMIN");
    if (!ca || !admin || setenv("SSL_CERT_FILE", ca, 1) < 0)
        die("the fake is none over TLS");
    struct http_client *fake = http_client_new(&(struct http_address){.url = admin}, &err);
    if (!fake)
        die("%s: %s", admin, err.msg);
    start_server(b, c, &s);
    measure_warm(b, c, &s, fake);
    measure_creates(b, c, &s, fake);
    (void)subject_end(&s, END_SECONDS);
    http_client_free(fake);
}

void stage_clouds(struct bench *b)
{
    const char *beside = getenv("PROVIDER");
    for (int id = E2B_WARM; geteuid() != 0 && id <= MODAL_PARALLEL; id++)
        b->figures[id].note = FAKES_NEED_ROOT;
    for (size_t i = 0; i < ARRAY_LEN(clouds) && geteuid() == 0; i++) {
        const struct cloud *c = &clouds[i];
        _cleanup_(cleanup_free) char *options = xasprintf("--tls --latency " LATENCY " %s", c->options);
        if (beside && strcmp(beside, c->name) == 0)
            measure(b, c);
        else if (!beside)
            bench_beside_fake(b, c->name, options, "clouds", c->warm, c->parallel);
    }
}
