/* Pid 1 of a computer. */
#pragma once

#include "guest/wire.h"

/* The zygote's descriptors that init keeps, and where init puts its own. */
enum {
    FD_CHANNEL = GUEST_FD_CONTROL, /* the zygote's control socket, in init its channel */
    FD_SERVER,                     /* pidfd of the server */
    FD_SIGNALS, /* signalfd: what it yields depends on who reads, so one description serves all */
    FD_SYNC,    /* until the mount namespace is copied; then what reapers report on */
    FD_PROC,    /* with GUEST_PROC_HIDDEN: the /proc around, for the reapers; see reaper.h */
};

struct init_start {
    const struct guest_create *create;
    uint32_t root_flags; /* GUEST_ROOT_* */
    unsigned slot;       /* of the lower */
    int channel;
    int sync; /* a byte comes when ids are mapped and the lower is attached; we close it when we have copied
                 the mounts */
};

/* In the process just cloned. */
_Noreturn void init_run(const struct init_start *start);
