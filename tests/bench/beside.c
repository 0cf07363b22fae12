/* A stage beside something that it needs: a container engine of our own (tests/engines/with-engine), in
 * namespaces in which nothing else is to be measured, or the fake of a provider (tests/fakes). There a second
 * bench runs this stage alone, and its figures come back as the JSON that it writes. Where that can't be,
 * each figure says so. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/json.h"
#include "base/macros.h"
#include "base/mem.h"
#include "bench.h"
#include "measure.h"

#define NOT_POSSIBLE 77

struct wanted {
    enum figure_id first, last;
};

static void take_figure(struct bench *b, struct wanted wanted, const json_t *from)
{
    const char *key = json_get_string(from, "key");
    for (unsigned i = wanted.first; key && i <= wanted.last; i++)
        if (strcmp(b->figures[i].key, key) == 0) {
            figure_set(b, (enum figure_id)i, json_number_value(json_object_get(from, "value")),
                       (size_t)json_integer_value(json_object_get(from, "samples")));
            b->figures[i].subject = json_number_value(json_object_get(from, "subject"));
            b->figures[i].floor = json_number_value(json_object_get(from, "floor"));
        }
}

static void take_figures(struct bench *b, struct wanted wanted, const char *path)
{
    size_t n;
    const json_t *figure;
    json_error_t why;
    _cleanup_(cleanup_json_decref) json_t *all = json_load_file(path, 0, &why);
    if (!all)
        die("%s: %s", path, why.text);
    json_array_foreach (json_object_get(all, "figures"), n, figure)
        take_figure(b, wanted, figure);
}

/* Its last line on stderr is in `said`, of `size` bytes. */
static int run_second_bench(struct bench *b, const char *beside, const char *stage, const char *figures,
                            char *said, size_t size)
{
    _cleanup_(cleanup_free) char *command =
        xasprintf("exec 2>&1 >/dev/null; %s -- env BENCH_ONLY=\"$STAGE\" \"$BENCH\" \"$SERVER\" --json "
                  "\"$FIGURES\"",
                  beside);
    char self[PATH_MAX] = "", line[1024];
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0 || setenv("BENCH", self, 1) < 0 ||
        setenv("STAGE", stage, 1) < 0 || setenv("SERVER", b->server, 1) < 0 ||
        setenv("FIGURES", figures, 1) < 0)
        die("can't tell a second bench what to do");
    FILE *p = popen(command, "re");
    if (!p)
        die("can't start a second bench");
    while (fgets(line, sizeof line, p))
        if (line[0] != '\n')
            (void)snprintf(said, size, "%.*s", (int)strcspn(line, "\n"), line);
    return pclose(p);
}

/* beside: the beginning of a shell's command. */
static void run_beside(struct bench *b, const char *what, const char *beside, const char *stage,
                       struct wanted wanted)
{
    char said[512] = "";
    _cleanup_(cleanup_free) char *figures = xasprintf("%s/%s.json", b->state_dir, what);
    int status = run_second_bench(b, beside, stage, figures, said, sizeof said);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_POSSIBLE) {
        for (unsigned i = wanted.first; i <= wanted.last; i++)
            b->figures[i].note = xstrdup(said); /* as long as the table */
        return;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) /* 1: a figure is missed */
        die("beside %s: %s", what, said);
    take_figures(b, wanted, figures);
    (void)unlink(figures);
}

void bench_beside_engine(struct bench *b, const char *engine, const char *stage, enum figure_id first,
                         enum figure_id last)
{
    _cleanup_(cleanup_free) char *beside = xasprintf("exec " WITH_ENGINE " %s", engine);
    run_beside(b, engine, beside, stage, (struct wanted){first, last});
}

void bench_beside_fake(struct bench *b, const char *provider, const char *options, const char *stage,
                       enum figure_id first, enum figure_id last)
{
    _cleanup_(cleanup_free) char *beside =
        xasprintf("node=$(" SETUP " node) || exit %d; PROVIDER=%s exec \"$node\" " WITH_FAKE " %s %s",
                  NOT_POSSIBLE, provider, provider, options);
    run_beside(b, provider, beside, stage, (struct wanted){first, last});
}
