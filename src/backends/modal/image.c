/* Images: what is wanted, and our program in it as the last layer. Modal builds one when it is first asked
 * for, and knows it afterwards by what it is made of, whoever asks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/contact.h"
#include "backends/modal/api.h"
#include "backends/modal/control.h"
#include "backends/native/image.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/str.h"

#define FOLDER "/.sandbox"
#define NAME_SIZE 32
#define JOIN_S 55.0F /* that one stream of a build's progress lasts */
#define JOIN_SLACK_NS (30 * NSEC_PER_SEC)
#define JOINS_FAILED_MAX 5 /* one after the other */
#define BUILD_SECONDS LIMIT_PULL_SECONDS
#define ID_PREFIX "im-"
#define BASE_TAG "base"
#define WORDS_MAX 300
#define SUCCESS 1
#define FAILURE 2

/* It tells which program it is: images outlive servers. */
static void program_name(char ret[NAME_SIZE])
{
    char digest[SHA256_HEX_SIZE];
    sha256_hex(guest_image, guest_image_size, digest);
    snprintf(ret, NAME_SIZE, "guest-%.16s", digest);
}

void modal_guest_path(char ret[MODAL_GUEST_PATH_SIZE])
{
    char name[NAME_SIZE];
    program_name(name);
    snprintf(ret, MODAL_GUEST_PATH_SIZE, FOLDER "/%s", name);
}

/* A build under way. */
struct build {
    const char *reference;
    const struct progress *progress;
    char id[MODAL_ID_SIZE];
    char *entry; /* the last one that was told */
    char *words; /* the last line of its log */
    int status;  /* 0: it isn't over */
    char *exception;
};

static void build_done(struct build *b)
{
    free(b->entry);
    free(b->words);
    free(b->exception);
}

static void take_outcome(struct build *b, const Modal__Outcome *o)
{
    if (!o || o->status == 0)
        return;
    b->status = o->status;
    free(b->exception);
    b->exception = contact_beginning(o->exception, WORDS_MAX);
}

static int take_id(struct build *b, const Modal__ImageMade *made, struct error *err)
{
    if (!modal_is_id(made->id))
        return error_set(err, ERR_UNAVAILABLE, "Modal answered without the id of an image");
    strcpy(b->id, made->id);
    take_outcome(b, made->outcome);
    return 0;
}

/* It begins a line of a Dockerfile. */
static int check_reference(const char *reference, struct error *err)
{
    for (const char *c = reference; *c; c++)
        if (*c <= ' ' || *c > '~')
            return error_set(err, ERR_INVALID, "'%.80s' is no name of an image", reference);
    if (!*reference || *reference == '-')
        return error_set(err, ERR_INVALID, "an image is named like debian:bookworm-slim, not '%.80s'",
                         reference);
    return 0;
}

static int ask_for(struct modal_account *a, struct build *b, const struct wait *wait, struct error *err)
{
    char app[MODAL_ID_SIZE], version[MODAL_ID_SIZE], name[NAME_SIZE];
    if (check_reference(b->reference, err) < 0 || modal_app_id(a, wait, app, err) < 0 ||
        modal_builder_version(a, wait, version, err) < 0)
        return -1;
    const bool known = str_has_prefix(b->reference, ID_PREFIX) && modal_is_id(b->reference);
    program_name(name);
    _cleanup_(cleanup_free) char *from = xasprintf("FROM %s", known ? BASE_TAG : b->reference);
    _cleanup_(cleanup_free) char *copy = xasprintf("COPY /%s " FOLDER "/%s", name, name);
    _cleanup_(cleanup_free) char *mode = xasprintf("RUN chmod 755 " FOLDER "/%s", name);
    _cleanup_(cleanup_free) char *file = xasprintf("/%s", name);
    char *commands[] = {from, copy, mode};

    Modal__BaseImage base = MODAL__BASE_IMAGE__INIT, *bases[] = {&base};
    base.id = (char *)(uintptr_t)b->reference;
    base.tag = (char *)(uintptr_t)BASE_TAG;
    Modal__ContextFile program = MODAL__CONTEXT_FILE__INIT, *context[] = {&program};
    program.name = file;
    program.data = (ProtobufCBinaryData){guest_image_size, (uint8_t *)(uintptr_t)guest_image};
    Modal__Image image = MODAL__IMAGE__INIT;
    image.bases = bases;
    image.n_bases = known;
    image.commands = commands;
    image.n_commands = ARRAY_LEN(commands);
    image.context = context;
    image.n_context = ARRAY_LEN(context);
    Modal__ImageWanted wanted = MODAL__IMAGE_WANTED__INIT;
    wanted.image = &image;
    wanted.app = app;
    wanted.builder_version = version;
    const struct modal_call call = {.name = "ImageGetOrCreate",
                                    .request = MODAL_MESSAGE(&wanted),
                                    .answer = &modal__image_made__descriptor};
    _cleanup_(cleanup_modal_free) Modal__ImageMade *made = modal_control(a, &call, wait, err);
    return made ? take_id(b, made, err) : -1;
}

