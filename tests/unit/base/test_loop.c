/* The event loop: posts, descriptors of every kind, timers, signals, and what is gone stays silent. */
#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/unit/base/check.h"

static struct loop *loop;

static int set_up(void **state)
{
    loop = loop_new(NULL);
    return loop ? 0 : -1;
}

static int tear_down(void **state)
{
    loop = loop_free(loop);
    return 0;
}

static void stop(void *arg)
{
    loop_stop(loop);
}

/* Runs the loop for as many turns, each ended by a post, so that all descriptors are looked at in between. */
static struct loop_post turn;
static int turns_left;

static void next_turn(void *arg)
{
    if (--turns_left > 0)
        loop_post(loop, &turn);
    else
        loop_stop(loop);
}

static void run_turns(int turns)
{
    turns_left = turns;
    turn = (struct loop_post){.fn = next_turn};
    loop_post(loop, &turn);
    loop_run(loop);
}

/* ---- posts ---- */

enum { POSTERS = 4, POSTS = 1000 };

static struct poster {
    struct loop_post posts[POSTS];
    int next;
    bool in_order;
} posters[POSTERS];
static int posts_run;

static void on_post(void *arg)
{
    struct loop_post *post = arg;
    for (int i = 0; i < POSTERS; i++) {
        struct poster *p = &posters[i];
        if (post >= p->posts && post < p->posts + POSTS)
            p->in_order = p->in_order && post == &p->posts[p->next++] && loop_is_current(loop);
    }
    if (++posts_run == POSTERS * POSTS)
        loop_stop(loop);
}

static void *post_many(void *arg)
{
    struct poster *p = arg;
    p->in_order = !loop_is_current(loop);
    for (int i = 0; i < POSTS; i++) {
        p->posts[i] = (struct loop_post){.fn = on_post, .arg = &p->posts[i]};
        loop_post(loop, &p->posts[i]);
    }
    return NULL;
}

static void posts_of_each_thread_come_in_order(void **state)
{
    pthread_t threads[POSTERS];
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, &posters[i]), 0);
    loop_run(loop);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(posters[i].next, POSTS);
        assert_true(posters[i].in_order);
    }
}

struct reposted {
    struct loop_post post;
    int left;
};

static void repost(void *arg)
{
    struct reposted *r = arg;
    if (r->left-- == 0) {
        free(r);
        loop_stop(loop);
        return;
    }
    r->post = (struct loop_post){.fn = repost, .arg = r};
    loop_post(loop, &r->post);
}

static void node_is_free_again_when_its_function_runs(void **state)
{
    struct reposted *r = xcalloc(1, sizeof(*r));
    r->left = 10;
    r->post = (struct loop_post){.fn = repost, .arg = r};
    loop_post(loop, &r->post);
    loop_run(loop);
}

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static bool was_current;

static void note_and_stop(void *arg)
{
    was_current = loop_is_current(loop);
    loop_stop(loop);
}

static void running_thread_is_the_loops(void **state)
{
    pthread_t thread;
    struct loop_post post = {.fn = note_and_stop};
    assert_true(loop_is_current(loop));
    loop_post(loop, &post);
    assert_int_equal(pthread_create(&thread, NULL, run_loop, loop), 0);
    pthread_join(thread, NULL);
    assert_true(was_current);
    assert_false(loop_is_current(loop));
}

/* ---- descriptors ---- */

static struct seen {
    int calls;
    short revents; /* of all calls together */
    int stop_after;
} seen;

static void on_ready(void *arg, short revents)
{
    struct seen *s = arg;
    s->calls++;
    s->revents |= revents;
    if (s->calls == s->stop_after)
        loop_stop(loop);
}

static struct loop_watch *watch(int fd, short events)
{
    seen = (struct seen){0};
    struct loop_watch *w = loop_watch_new(loop, fd, on_ready, &seen);
    assert_non_null(w);
    loop_watch_set(w, events);
    return w;
}

static void data_is_told_until_read_and_never_while_paused(void **state)
{
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    struct loop_watch *w = watch(p[0], POLLIN);
    run_turns(3);
    assert_int_equal(seen.calls, 0);
    assert_int_equal(write(p[1], "x", 1), 1);
    seen.stop_after = 3;
    loop_run(loop);
    assert_int_equal(seen.revents, POLLIN);
    loop_watch_set(w, 0);
    run_turns(3);
    assert_int_equal(seen.calls, 3);
    loop_watch_set(w, POLLIN);
    seen.stop_after = 4;
    loop_run(loop);
    assert_null(loop_watch_free(w));
    fd_close(p[0]);
    fd_close(p[1]);
}

