/* How many computers a principal may have: those of this server, in any state, and the permanent ones that
 * don't run, since their files take up room. */
#include "computers/registry.h"

#include <string.h>

struct counting {
    struct computer *computer; /* the new one */
    int stored;
};

/* One that is being made counts only for those that came after it. */
static bool counts_before_locked(const struct computer *other, const struct computer *c)
{
    return other != c && other->number < c->number && strcmp(other->principal, c->principal) == 0;
}

static int count_locked(const struct computer *c)
{
    int count = 0;
    size_t cursor = 0;
    void *value;
    while (map_next(c->computers->by_name, &cursor, NULL, &value))
        count += counts_before_locked(value, c);
    return count;
}

static bool is_counted(struct computer *c, const char *id)
{
    char name[COMPUTER_NAME_SIZE];
    pthread_mutex_lock(&c->computers->lock);
    const struct computer *other = map_get(c->computers->by_name, computer_name(c->principal, id, name));
    bool counted = other && (other == c || counts_before_locked(other, c));
    pthread_mutex_unlock(&c->computers->lock);
    return counted;
}

static void count_stored(void *ctx, const char *principal, const char *name)
{
    struct counting *counting = ctx;
    struct computer *c = counting->computer;
    if (store_is_debris(name) || is_counted(c, name))
        return;
    const struct record *r = records_get(c->computers, principal, name, NULL);
    counting->stored += r && !r->temporary && r->ready;
    records_put(c->computers, r);
}

int quota_check(struct computer *c, struct error *err)
{
    const int most = c->computers->max_per_principal;
    struct counting counting = {.computer = c};
    if (most <= 0)
        return 0;
    pthread_mutex_lock(&c->computers->lock);
    int running = count_locked(c);
    pthread_mutex_unlock(&c->computers->lock);
    store_scan_principal(c->computers->dir, c->principal, count_stored, &counting);
    if (running + counting.stored < most)
        return 0;
    return error_set(err, ERR_LIMIT,
                     "there are %d computers already, %d of them stopped, and %d is the maximum that this "
                     "server was started with: use one that exists (computer_list), or remove one "
                     "(computer_delete)",
                     running + counting.stored, counting.stored, most);
}