/* --- meanwhile --- */

static void tell(struct build *b, const char *text)
{
    _cleanup_(cleanup_free) char *words = contact_beginning(text, WORDS_MAX);
    if (!words[0])
        return;
    free(b->words);
    b->words = TAKE_PTR(words);
    if (!b->progress)
        return;
    _cleanup_(cleanup_free) char *all =
        xasprintf("Modal builds the image %.100s: %s", b->reference, b->words);
    b->progress->tell(b->progress->ctx, all, 0, 0);
}

static void take_progress(struct build *b, const Modal__ImageProgress *p)
{
    for (size_t i = 0; i < p->n_logs; i++)
        tell(b, p->logs[i]->data);
    if (p->entry[0] && strlen(p->entry) < KIB) {
        free(b->entry);
        b->entry = xstrdup(p->entry);
    }
    take_outcome(b, p->outcome);
}

/* One stream of it, until it ends or the build does. */
static int join(struct modal_account *a, struct build *b, const struct wait *wait, struct grpc_status *status,
                struct error *err)
{
    Modal__ImageJoin asked = MODAL__IMAGE_JOIN__INIT;
    asked.id = b->id;
    asked.timeout = JOIN_S;
    asked.last_entry = b->entry ? b->entry : asked.last_entry;
    const struct wait bounded =
        wait_at_most(wait, clock_now() + (int64_t)JOIN_S * NSEC_PER_SEC + JOIN_SLACK_NS);
    _cleanup_(buf_done) struct buf message = BUF_INIT(GRPC_MESSAGE_MAX);
    struct grpc_stream *s = modal_control_open(a, "ImageJoinStreaming", MODAL_MESSAGE(&asked), &bounded, err);
    int more = s ? 1 : -1;
    while (more > 0 && b->status == 0) {
        more = grpc_next(s, &bounded, &message, status, err);
        if (more <= 0)
            break;
        _cleanup_(cleanup_modal_free) Modal__ImageProgress *p =
            modal_unpack(&modal__image_progress__descriptor, buf_str(&message), message.len, err);
        if (p)
            take_progress(b, p);
        else
            more = -1;
    }
    grpc_close(s);
    return more < 0 ? -1 : 0;
}

static int await_end(struct modal_account *a, struct build *b, const struct wait *wait, struct error *err)
{
    for (struct modal_retry retry = {0}; b->status == 0;) {
        struct error why = ERROR_INIT;
        _cleanup_(grpc_status_done) struct grpc_status status = GRPC_STATUS_INIT;
        if (join(a, b, wait, &status, &why) == 0) {
            retry.failures = 0;
            if (b->status == 0 && !pace_pause(wait, pace_delay(0))) /* should it end at once, over and over */
                return error_set(err, ERR_TIMEOUT, "Modal is still building the image '%.100s'",
                                 b->reference);
            continue;
        }
        if (wait_was_over(&why) && wait_check(wait, NULL) < 0)
            return error_set(err, why.code, "Modal is still building the image '%.100s': %s", b->reference,
                             why.msg);
        modal_attempt_over(wait, &status, &why);
        if (!modal_retry(a->pace, &retry, &status, &why, wait))
            return modal_told(a, "Modal", &status, &why, err);
    }
    return 0;
}