static void flags_of_the_descriptor_are_left_alone(void **state)
{
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    struct loop_watch *w = watch(p[0], POLLIN);
    assert_false(fcntl(p[0], F_GETFL) & O_NONBLOCK);
    loop_watch_free(w);
    fd_close(p[0]);
    fd_close(p[1]);
}

static void room_is_told(void **state)
{
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    struct loop_watch *w = watch(p[1], POLLOUT);
    seen.stop_after = 1;
    loop_run(loop);
    assert_int_equal(seen.revents, POLLOUT);
    loop_watch_free(w);
    fd_close(p[0]);
    fd_close(p[1]);
}

static void end_of_input_is_told_as_readable(void **state)
{
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    struct loop_watch *w = watch(p[0], POLLIN);
    fd_close(p[1]);
    seen.stop_after = 1;
    loop_run(loop);
    assert_true(seen.revents & POLLIN);
    loop_watch_free(w);
    fd_close(p[0]);
}

static void files_and_dev_null_are_always_ready(void **state)
{
    char path[] = "/tmp/test-loop-XXXXXX";
    int fds[] = {mkstemp(path), open("/dev/null", O_RDWR | O_CLOEXEC)};
    unlink(path);
    for (int i = 0; i < 2; i++) {
        struct loop_watch *w = watch(fds[i], 0);
        run_turns(3);
        assert_int_equal(seen.calls, 0);
        loop_watch_set(w, POLLIN);
        seen.stop_after = 2;
        loop_run(loop);
        assert_int_equal(seen.revents, POLLIN);
        loop_watch_set(w, POLLIN | POLLOUT);
        seen.stop_after = 3;
        loop_run(loop);
        assert_int_equal(seen.revents, POLLIN | POLLOUT);
        loop_watch_set(w, LOOP_HANGUP);
        run_turns(3);
        assert_int_equal(seen.calls, 3);
        loop_watch_free(w);
        fd_close(fds[i]);
    }
}

/* fds[0] is watched for hang-ups only while data waits; then the other end closes. */
static void check_hangup(int *fds, bool with_data, short wanted)
{
    if (with_data)
        assert_int_equal(write(fds[1], "unread", 6), 6);
    struct loop_watch *w = watch(fds[0], LOOP_HANGUP);
    run_turns(3);
    assert_int_equal(seen.calls, 0);
    fd_close(fds[1]);
    seen.stop_after = 1;
    loop_run(loop);
    assert_true(seen.revents & wanted);
    assert_true(seen.revents & POLLIN);
    loop_watch_free(w);
    fd_close(fds[0]);
}

