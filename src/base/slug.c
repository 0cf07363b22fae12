/* Names that people and agents can say, remember and type; the rule is that of a DNS label, so that a name
 * also serves as host name, folder, group and container name. */
#include "base/slug.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/random.h"

static const char *const ADJECTIVES[] = {
    "able",   "amber",  "bold",    "brave",  "bright", "brisk", "calm",   "clear", "clever", "cool",
    "coral",  "crisp",  "daring",  "deep",   "eager",  "early", "fair",   "fast",  "fleet",  "fond",
    "fresh",  "gentle", "glad",    "golden", "grand",  "green", "handy",  "happy", "honest", "humble",
    "jolly",  "keen",   "kind",    "lively", "lucid",  "lucky", "mellow", "merry", "mild",   "neat",
    "nimble", "noble",  "patient", "plain",  "polite", "prime", "proud",  "quick", "quiet",  "rapid",
    "ready",  "sharp",  "silent",  "silver", "sober",  "solid", "steady", "stout", "sunny",  "swift",
    "tidy",   "vivid",  "warm",    "wise",
};

static const char *const ANIMALS[] = {
    "badger", "bear",  "beaver", "bison",  "camel",  "cat",   "cobra",  "condor", "cougar", "crane",
    "crow",   "deer",  "dingo",  "dove",   "duck",   "eagle", "egret",  "elk",    "falcon", "ferret",
    "finch",  "fox",   "gecko",  "goose",  "hare",   "hawk",  "heron",  "horse",  "ibex",   "ibis",
    "jay",    "koala", "lark",   "lemur",  "lion",   "llama", "lynx",   "magpie", "marten", "mole",
    "moose",  "newt",  "ocelot", "orca",   "osprey", "otter", "owl",    "panda",  "parrot", "pike",
    "puffin", "puma",  "quail",  "rabbit", "raven",  "robin", "salmon", "seal",   "stork",  "swan",
    "tapir",  "tiger", "trout",  "wolf",
};

_Static_assert(ARRAY_LEN(ADJECTIVES) == 64 && ARRAY_LEN(ANIMALS) == 64,
               "the number of names is told in slug.h");

void slug_random(char ret[SLUG_SIZE])
{
    const char *adjective = ADJECTIVES[random_below(ARRAY_LEN(ADJECTIVES))];
    const char *animal = ANIMALS[random_below(ARRAY_LEN(ANIMALS))];
    snprintf(ret, SLUG_SIZE, "%s-%s-%04x", adjective, animal, random_below(0x10000));
}

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool slug_is_valid(const char *id)
{
    size_t len = strnlen(id, SLUG_SIZE);
    if (len == 0 || len > LIMIT_COMPUTER_ID_BYTES)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_alphanumeric(id[i]) && id[i] != '-')
            return false;
    return is_alphanumeric(id[0]) && is_alphanumeric(id[len - 1]);
}

int slug_check(const char *id, struct error *err)
{
    if (slug_is_valid(id))
        return 0;
    return error_set(
        err, ERR_INVALID,
        "computer_id '%.80s' is not valid: use 1 to %d characters of a-z, 0-9 and '-', with a letter or "
        "digit at both ends",
        id, LIMIT_COMPUTER_ID_BYTES);
}
