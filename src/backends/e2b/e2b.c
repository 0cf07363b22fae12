/* The backend: its options, what it can do, and the words for the tool's description. */
#include "backends/e2b/e2b.h"

#include <stdlib.h>
#include <string.h>

#include "backends/e2b/private.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

#define DEFAULT_DOMAIN "e2b.app"
#define DEFAULT_TEMPLATE "base"
#define DEFAULT_LIFETIME_S 3600
#define PROBE_TIMEOUT_NS (30 * NSEC_PER_SEC)

/* Of these domains one host leads to all sandboxes, by headers: connections can be shared. */
static const char *const one_host_domains[] = {"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"};

/* --- the table --- */

/* Under the lock, which is left meanwhile. */
static int probe_for_all_locked(struct e2b_backend *b, struct error *err)
{
    struct error why = ERROR_INIT;
    pthread_mutex_unlock(&b->lock);
    /* Not the caller's limits: others wait for the same. */
    const struct wait wait = {.deadline = clock_now() + PROBE_TIMEOUT_NS};
    const int failed = e2b_api_check(b, &wait, &why);
    pthread_mutex_lock(&b->lock);
    b->probed = failed == 0;
    attempt_end(&b->probing, failed < 0 ? &why : NULL);
    return failed < 0 ? error_set(err, why.code, "%s", why.msg) : 0;
}

static int probe(struct backend *backend, const struct wait *wait, struct error *err)
{
    struct e2b_backend *b = e2b_of(backend);
    int failed = 0;
    pthread_mutex_lock(&b->lock);
    while (failed == 0 && !b->probed) {
        const int joined = attempt_join(&b->probing, &b->lock, wait, err);
        failed = joined == 0 ? probe_for_all_locked(b, err) : joined < 0 ? -1 : 0;
    }
    pthread_mutex_unlock(&b->lock);
    return failed;
}

static unsigned capabilities(const struct backend *backend)
{
    (void)backend;
    return BACKEND_PERSISTENT | BACKEND_NETWORK | BACKEND_NETWORK_OFF | BACKEND_GUEST;
}

static unsigned options_of(const struct backend *backend)
{
    (void)backend;
    return COMPUTER_NETWORK | COMPUTER_ENV;
}

static void describe(const struct backend *backend, struct backend_description *ret)
{
    const struct e2b_backend *b = e2b_of(backend);
    *ret = (struct backend_description){
        .environment = b->environment,
        .place = "as the template's user, in its home folder",
        .shell = b->shell ? b->shell : "/bin/bash",
        .network = b->network ? "network access" : "no network (loopback only)",
        .limits = "the template's processors, memory and disk",
        .limited_there = true,
    };
}

static struct backend *backend_free(struct backend *backend)
{
    if (!backend)
        return NULL;
    struct e2b_backend *b = e2b_of(backend);
    keepers_done(&b->keepers);
    http_client_free(b->api_client);
    http_client_free(b->sandbox_client);
    pace_free(b->pace);
    pace_free(b->beginning);
    pthread_mutex_destroy(&b->lock);
    secret_free(b->api_key);
    free(b->domain);
    free(b->template);
    free(b->shell);
    free(b->ca_file);
    free(b->api_base);
    free(b->sandbox_base);
    strv_free(b->metadata);
    strv_free(b->env);
    free(b->environment);
    free(b);
    return NULL;
}

static const struct backend_ops ops = {
    .name = "e2b",
    .ends_at_once = PROVIDER_ENDS_AT_ONCE,
    .probe = probe,
    .capabilities = capabilities,
    .describe = describe,
    .find = e2b_find,
    .list = e2b_list,
    .create = e2b_instance_create,
    .options = options_of,
    .restart = e2b_instance_restart,
    .take_over = e2b_instance_take_over,
    .stat = e2b_instance_stat,
    .attach = e2b_instance_attach,
    .plan = e2b_instance_plan,
    .record = e2b_instance_record,
    .exec = e2b_instance_exec,
    .alive = e2b_instance_alive,
    .kill = e2b_instance_kill,
    .detach = e2b_instance_detach,
    .remove = e2b_instance_remove,
    .reap = e2b_reap,
    .settle = e2b_settle,
    .free = backend_free,
};

