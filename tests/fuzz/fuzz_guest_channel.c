/* Fuzz: a packet as init and the zygote get it from their sockets. What is accepted must be in order within
 * itself. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "guest/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_strings(char *const *strings, uint32_t count, const char *body, size_t body_size)
{
    for (uint32_t i = 0; i < count; i++)
        assert(strings[i] >= body && strings[i] + strlen(strings[i]) < body + body_size);
    assert(!strings[count]);
}

static void check_exec(const struct guest_exec *exec, char *body, size_t body_size)
{
    struct request_fds fds;
    struct request_exec request;
    (void)request_exec_fds(exec->flags, &fds);
    assert(fds.count <= GUEST_FDS_MAX && fds.status >= 2 && fds.status < (int)fds.count);
    if (!request_exec_parse(exec, body, body_size, &request))
        return;
    assert(request.cwd == body);
    check_strings(request.argv, exec->argc, body, body_size);
    check_strings(request.envp, exec->envc, body, body_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static _Alignas(8) char packet[GUEST_PACKET_MAX];
    if (size > sizeof(packet))
        return 0;
    memcpy(packet, data, size);
    memset(packet + size, 'x', sizeof(packet) - size); /* no NUL to be found by accident */
    switch (request_type(packet, size)) {
    case GUEST_EXEC:
        check_exec((const void *)packet, packet + sizeof(struct guest_exec),
                   size - sizeof(struct guest_exec));
        break;
    case GUEST_SETUP:
        (void)request_setup_ok((const void *)packet, 1);
        break;
    case GUEST_CREATE: {
        const struct guest_create *create = (const void *)packet;
        if (request_create_ok(create, 1 + (create->flags & GUEST_HAS_CGROUP2)))
            assert(strlen(create->folder) < sizeof(create->folder));
        break;
    }
    case GUEST_OPEN:
        assert(strlen(((const struct guest_open *)(const void *)packet)->path) < GUEST_PATH_MAX);
        break;
    default:
        break;
    }
    return 0;
}
