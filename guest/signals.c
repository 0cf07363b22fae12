/* Actions and masks are inherited by all that will ever run in a computer: they start with defaults. The C
 * library would leave out the signals that it keeps for itself. */
#include "guest/signals.h"

#include <stdint.h>
#include <sys/signalfd.h>

#include "guest/init.h"
#include "guest/reaper.h"
#include "guest/sys.h"

int signals_take(const sigset_t *more)
{
    static const uint64_t default_action[4]; /* of the kernel's struct sigaction: all zero */
    for (int i = 1; i < NSIG; i++)
        syscall(SYS_rt_sigaction, i, default_action, NULL, sizeof(uint64_t));
    sigset_t all, awaited;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    if (more)
        awaited = *more;
    else
        sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, REAPER_KILL_SIGNAL);
    return sys_move_fd(signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK), FD_SIGNALS);
}