/* --- making it --- */

static bool has_one_host(const char *domain)
{
    for (size_t n = 0; n < ARRAY_LEN(one_host_domains); n++)
        if (strcmp(domain, one_host_domains[n]) == 0)
            return true;
    return false;
}

/* It becomes a header. */
static int check_key(const char *key, struct error *err)
{
    for (const char *c = key; c && *c; c++)
        if (*c <= ' ' || *c > '~')
            return error_set(err, ERR_INVALID, "the E2B API key has characters that no key has");
    return 0;
}

/* JSON has no other bytes than those of Unicode text. */
static int check_texts(const char *what, char *const *texts, struct error *err)
{
    for (; texts && *texts; texts++)
        if (!utf8_valid(*texts, strlen(*texts)))
            return error_set(err, ERR_INVALID, "%s has bytes that are no UTF-8, which E2B can't be given",
                             what);
    return 0;
}

static int check_options(const struct e2b_backend *b, struct error *err)
{
    char *const template[] = {b->template, NULL};
    return check_key(b->api_key, err) < 0 || check_texts("--e2b-template", template, err) < 0 ||
                   check_texts("--e2b-env", b->env, err) < 0 ||
                   check_texts("--e2b-metadata", b->metadata, err) < 0
               ? -1
               : 0;
}

static int find_bases(struct e2b_backend *b, const struct e2b_options *o, struct error *err)
{
    _cleanup_(cleanup_free) char *api = xasprintf("https://api.%s", b->domain);
    _cleanup_(cleanup_free) char *shared = xasprintf("https://sandbox.%s", b->domain);
    const char *sandbox = o->sandbox_url ? o->sandbox_url : has_one_host(b->domain) ? shared : NULL;
    b->api_base =
        provider_base(o->api_url ? "E2B_API_URL" : "E2B_DOMAIN", o->api_url ? o->api_url : api, err);
    if (b->api_base && sandbox)
        b->sandbox_base = provider_base("E2B_SANDBOX_URL", sandbox, err);
    return b->api_base && (b->sandbox_base || !sandbox) ? 0 : -1;
}

static int make_clients(struct e2b_backend *b, struct error *err)
{
    b->api_client = http_client_new(&(struct http_address){.url = b->api_base, .ca_file = b->ca_file}, err);
    if (b->api_client && b->sandbox_base)
        b->sandbox_client =
            http_client_new(&(struct http_address){.url = b->sandbox_base, .ca_file = b->ca_file}, err);
    return b->api_client && (b->sandbox_client || !b->sandbox_base) ? 0 : -1;
}

struct backend *e2b_new(const struct e2b_options *o, struct error *err)
{
    struct e2b_backend *b = xcalloc(1, sizeof(*b));
    b->base.ops = &ops;
    b->api_key = xstrdup(o->api_key);
    b->domain = xstrdup(o->domain ? o->domain : DEFAULT_DOMAIN);
    b->template = xstrdup(o->template ? o->template : DEFAULT_TEMPLATE);
    b->shell = xstrdup(o->shell);
    b->ca_file = xstrdup(o->ca_file);
    b->metadata = o->metadata ? strv_copy(o->metadata) : NULL;
    b->env = o->env ? strv_copy(o->env) : NULL;
    b->lifetime_s = o->lifetime_s > 0 ? (int64_t)(o->lifetime_s + 0.999) : DEFAULT_LIFETIME_S;
    b->network = o->network;
    e2b_guest_name(b->guest);
    b->environment = xasprintf("an isolated Linux computer: a microVM of the E2B template %s", b->template);
    b->pace = pace_new();
    b->beginning = pace_new();
    keepers_init(&b->keepers);
    pthread_mutex_init(&b->lock, NULL);
    if (check_options(b, err) < 0 || find_bases(b, o, err) < 0 || make_clients(b, err) < 0)
        return backend_free(&b->base);
    b->api = (struct provider){
        .name = "E2B",
        .client = b->api_client,
        .headers = {{"X-API-Key", b->api_key ? b->api_key : ""}},
        .header_count = 1,
        .secret = b->api_key,
        .pace = b->pace,
    };
    return &b->base;
}