static void hangup_alone_can_be_watched(void **state)
{
    int fds[2], swapped[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    check_hangup(fds, true, POLLHUP);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    check_hangup(fds, true, POLLHUP);
    /* a pipe's write end tells it as an error */
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    swapped[0] = fds[1];
    swapped[1] = fds[0];
    check_hangup(swapped, false, POLLERR);
}

static void bad_and_doubly_watched_descriptors_are_refused(void **state)
{
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    struct loop_watch *w = watch(p[0], POLLIN);
    assert_null(loop_watch_new(loop, p[0], on_ready, &seen));
    assert_int_equal(errno, EEXIST);
    loop_watch_free(w);
    fd_close(p[0]);
    fd_close(p[1]);
    assert_null(loop_watch_new(loop, p[0], on_ready, &seen));
    assert_int_equal(errno, EBADF);
}

struct pair {
    struct loop_watch *self, *other;
    int calls;
};

static void free_both(void *arg, short revents)
{
    struct pair *p = arg;
    p->calls++;
    p->self = loop_watch_free(p->self);
    p->other = loop_watch_free(p->other);
}

static void freed_watches_are_silent_at_once(void **state)
{
    int a[2], b[2];
    struct pair pair = {0};
    assert_int_equal(pipe2(a, O_CLOEXEC), 0);
    assert_int_equal(pipe2(b, O_CLOEXEC), 0);
    assert_int_equal(write(a[1], "x", 1), 1);
    assert_int_equal(write(b[1], "x", 1), 1);
    pair.self = loop_watch_new(loop, a[0], free_both, &pair);
    pair.other = loop_watch_new(loop, b[0], free_both, &pair);
    loop_watch_set(pair.self, POLLIN);
    loop_watch_set(pair.other, POLLIN);
    run_turns(5);
    assert_int_equal(pair.calls, 1);
    for (int i = 0; i < 2; i++) {
        fd_close(a[i]);
        fd_close(b[i]);
    }
    assert_null(loop_watch_free(NULL));
}

/* ---- timers ---- */

static char order[16];
static int order_len;

static void note(void *arg)
{
    order[order_len++] = *(const char *)arg;
    order[order_len] = '\0';
}

static void timers_fire_by_time_and_once(void **state)
{
    order_len = 0;
    struct loop_timer *late = loop_timer_new(loop, note, (void *)"c"),
                      *soon = loop_timer_new(loop, note, (void *)"b"),
                      *now = loop_timer_new(loop, note, (void *)"a"), *end = loop_timer_new(loop, stop, NULL);
    struct loop_timer *stopped = loop_timer_new(loop, note, (void *)"x"),
                      *freed = loop_timer_new(loop, note, (void *)"y");
    loop_timer_start(late, 20, 0);
    loop_timer_start(soon, 5, 0);
    loop_timer_start(now, 0, 0);
    loop_timer_start(stopped, 1, 0);
    loop_timer_start(freed, 1, 0);
    loop_timer_start(end, 30, 0);
    loop_timer_stop(stopped);
    loop_timer_free(freed);
    loop_run(loop);
    assert_string_equal(order, "abc");
    loop_timer_free(late);
    loop_timer_free(soon);
    loop_timer_free(now);
    loop_timer_free(stopped);
    loop_timer_free(end);
    assert_null(loop_timer_free(NULL));
}

static struct ticker {
    struct loop_timer *timer;
    int ticks;
} ticker;

static void tick(void *arg)
{
    if (++ticker.ticks == 3) {
        ticker.timer = loop_timer_free(ticker.timer);
        loop_stop(loop);
    }
}

static void periodic_timer_repeats_until_freed(void **state)
{
    ticker = (struct ticker){.timer = loop_timer_new(loop, tick, NULL)};
    loop_timer_start(ticker.timer, 3600 * 1000, 0);
    loop_timer_start(ticker.timer, 1, 1); /* replaces */
    loop_run(loop);
    assert_int_equal(ticker.ticks, 3);
}

/* ---- signals ---- */

static int caught;

static void on_signal(void *arg, int signo)
{
    caught = signo;
    loop_stop(loop);
}

static void signals_are_told(void **state)
{
    struct loop_signal *s = loop_signal_new(loop, SIGUSR1, on_signal, NULL);
    assert_non_null(s);
    kill(getpid(), SIGUSR1);
    loop_run(loop);
    assert_int_equal(caught, SIGUSR1);
    assert_null(loop_signal_free(s));
    assert_null(loop_signal_new(loop, SIGKILL, on_signal, NULL));
    assert_null(loop_signal_free(NULL));
}

static void never_run_loop_can_be_freed(void **state)
{
    struct loop *l = loop_new(NULL);
    loop_timer_free(loop_timer_new(l, stop, NULL));
    loop_stop(l);
    assert_null(loop_free(l));
    assert_null(loop_free(NULL));
}

int main(void)
{
#define LOOP_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        LOOP_TEST(posts_of_each_thread_come_in_order),
        LOOP_TEST(node_is_free_again_when_its_function_runs),
        LOOP_TEST(running_thread_is_the_loops),
        LOOP_TEST(data_is_told_until_read_and_never_while_paused),
        LOOP_TEST(flags_of_the_descriptor_are_left_alone),
        LOOP_TEST(room_is_told),
        LOOP_TEST(end_of_input_is_told_as_readable),
        LOOP_TEST(files_and_dev_null_are_always_ready),
        LOOP_TEST(hangup_alone_can_be_watched),
        LOOP_TEST(bad_and_doubly_watched_descriptors_are_refused),
        LOOP_TEST(freed_watches_are_silent_at_once),
        LOOP_TEST(timers_fire_by_time_and_once),
        LOOP_TEST(periodic_timer_repeats_until_freed),
        LOOP_TEST(signals_are_told),
        cmocka_unit_test(never_run_loop_can_be_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
