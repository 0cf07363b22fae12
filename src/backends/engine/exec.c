/* One command over the link, or the end of all of them; and what it means when the link ends under it: the
 * computer may be gone, or only the way to it (an engine that restarts). The engine is asked; it knows. */
#include <errno.h>
#include <string.h>

#include "backends/engine/private.h"
#include "backends/verdict.h"
#include "base/clock.h"
#include "base/mem.h"

#define ASK_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define LATE_NS (NSEC_PER_SEC / 2) /* beyond the end of a call: it may come so much later */
#define NOTICE_TIMEOUT_NS (5 * NSEC_PER_SEC)
#define DEFAULT_SHELL "/bin/bash"
#define FALLBACK_SHELL "/bin/sh"

static const char *shell_of(const struct engine_instance *i)
{
    if (i->backend->options.shell)
        return i->backend->options.shell;
    return i->has_bash ? DEFAULT_SHELL : FALLBACK_SHELL;
}

static int ended(struct engine_instance *i, const struct container_look *look, struct error *err)
{
    pthread_mutex_lock(&i->lock);
    i->ended = true;
    i->absent = look->state == CONTAINER_ABSENT;
    pthread_mutex_unlock(&i->lock);
    if (look->oom_killed)
        return verdict_gone(i->memory_bytes, err);
    if (look->state == CONTAINER_ABSENT)
        return error_set(err, ERR_GONE,
                         "its container %.12s was removed from outside, or has ended by itself",
                         i->container);
    return error_set(err, ERR_GONE, "its container %.12s was stopped, with exit code %d", i->container,
                     look->exit_code);
}

/* Also a call that is over wants to know what became of its command; but not at any price. */
static struct wait patience(const struct wait *call)
{
    const int64_t now = clock_now(), most = now + ASK_TIMEOUT_NS;
    const bool is_over = wait_check(call, NULL) < 0;
    const int64_t end = is_over ? now : call->deadline;
    return (struct wait){.deadline = end < most - LATE_NS ? end + LATE_NS : most};
}

static int take_look(struct engine_instance *i, const struct wait *wait, struct container_look *ret,
                     struct error *err)
{
    struct error why = ERROR_INIT;
    if (container_look(i->engine, i->container, wait, ret, &why) < 0)
        return error_set(err, ERR_UNAVAILABLE,
                         "the engine doesn't answer, and the computer '%s' is its own: %.300s", i->id,
                         why.msg);
    json_decref(TAKE_PTR(ret->inspect));
    return 0;
}

/* A stream may end before the engine has noticed that its container did; then it tells, or it knows of none.
 */
static int look_when_noticed(struct engine_instance *i, const struct wait *wait, struct container_look *ret,
                             struct error *err)
{
    const struct wait brief = wait_at_most(wait, clock_now() + NOTICE_TIMEOUT_NS);
    struct error why = ERROR_INIT;
    if (take_look(i, wait, ret, err) < 0)
        return -1;
    if (ret->state != CONTAINER_RUNNING ||
        (container_await_end(i->engine, i->container, &brief, &why) < 0 && wait_was_over(&why)))
        return 0;
    return take_look(i, wait, ret, err);
}

int engine_instance_ask(struct engine_instance *i, const struct wait *call, struct error *err)
{
    struct container_look look;
    const struct wait wait = patience(call);
    if (look_when_noticed(i, &wait, &look, err) < 0)
        return -1;
    if (look.state == CONTAINER_RUNNING)
        return 0;
    if (look.state == CONTAINER_PAUSED)
        return engine_instance_paused(i, err);
    return ended(i, &look, err);
}

/* There is no way in but from its beginning: it is ended, and started again by whoever asks next. */
static int given_up(struct engine_instance *i, struct error *err)
{
    pthread_mutex_lock(&i->lock);
    i->ended = true;
    pthread_mutex_unlock(&i->lock);
    return error_set(err, ERR_GONE, "the way to it was lost, and can't be made anew while it runs");
}

static int make_link(struct engine_instance *i, const struct wait *wait, struct link **ret, struct error *err)
{
    if (engine_instance_ask(i, wait, err) < 0)
        return -1;
    if (!engine_instance_may_enter(i))
        return given_up(i, err);
    struct error why = ERROR_INIT;
    if (engine_instance_enter(i, wait, ret, &why) == 0)
        return 0;
    const bool is_its_own = wait_was_over(&why) || why.code == ERR_LIMIT;
    return error_set(err, is_its_own ? why.code : ERR_UNAVAILABLE, "%s", why.msg);
}

/* Under the lock, which is left meanwhile. */
static int relink_locked(struct engine_instance *i, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    struct link *fresh = NULL;
    pthread_mutex_unlock(&i->lock);
    int failed = make_link(i, wait, &fresh, &why);
    pthread_mutex_lock(&i->lock);
    if (failed == 0) {
        link_unref(i->link);
        i->link = fresh;
    }
    attempt_end(&i->relinking, failed < 0 ? &why : NULL);
    return failed < 0 ? error_set(err, why.code, "%s", why.msg) : 0;
}

