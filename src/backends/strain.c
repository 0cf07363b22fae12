/* See strain.h. */
#include "backends/strain.h"

#include <string.h>

static void begin_string(struct strain *s)
{
    s->at = STRAIN_STRING;
    s->drops = s->is_next;
    s->matched = 0;
    s->differs = s->is_next = s->was_name = false;
}

static void end_string(struct strain *s)
{
    s->at = STRAIN_BETWEEN;
    s->was_name = !s->drops && !s->differs && !s->name[s->matched];
    s->drops = false;
}

static void see_between(struct strain *s, char c)
{
    if (c == '"') {
        begin_string(s);
    } else if (!strchr(" \t\r\n", c)) {
        s->is_next = c == ':' && s->was_name;
        s->was_name = false;
    }
}

static void see_in_string(struct strain *s, char c)
{
    if (s->differs || s->name[s->matched] != c)
        s->differs = true;
    else
        s->matched++;
    if (c == '\\')
        s->at = STRAIN_ESCAPE;
}

/* Whether the byte stays. */
static bool see(struct strain *s, char c)
{
    const bool drops = s->drops;
    if (s->at == STRAIN_BETWEEN) {
        see_between(s, c);
        return true;
    }
    if (s->at == STRAIN_ESCAPE)
        s->at = STRAIN_STRING;
    else if (c == '"')
        end_string(s);
    else
        see_in_string(s, c);
    return !drops || s->at == STRAIN_BETWEEN;
}

int strain_feed(struct strain *s, const char *bytes, size_t n, struct buf *ret)
{
    size_t kept = 0; /* those before it are dealt with */
    for (size_t i = 0; i < n; i++) {
        if (see(s, bytes[i]))
            continue;
        if (i > kept && buf_append(ret, bytes + kept, i - kept) < 0)
            return -1;
        kept = i + 1;
    }
    return buf_append(ret, bytes + kept, n - kept);
}
