/* The Python program at the fakes of hosted providers, beside ours: a command in a computer that is there
 * already, and many at once. Both are at the same fake, over TLS with the latency of a provider, in
 * alternation.
 *
 * A command is one round trip of ours at each. The Python program takes one at E2B, too, so that the times
 * there can't differ by more than what each does beside that; at Modal it takes three. Of many at once it
 * does one after the other, and ours is held up by the fake, which has one thread.
 *
 * Fly is not among them: there the Python program has its work done by flyctl. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/mem.h"
#include "bench.h"
#include "measure.h"

#define TOOL "terminal_execute"
#define COMMAND_TRUE "{\"command\":\"true\"}"
#define LATENCY "20"
#define END_SECONDS 60.0
#define AT_ONCE 32
#define ROUNDS 5

struct cloud_peer {
    const char *name, *options;              /* of the fake */
    const char *const theirs[5];             /* arguments of the Python program */
    enum figure_id wall, processor, at_once; /* in this order */
};
static const struct cloud_peer peers[] = {
    {"e2b", "", {"--backend", "e2b", NULL}, E2B_PYTHON_WALL, E2B_PYTHON_CPU, E2B_PYTHON_AT_ONCE},
    /* It refuses its own default image without a description, and has Python packages put into it. */
    {"modal",
     "--skip 'pip|apt-get|requirements'",
     {"--backend", "modal", "--tool-instruction-override", "a shell", NULL},
     MODAL_PYTHON_WALL,
     MODAL_PYTHON_CPU,
     MODAL_PYTHON_AT_ONCE},
};

/* Calls one by one, and what of the processor they have taken. */
struct side {
    struct subject subject;
    struct series wall, at_once;
    double cpu;
};

static void side_begin(struct side *s, const char *program, const char *const *args)
{
    *s = (struct side){.cpu = 0};
    subject_start(&s->subject, program, args);
    (void)subject_call(&s->subject, TOOL, COMMAND_TRUE, true);
    s->cpu = subject_cpu_ms(&s->subject);
}

static void side_call(struct side *s)
{
    series_add(&s->wall, subject_call(&s->subject, TOOL, COMMAND_TRUE, false));
}

/* The calls so far were all. */
static void side_count(struct side *s)
{
    s->cpu = (subject_cpu_ms(&s->subject) - s->cpu) / (double)s->wall.count;
}

static void side_calls(struct side *s)
{
    series_add(&s->at_once, subject_calls(&s->subject, TOOL, COMMAND_TRUE, AT_ONCE));
}

static void side_done(struct side *s)
{
    (void)subject_end(&s->subject, END_SECONDS);
    series_done(&s->wall);
    series_done(&s->at_once);
}

/* Beside the fake. */
static void measure(struct bench *b, const struct cloud_peer *p)
{
    const char *const ours[] = {"--backend", p->name, "--state-dir", b->state_dir, NULL};
    struct side their_side, our_side;
    const char *ca = getenv("FAKE_CA");
    if (!ca || setenv("SSL_CERT_FILE", ca, 1) < 0 || setenv("PYTHONPATH", PEER_TRUST, 1) < 0)
        die("the fake is none over TLS");
    side_begin(&their_side, peer_python(), p->theirs);
    side_begin(&our_side, b->server, ours);
    for (size_t i = 0; i < b->runs; i++) {
        side_call(&their_side);
        side_call(&our_side);
    }
    side_count(&their_side);
    side_count(&our_side);
    for (int i = 0; i < ROUNDS; i++) {
        side_calls(&their_side);
        side_calls(&our_side);
    }
    figure_set_ratio(b, p->wall, series_median(&their_side.wall), series_median(&our_side.wall), b->runs);
    figure_set_ratio(b, p->processor, their_side.cpu, our_side.cpu, b->runs);
    figure_set_ratio(b, p->at_once, series_median(&their_side.at_once), series_median(&our_side.at_once),
                     ROUNDS);
    side_done(&their_side);
    side_done(&our_side);
}

void stage_cloud_peers(struct bench *b)
{
    const char *beside = getenv("PROVIDER");
    const char *why = !peer_python() ? PEER_PYTHON_ABSENT : geteuid() != 0 ? FAKES_NEED_ROOT : NULL;
    for (size_t i = 0; i < ARRAY_LEN(peers); i++) {
        const struct cloud_peer *p = &peers[i];
        if (why) {
            for (unsigned id = p->wall; id <= p->at_once; id++)
                b->figures[id].note = why;
        } else if (beside && strcmp(beside, p->name) == 0) {
            measure(b, p);
        } else if (!beside) {
            _cleanup_(cleanup_free) char *options = xasprintf("--tls --latency " LATENCY " %s", p->options);
            bench_beside_fake(b, p->name, options, "cloud_peers", p->wall, p->at_once);
        }
    }
}
