/* The parts of the backend contract that are the same for all. */
#include "backends/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void stream_done(struct exec_stream *s)
{
    buf_done(&s->head);
    buf_done(&s->tail);
    free(s->path);
}

void backend_found_done(struct backend_found *f)
{
    free(f->id);
    free(f->principal);
    json_decref(f->data);
    *f = (struct backend_found){0};
}

bool backend_found_is(const struct backend_found *f, const struct computer_spec *spec)
{
    return strcmp(f->id, spec->id) == 0 && strcmp(f->principal, spec->principal) == 0;
}

void exec_result_done(struct exec_result *r)
{
    stream_done(&r->out);
    stream_done(&r->err);
    free(r->note);
    *r = (struct exec_result){0};
}

void exec_result_add_note(struct exec_result *r, const char *words)
{
    _cleanup_(cleanup_free) char *before = r->note;
    r->note = before ? xasprintf("%s; %s", before, words) : xstrdup(words);
}

bool backend_tell_full(struct error *err)
{
    if (!err || (err->sys != ENOSPC && err->sys != EDQUOT))
        return false;
    error_set(err, ERR_LIMIT,
              "the disk with the server's state directory is full: free space there, or delete computers "
              "that aren't needed");
    return true;
}