/* A reference to a link that lives. */
static struct link *take_link(struct engine_instance *i, const struct wait *wait, struct error *err)
{
    int failed = 0;
    struct link *link = NULL;
    pthread_mutex_lock(&i->lock);
    while (failed == 0 && !link) {
        if (i->ended) {
            failed = error_set(err, ERR_GONE, "it has ended");
        } else if (i->link && link_alive(i->link)) {
            link = link_ref(i->link);
        } else {
            int joined = attempt_join(&i->relinking, &i->lock, wait, err);
            failed = joined == 0 ? relink_locked(i, wait, err) : joined < 0 ? -1 : 0;
        }
    }
    pthread_mutex_unlock(&i->lock);
    return link;
}

/* The link died under a command. */
static int lost(struct engine_instance *i, const struct wait *wait, const struct error *why,
                struct error *err)
{
    pthread_mutex_lock(&i->lock);
    bool known = i->ended;
    pthread_mutex_unlock(&i->lock);
    if (known)
        return error_set(err, ERR_GONE, "%s", why->msg);
    if (engine_instance_ask(i, wait, err) < 0)
        return -1;
    if (!engine_instance_may_enter(i))
        return given_up(i, err);
    return error_set(err, ERR_UNAVAILABLE,
                     "the stream to the computer '%s' broke under the command, which may have been ended by "
                     "that; the computer itself runs, so try again",
                     i->id);
}

static bool try_other_shell(struct engine_instance *i, const struct exec_request *request,
                            const struct guest_exit *exit)
{
    if (exit->stage != GUEST_STAGE_EXEC || exit->sys != ENOENT || !request->command ||
        i->backend->options.shell || !i->has_bash)
        return false;
    i->has_bash = false;
    return true;
}

static int judge(struct engine_instance *i, const struct exec_request *request, const struct guest_exit *exit,
                 struct exec_result *ret, struct error *err)
{
    const char *shell = shell_of(i);
    const bool has_bash = i->has_bash && strcmp(shell, DEFAULT_SHELL) != 0;
    const bool has_sh = i->has_sh && strcmp(shell, FALLBACK_SHELL) != 0;
    const struct verdict_about about = {
        .shell = shell,
        .other_shells = has_bash ? DEFAULT_SHELL
                        : has_sh ? FALLBACK_SHELL
                                 : "",
        .shell_was_there = i->way == WAY_LINK && !i->backend->options.shell && i->has_sh,
        .pids = i->pids,
    };
    return verdict(&about, request, exit, ret, err);
}

static int linked_exec(struct engine_instance *i, const struct exec_request *request, const char *shell,
                       struct exec_result *ret, struct guest_exit *ret_exit, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_link_unref) struct link *link = take_link(i, &request->wait, err);
    if (!link)
        return -1;
    if (link_exec(link, request, shell, ret, ret_exit, &why) == 0)
        return 0;
    return why.code == ERR_GONE ? lost(i, &request->wait, &why, err)
                                : error_set(err, why.code, "%s", why.msg);
}

int engine_instance_clear(struct engine_instance *i, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    _cleanup_(cleanup_link_unref) struct link *link = take_link(i, wait, err);
    if (!link)
        return -1;
    if (link_clear(link, wait, &why) == 0)
        return 0;
    return why.code == ERR_GONE ? lost(i, wait, &why, err) : error_set(err, why.code, "%s", why.msg);
}

static int run(struct engine_instance *i, const struct exec_request *request, struct exec_result *ret,
               struct error *err)
{
    struct guest_exit exit = {0};
    struct error why = ERROR_INIT;
    int failed;
    do {
        exec_result_done(ret);
        failed = (i->way == WAY_LINK ? linked_exec : plain_exec)(i, request, shell_of(i), ret, &exit, &why);
    } while (failed == 0 && try_other_shell(i, request, &exit));
    return failed == 0 ? judge(i, request, &exit, ret, err) : verdict_stopped(&why, ret, err);
}

int engine_instance_exec(struct instance *instance, const struct exec_request *request,
                         struct exec_result *ret, struct error *err)
{
    struct engine_instance *i = engine_instance_of(instance);
    struct exec_result result = {0};
    struct error why = ERROR_INIT;
    if (wait_check(&request->wait, &why) < 0) { /* it doesn't even begin */
        int r = verdict_stopped(&why, &result, err);
        if (r == 0)
            *ret = result;
        return r;
    }
    if (run(i, request, &result, err) < 0) {
        exec_result_done(&result);
        return -1;
    }
    *ret = result;
    return 0;
}