static int conclude(struct build *b, char ret[MODAL_ID_SIZE], struct error *err)
{
    if (b->status == SUCCESS) {
        strcpy(ret, b->id);
        return 0;
    }
    const char *words = b->exception && b->exception[0] ? b->exception
                        : b->words                      ? b->words
                                                        : "it doesn't say why";
    return error_set(err, b->status == FAILURE ? ERR_INVALID : ERR_UNAVAILABLE,
                     "Modal can't build the image '%.100s': %s", b->reference, words);
}

struct wish {
    const char *reference;
    const struct progress *progress;
};

static int find_image(struct modal_account *a, void *ctx, const struct wait *wait, char ret[MODAL_ID_SIZE],
                      struct error *err)
{
    const struct wish *w = ctx;
    _cleanup_(build_done) struct build b = {.reference = w->reference, .progress = w->progress};
    const struct wait bounded = wait_at_most(wait, clock_now() + BUILD_SECONDS * NSEC_PER_SEC);
    if (ask_for(a, &b, &bounded, err) < 0 || await_end(a, &b, &bounded, err) < 0)
        return -1;
    return conclude(&b, ret, err);
}

/* The image's place among those that are remembered, a new one if need be, for leave(). NULL: all are in use.
 */
static struct modal_image *enter(struct modal_account *a, const char *reference)
{
    struct modal_image *found = NULL;
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < MODAL_IMAGES_MAX && !found; i++)
        if (a->images[i].reference && strcmp(a->images[i].reference, reference) == 0)
            found = &a->images[i];
    for (size_t i = 0; i < MODAL_IMAGES_MAX && !found; i++) {
        struct modal_image *one = &a->images[a->next_image++ % MODAL_IMAGES_MAX];
        if (one->users > 0)
            continue;
        free(one->reference);
        *one = (struct modal_image){.reference = xstrdup(reference)};
        found = one;
    }
    if (found)
        found->users++;
    pthread_mutex_unlock(&a->lock);
    return found;
}

static void leave(struct modal_account *a, struct modal_image *i)
{
    pthread_mutex_lock(&a->lock);
    i->users--;
    pthread_mutex_unlock(&a->lock);
}

int modal_image_get(struct modal_account *a, const char *reference, const struct progress *progress,
                    const struct wait *wait, char ret_id[MODAL_ID_SIZE], struct error *err)
{
    struct wish wish = {reference, progress};
    struct modal_image *i = enter(a, reference);
    if (!i)
        return error_set(err, ERR_BUSY, "%d images of Modal are being made already", MODAL_IMAGES_MAX);
    const int failed = modal_know(a, &i->id, find_image, &wish, wait, ret_id, err);
    leave(a, i);
    return failed;
}

/* Modal's own clients take both answers for an image that isn't there. */
int modal_image_delete(struct modal_account *a, const char *id, const struct wait *wait, struct error *err)
{
    struct error why = ERROR_INIT;
    Modal__ImageDelete wanted = MODAL__IMAGE_DELETE__INIT;
    wanted.id = (char *)(uintptr_t)id;
    const struct modal_call call = {
        .name = "ImageDelete", .request = MODAL_MESSAGE(&wanted), .answer = &modal__nothing__descriptor};
    _cleanup_(cleanup_modal_free) Modal__Nothing *nothing = modal_control(a, &call, wait, &why);
    if (nothing || why.code == ERR_NOT_FOUND || strstr(why.msg, "Could not find image"))
        return 0;
    return error_set(err, why.code, "%s", why.msg);
}
