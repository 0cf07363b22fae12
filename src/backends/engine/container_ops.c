/* Calls of the engine about one container. Each is one request, or one with what its answer asks for. */
#include <stdio.h>
#include <string.h>

#include "backends/engine/podman.h"
#include "backends/engine/private.h"
#include "backends/native/image.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define STOP_SECONDS 2 /* our program ends at once; others are killed then */
#define STOP_TIMEOUT_NS (10 * NSEC_PER_SEC)
#define REMOVE_TIMEOUT_NS (20 * NSEC_PER_SEC)
#define TAR_BLOCK 512

bool container_is_id(const char *id)
{
    size_t n = id ? strspn(id, "0123456789abcdef") : 0;
    return n > 0 && n < CONTAINER_ID_SIZE && !id[n];
}

int container_look(struct engine *e, const char *name, const struct wait *wait, struct container_look *ret,
                   struct error *err)
{
    _cleanup_(cleanup_free) char *encoded = http_encode(name);
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/%s/json", encoded);
    struct error why = ERROR_INIT;
    json_t *inspect = NULL;
    *ret = (struct container_look){.state = CONTAINER_ABSENT};
    if (engine_call(e, "GET", path, NULL, wait, &inspect, &why) < 0)
        return why.code == ERR_NOT_FOUND ? 0 : error_set(err, why.code, "%s", why.msg);
    const json_t *state = json_get_object(inspect, "State");
    ret->inspect = inspect;
    ret->oom_killed = json_is_true(json_object_get(state, "OOMKilled"));
    ret->exit_code = (int)json_integer_value(json_object_get(state, "ExitCode"));
    ret->state = json_is_true(json_object_get(state, "Paused"))    ? CONTAINER_PAUSED
                 : json_is_true(json_object_get(state, "Running")) ? CONTAINER_RUNNING
                                                                   : CONTAINER_STOPPED;
    return 0;
}

/* --- our program --- */

/* A ustar archive of one file, ended by two empty blocks. Source: POSIX.1-2017, pax, "ustar Interchange
 * Format". */
static int write_archive(struct buf *b)
{
    static const char zeros[2 * TAR_BLOCK];
    struct {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type;
        char link[100], magic[6], version[2], rest[247];
    } head = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    _Static_assert(sizeof(head) == TAR_BLOCK, "one block");
    snprintf(head.name, sizeof(head.name), "%s", &CONTAINER_GUEST_PATH[1]);
    snprintf(head.mode, sizeof(head.mode), "%07o", 0755U);
    snprintf(head.uid, sizeof(head.uid), "%07o", 0U);
    snprintf(head.gid, sizeof(head.gid), "%07o", 0U);
    snprintf(head.size, sizeof(head.size), "%011zo", guest_image_size);
    snprintf(head.mtime, sizeof(head.mtime), "%011o", 0U);
    memset(head.checksum, ' ', sizeof(head.checksum));
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof(head); i++)
        sum += ((const unsigned char *)&head)[i];
    snprintf(head.checksum, sizeof(head.checksum), "%06o", sum & 0777777U);
    size_t padding = (TAR_BLOCK - guest_image_size % TAR_BLOCK) % TAR_BLOCK;
    return buf_append(b, &head, sizeof(head)) < 0 || buf_append(b, guest_image, guest_image_size) < 0 ||
                   buf_append(b, zeros, padding) < 0 || buf_append(b, zeros, sizeof(zeros)) < 0
               ? -1
               : 0;
}

int container_upload(struct engine *e, const char *container, const struct wait *wait, struct error *err)
{
    _cleanup_(buf_done) struct buf archive = BUF_INIT(guest_image_size + 8 * TAR_BLOCK);
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/%s/archive?path=%%2F", container);
    _cleanup_(http_response_done) struct http_response response = {0};
    if (write_archive(&archive) < 0)
        return error_set(err, ERR_LIMIT, "out of memory");
    const struct http_request request = {.method = "PUT",
                                         .path = path,
                                         .body = archive.data,
                                         .body_len = archive.len,
                                         .content_type = "application/x-tar",
                                         .wait = *wait};
    return engine_request(e, &request, &response, err) < 0 ? error_prefix(err, PUT_WORDS) : 0;
}

int container_has_file(struct engine *e, const char *container, const char *path, const struct wait *wait,
                       struct error *err)
{
    _cleanup_(cleanup_free) char *encoded = http_encode(path);
    _cleanup_(cleanup_free) char *url = xasprintf("/containers/%s/archive?path=%s", container, encoded);
    return engine_call(e, "HEAD", url, NULL, wait, NULL, err);
}

int container_attach(struct engine *e, const char *container, const struct wait *wait,
                     struct http_stream **ret, struct error *err)
{
    _cleanup_(cleanup_free) char *path =
        xasprintf("/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1", container);
    return engine_hijack(e, path, NULL, wait, ret, err);
}

