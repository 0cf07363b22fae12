/* The backend: its options, what it can do, and the words for the tool's description. */
#include "backends/modal/modal.h"

#include <stdlib.h>
#include <string.h>

#include "backends/modal/private.h"
#include "backends/provider.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

#define DEFAULT_IMAGE "debian:bookworm-slim"
#define DEFAULT_LIFETIME_S 3600
#define PROBE_TIMEOUT_NS (30 * NSEC_PER_SEC)

static int probe(struct backend *backend, const struct wait *wait, struct error *err)
{
    const struct wait bounded = wait_at_most(wait, clock_now() + PROBE_TIMEOUT_NS);
    return modal_account_check(modal_of(backend)->account, &bounded, err);
}

/* The image of those that have none of their own. */
static void warm(struct backend *backend, const struct wait *wait)
{
    struct modal_backend *b = modal_of(backend);
    const struct wait bounded = wait_at_most(wait, clock_now() + LIMIT_PULL_SECONDS * NSEC_PER_SEC);
    struct error kept = ERROR_INIT; /* the first call tells */
    char image[MODAL_ID_SIZE];
    (void)!modal_image_get(b->account, b->image, NULL, &bounded, image, &kept);
}

static unsigned capabilities(const struct backend *backend)
{
    (void)backend;
    return BACKEND_PERSISTENT | BACKEND_NETWORK | BACKEND_NETWORK_OFF | BACKEND_GUEST | BACKEND_LISTS_RUNNING;
}

static unsigned options_of(const struct backend *backend)
{
    (void)backend;
    return COMPUTER_IMAGE | COMPUTER_CPUS | COMPUTER_MEMORY | COMPUTER_NETWORK | COMPUTER_ENV;
}

static void describe(const struct backend *backend, struct backend_description *ret)
{
    const struct modal_backend *b = modal_of(backend);
    *ret = (struct backend_description){
        .environment = b->environment,
        .place = "as root, in the image's working directory",
        .shell = b->shell ? b->shell : "/bin/bash",
        .network = b->network ? "network access" : "no network (loopback only)",
        .limits = b->limits,
    };
}

static struct backend *backend_free(struct backend *backend)
{
    if (!backend)
        return NULL;
    struct modal_backend *b = modal_of(backend);
    keepers_done(&b->keepers);
    modal_account_free(b->account);
    free(b->image);
    free(b->shell);
    free(b->gpu);
    free(b->region);
    free(b->environment);
    free(b->limits);
    free(b);
    return NULL;
}

static const struct backend_ops ops = {
    .name = "modal",
    .ends_at_once = PROVIDER_ENDS_AT_ONCE,
    .create_seconds = CREATE_SECONDS + LIMIT_PULL_SECONDS,
    .probe = probe,
    .warm = warm,
    .capabilities = capabilities,
    .describe = describe,
    .find = modal_find,
    .list = modal_list,
    .create = modal_instance_create,
    .options = options_of,
    .restart = modal_instance_restart,
    .make_way = modal_instance_make_way,
    .take_over = modal_instance_take_over,
    .stat = modal_instance_stat,
    .attach = modal_instance_attach,
    .plan = modal_instance_plan,
    .record = modal_instance_record,
    .exec = modal_instance_exec,
    .alive = modal_instance_alive,
    .lost = modal_instance_lost,
    .kill = modal_instance_kill,
    .detach = modal_instance_detach,
    .remove = modal_instance_remove,
    .reap = modal_reap,
    .settle = modal_settle,
    .free = backend_free,
};

/* Messages have no other text than Unicode's. */
static int check_text(const char *what, const char *text, struct error *err)
{
    if (!text || utf8_valid(text, strlen(text)))
        return 0;
    return error_set(err, ERR_INVALID, "%s has bytes that are no UTF-8, which Modal can't be given", what);
}

static uint32_t lifetime_of(double seconds)
{
    if (seconds <= 0)
        return DEFAULT_LIFETIME_S;
    return seconds < MODAL_LIFETIME_MAX_S ? (uint32_t)(seconds + 0.999) : MODAL_LIFETIME_MAX_S;
}

struct backend *modal_new(const struct modal_options *o, struct error *err)
{
    if (check_text("--image", o->image, err) < 0 || check_text("--gpu", o->gpu, err) < 0 ||
        check_text("--region", o->region, err) < 0)
        return NULL;
    struct modal_backend *b = xcalloc(1, sizeof(*b));
    b->base.ops = &ops;
    b->account = modal_account_new(&o->account, err);
    b->image = xstrdup(o->image ? o->image : DEFAULT_IMAGE);
    b->shell = xstrdup(o->shell);
    b->gpu = xstrdup(o->gpu);
    b->region = xstrdup(o->region);
    b->cpus = o->cpus;
    b->memory_mib = o->memory_mib;
    b->lifetime_s = lifetime_of(o->lifetime_s);
    b->network = o->network;
    b->environment = xasprintf("an isolated Linux computer: a sandbox of Modal, of the image %s%s%s",
                               b->image, b->gpu ? ", with a GPU: " : "", b->gpu ? b->gpu : "");
    b->limits = xasprintf("%g CPU and %lld MiB of memory are reserved, which is no limit", b->cpus,
                          (long long)b->memory_mib);
    keepers_init(&b->keepers);
    modal_guest_path(b->guest);
    return b->account ? &b->base : backend_free(&b->base);
}
