/* The backend: its options, what it can do, and the words for the tool's description. */
#include "backends/fly/fly.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fly/private.h"
#include "backends/native/image.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/utf8.h"

#define DEFAULT_IMAGE "debian:bookworm-slim"
#define DEFAULT_CPUS 1
#define DEFAULT_MEMORY_MB 512
#define DEFAULT_LEASE_S 1800
#define CREATE_SECONDS_MOST 180 /* an image may be new to the host that a machine comes to */

/* --- the table --- */

static int probe(struct backend *backend, const struct wait *wait, struct error *err)
{
    return fly_account_open(fly_of(backend)->account, wait, err);
}

static unsigned capabilities(const struct backend *backend)
{
    (void)backend;
    return BACKEND_PERSISTENT | BACKEND_NETWORK | BACKEND_GUEST;
}

static unsigned options_of(const struct backend *backend)
{
    (void)backend;
    return COMPUTER_IMAGE | COMPUTER_CPUS | COMPUTER_MEMORY | COMPUTER_DISK | COMPUTER_ENV;
}

static void describe(const struct backend *backend, struct backend_description *ret)
{
    const struct fly_backend *b = fly_of(backend);
    *ret = (struct backend_description){
        .environment = b->environment,
        .shell = b->shell ? b->shell : "/bin/bash",
        .network = "network access",
        .limits = b->limits,
        .limited_there = true,
    };
}

static struct backend *backend_free(struct backend *backend)
{
    if (!backend)
        return NULL;
    struct fly_backend *b = fly_of(backend);
    keepers_done(&b->keepers);
    fly_account_free(b->account);
    fly_queues_free(b->queues);
    fly_listing_done(&b->listing);
    free(b->region);
    free(b->shell);
    free(b->environment);
    free(b->limits);
    free(b);
    return NULL;
}

static const struct backend_ops ops = {
    .name = "fly",
    .ends_at_once = PROVIDER_ENDS_AT_ONCE,
    .create_seconds = CREATE_SECONDS_MOST,
    .probe = probe,
    .capabilities = capabilities,
    .describe = describe,
    .find = fly_find,
    .list = fly_list,
    .create = fly_instance_create,
    .options = options_of,
    .restart = fly_instance_restart,
    .take_over = fly_instance_take_over,
    .stat = fly_instance_stat,
    .attach = fly_instance_attach,
    .plan = fly_instance_plan,
    .record = fly_instance_record,
    .exec = fly_instance_exec,
    .alive = fly_instance_alive,
    .kill = fly_instance_kill,
    .detach = fly_instance_detach,
    .remove = fly_instance_remove,
    .reap = fly_reap,
    .settle = fly_settle,
    .free = backend_free,
};

/* --- making it --- */

/* JSON has no other bytes than those of Unicode text. */
static int check_text(const char *what, const char *text, struct error *err)
{
    if (text && (strlen(text) >= FLY_IMAGE_SIZE || !utf8_valid(text, strlen(text))))
        return error_set(err, ERR_INVALID, "%s is too long, or has bytes that are no UTF-8", what);
    return 0;
}

static void name_guest(struct fly_backend *b)
{
    char digest[SHA256_HEX_SIZE];
    sha256_hex(guest_image, guest_image_size, digest);
    snprintf(b->guest_name, sizeof(b->guest_name), "%.16s", digest);
}

static void say_what_it_is(struct fly_backend *b)
{
    const struct fly_shape *s = &b->shape;
    b->environment =
        xasprintf("an isolated Linux computer: a Fly machine (microVM) of the image %s", s->image);
    b->limits =
        xasprintf("%lld %s %s, %lld MB of memory", (long long)s->cpus, b->performance ? "whole" : "shared",
                  s->cpus == 1 ? "CPU" : "CPUs", (long long)s->memory_mb);
}

struct backend *fly_new(const struct fly_options *o, struct error *err)
{
    if (check_text("--fly-image", o->image, err) < 0 || check_text("--fly-region", o->region, err) < 0)
        return NULL;
    struct fly_account *account = fly_account_new(&o->account, err);
    if (!account)
        return NULL;
    struct fly_backend *b = xcalloc(1, sizeof(*b));
    b->base.ops = &ops;
    b->account = account;
    b->region = xstrdup(o->region);
    b->shell = xstrdup(o->shell);
    b->performance = o->performance;
    b->lease_s = o->lease_s > 0 ? (int64_t)(o->lease_s + 0.999) : DEFAULT_LEASE_S;
    b->shape.cpus = o->cpus > 0 ? o->cpus : DEFAULT_CPUS;
    b->shape.memory_mb = o->memory_mb > 0 ? o->memory_mb : DEFAULT_MEMORY_MB;
    b->shape.rootfs_gb = o->rootfs_gb;
    snprintf(b->shape.image, sizeof(b->shape.image), "%s", o->image ? o->image : DEFAULT_IMAGE);
    name_guest(b);
    say_what_it_is(b);
    b->queues = fly_queues_new(o->calls_each_s);
    fly_listing_init(&b->listing);
    keepers_init(&b->keepers);
    return &b->base;
}
