/* One signal to everybody: the kernel sends it to all that the first process can see at once, so that nobody
 * has the time to fork, whatever session, group or user it is of; the first process itself is left out. It is
 * sent over and over until there is nobody to send it to, which is only then when the last one that had ended
 * was collected: nothing of what ran is left when the answer goes out. */
#include "guest/clear.h"

#include <errno.h>
#include <signal.h>

#include "guest/frames.h"
#include "guest/sys.h"

#define AGAIN_NS (50 * NS_PER_MS)
#define PATIENCE_NS (10 * NS_PER_S) /* there may be some that we may not kill, or that the kernel holds */

static struct {
    uint32_t id; /* 0: none is on */
    int64_t again, until;
} clear;

static void answer(uint32_t id, int sys)
{
    const struct serve_end end = {
        .exit = {.id = id, .stage = sys ? GUEST_STAGE_REQUEST : GUEST_STAGE_RAN, .sys = sys}};
    frames_put_end(id, &end);
}

void clear_begin(uint32_t id, bool first_process)
{
    if (!first_process) {
        answer(id, EPERM);
        return;
    }
    clear.id = id;
    clear.until = sys_clock_ns() + PATIENCE_NS;
}

bool clear_is_on(void)
{
    return clear.id != 0;
}

int64_t clear_due(void)
{
    return clear_is_on() ? clear.again : INT64_MAX;
}

void clear_go_on(int64_t now)
{
    if (!clear_is_on())
        return;
    const bool alone = kill(-1, SIGKILL) < 0 && errno == ESRCH;
    clear.again = now + AGAIN_NS;
    if ((!alone && now < clear.until) || !frames_can_answer())
        return;
    answer(clear.id, alone ? 0 : ETIMEDOUT);
    clear.id = 0;
}