int container_make_exec(struct engine *e, const char *container, const json_t *body, const struct wait *wait,
                        char ret[CONTAINER_ID_SIZE], struct error *err)
{
    _cleanup_(cleanup_json_decref) json_t *made = NULL;
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/%s/exec", container);
    if (engine_call(e, "POST", path, body, wait, &made, err) < 0)
        return -1;
    const char *id = json_get_string(made, "Id");
    if (!container_is_id(id))
        return error_set(err, ERR_UNAVAILABLE, "%s gave no id for the command", engine_name(e));
    snprintf(ret, CONTAINER_ID_SIZE, "%s", id);
    return 0;
}

int container_start_exec(struct engine *e, const char *exec, const struct wait *wait,
                         struct http_stream **ret, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("/exec/%s/start", exec);
    _cleanup_(cleanup_json_decref) json_t *how = json_pack("{s:b, s:b}", "Detach", 0, "Tty", 0);
    return engine_hijack(e, path, how, wait, ret, err);
}

int container_exec_guest(struct engine *e, const char *container, const struct wait *wait,
                         struct http_stream **ret, struct error *err)
{
    char exec[CONTAINER_ID_SIZE];
    _cleanup_(cleanup_json_decref) json_t *body =
        json_pack("{s:[s,s], s:b, s:b, s:b, s:b}", "Cmd", CONTAINER_GUEST_PATH, SERVE_COMMAND, "AttachStdin",
                  1, "AttachStdout", 1, "AttachStderr", 1, "Tty", 0);
    return container_make_exec(e, container, body, wait, exec, err) < 0
               ? -1
               : container_start_exec(e, exec, wait, ret, err);
}

/* --- life --- */

int container_start(struct engine *e, const char *container, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/%s/start", container);
    struct error why = ERROR_INIT;
    if (engine_call(e, "POST", path, NULL, wait, NULL, &why) == 0)
        return 0;
    return error_set(err, why.code == ERR_EXISTS ? ERR_UNAVAILABLE : why.code, "start it: %s", why.msg);
}

int container_stop(struct engine *e, const char *container, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/%s/stop?t=%d", container, STOP_SECONDS);
    struct error why = ERROR_INIT;
    if (engine_call(e, "POST", path, NULL, wait, NULL, &why) == 0 || why.code == ERR_NOT_FOUND)
        return 0;
    return error_set(err, why.code, "stop it: %s", why.msg);
}

int container_await_end(struct engine *e, const char *container, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/%s/wait?condition=not-running", container);
    return engine_call(e, "POST", path, NULL, wait, NULL, err);
}

/* 1: it is on its way from running to stopped; 0: it isn't; -1. */
static int is_stopping(struct engine *e, const char *container, const struct wait *wait, struct error *err)
{
    static const char *const passing[] = {"stopping", "stopped", "removing"};
    struct container_look look;
    if (container_look(e, container, wait, &look, err) < 0)
        return -1;
    _cleanup_(cleanup_json_decref) json_t *inspect = look.inspect;
    const char *status = json_get_string(json_get_object(inspect, "State"), "Status");
    for (size_t n = 0; status && n < ARRAY_LEN(passing); n++)
        if (strcmp(status, passing[n]) == 0)
            return 1;
    return 0;
}

int container_await_stop(struct engine *e, const char *container, const struct wait *wait, struct error *err)
{
    int passing;
    struct wait bounded = wait_at_most(wait, clock_now() + STOP_TIMEOUT_NS);
    for (int ms = 5; (passing = is_stopping(e, container, &bounded, err)) == 1; ms = ms < 200 ? ms * 2 : ms)
        if (wait_pause(&bounded, ms * NSEC_PER_MSEC, err) < 0)
            return -1;
    return passing;
}

/* Removal by the engine itself (the container's process has ended) may be under way: then it says so, and is
 * asked again until there is nothing. */
int container_remove(struct engine *e, const char *container, const struct wait *wait, struct error *err)
{
    _cleanup_(cleanup_free) char *path = xasprintf("/containers/%s?force=1&v=1", container);
    struct wait bounded = wait_at_most(wait, clock_now() + REMOVE_TIMEOUT_NS);
    struct error why = ERROR_INIT;
    for (int ms = 5;; ms = ms < 200 ? ms * 2 : ms) {
        why = (struct error)ERROR_INIT;
        if (engine_call(e, "DELETE", path, NULL, &bounded, NULL, &why) == 0 || why.code == ERR_NOT_FOUND)
            return 0;
        bool passing = why.code == ERR_EXISTS || podman_is_passing(&why);
        if (!passing || wait_pause(&bounded, ms * NSEC_PER_MSEC, NULL) < 0)
            return error_set(err, passing ? ERR_BUSY : why.code, "remove it: %s", why.msg);
    }
}
