/* The program on the other side. Started by the server as its zygote, it makes computers and then lives on in
 * each as its first process. In a container that others make it serves commands over a stream; in a machine
 * without streams it is the main process, and each command a job. Static,
 * without libraries, and small, since each computer carries a copy of its memory. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/job.h"
#include "guest/job_wire.h"
#include "guest/machine.h"
#include "guest/serve.h"
#include "guest/serve_wire.h"
#include "guest/title.h"
#include "guest/wire.h"
#include "guest/zygote.h"

int main(int argc, char **argv)
{
    const bool first = argc == 3 && strcmp(argv[2], SERVE_FIRST) == 0;
    if ((argc == 2 || first) && strcmp(argv[1], SERVE_COMMAND) == 0) {
        title_begin(argv[0]);
        title_set("sandbox-guest");
        return serve_run(false, first);
    }
    if (argc >= 3 && strcmp(argv[1], JOB_COMMAND) == 0)
        return job_run(argv);
    if (argc == 3 && strcmp(argv[1], JOB_MAIN) == 0)
        return machine_run(argv[0], (unsigned)strtoul(argv[2], NULL, 10));
    if (argc != 1 || strcmp(argv[0], "sandbox-zygote") != 0 ||
        fcntl(GUEST_FD_CONTROL, F_SETFD, FD_CLOEXEC) < 0) {
        fprintf(stderr, "This program is run by the sandbox server only.\n");
        return 2;
    }
    setsid(); /* no terminal of the server's, for us and all to come */
    umask(022);
    title_begin(argv[0]);
    return zygote_run();
}
