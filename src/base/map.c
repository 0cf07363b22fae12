/* The hash map: open addressing with linear probing. A removed entry leaves a tombstone, which keeps later
 * ones reachable and makes removal during iteration safe; growing, or filling up with tombstones, rebuilds
 * the table. */
#include "base/map.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"

#define SLOTS_MIN 16

struct slot {
    uint64_t hash;
    char *key; /* NULL: free, or a tombstone if value is not NULL */
    void *value;
};

struct map {
    struct slot *slots;
    size_t slot_count; /* a power of two, or 0 */
    size_t used;       /* entries and tombstones */
    size_t count;
    size_t max_entries;
    uint64_t secret[2];
};

static char tombstone;

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
}

/* SipHash-1-3: short, and nobody without the key can choose strings that collide. */
static uint64_t siphash(const uint64_t secret[2], const char *s, size_t n)
{
    uint64_t v[4] = {secret[0] ^ 0x736f6d6570736575ULL, secret[1] ^ 0x646f72616e646f6dULL,
                     secret[0] ^ 0x6c7967656e657261ULL, secret[1] ^ 0x7465646279746573ULL};
    uint64_t last = (uint64_t)n << 56;
    for (; n >= 8; n -= 8, s += 8) {
        uint64_t word;
        memcpy(&word, s, sizeof(word));
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    for (size_t i = 0; i < n; i++)
        last |= (uint64_t)(unsigned char)s[i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct map *map_new(size_t max_entries)
{
    struct map *m = xcalloc(1, sizeof(*m));
    m->max_entries = max_entries;
    random_bytes(m->secret, sizeof(m->secret));
    return m;
}

struct map *map_free(struct map *m)
{
    if (!m)
        return NULL;
    assert(m->count == 0);
    free(m->slots);
    free(m);
    return NULL;
}

size_t map_count(const struct map *m)
{
    return m->count;
}

/* The slot of the key, or NULL. */
static struct slot *find(const struct map *m, const char *key, uint64_t hash)
{
    for (size_t i = hash, n = 0; n < m->slot_count; i++, n++) {
        struct slot *s = &m->slots[i & (m->slot_count - 1)];
        if (!s->key && !s->value)
            return NULL;
        if (s->key && s->hash == hash && strcmp(s->key, key) == 0)
            return s;
    }
    return NULL;
}

/* Puts an entry that isn't there yet into the first free slot. */
static void place(struct map *m, struct slot entry)
{
    size_t i = entry.hash;
    while (m->slots[i & (m->slot_count - 1)].value)
        i++;
    m->slots[i & (m->slot_count - 1)] = entry;
    m->used++;
}

/* Rebuilds the table so that it is at most half full. */
static void rebuild(struct map *m)
{
    struct slot *old = m->slots;
    size_t old_count = m->slot_count, slot_count = SLOTS_MIN;
    while (slot_count < 2 * (m->count + 1))
        slot_count *= 2;
    m->slots = xcalloc(slot_count, sizeof(*m->slots));
    m->slot_count = slot_count;
    m->used = 0;
    for (size_t i = 0; i < old_count; i++)
        if (old[i].key)
            place(m, old[i]);
    free(old);
}

void *map_get(const struct map *m, const char *key)
{
    struct slot *s = find(m, key, siphash(m->secret, key, strlen(key)));
    return s ? s->value : NULL;
}

int map_put(struct map *m, const char *key, void *value)
{
    assert(value);
    uint64_t hash = siphash(m->secret, key, strlen(key));
    if (m->count >= m->max_entries || find(m, key, hash))
        return -1;
    if (4 * (m->used + 1) > 3 * m->slot_count)
        rebuild(m);
    place(m, (struct slot){hash, xstrdup(key), value});
    m->count++;
    return 0;
}

void *map_remove(struct map *m, const char *key)
{
    struct slot *s = find(m, key, siphash(m->secret, key, strlen(key)));
    if (!s)
        return NULL;
    void *value = s->value;
    free(s->key);
    *s = (struct slot){.value = &tombstone};
    m->count--;
    return value;
}

bool map_next(const struct map *m, size_t *cursor, const char **ret_key, void **ret_value)
{
    while (*cursor < m->slot_count) {
        const struct slot *s = &m->slots[(*cursor)++];
        if (!s->key)
            continue;
        if (ret_key)
            *ret_key = s->key;
        if (ret_value)
            *ret_value = s->value;
        return true;
    }
    return false;
}
