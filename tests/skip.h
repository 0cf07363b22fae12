/* A skip that says why: the runner tells it with its last lines. After <cmocka.h>. */
#pragma once

#define skip_because(reason)                                                                                 \
    do {                                                                                                     \
        print_message("# %s\n", reason);                                                                     \
        skip();                                                                                              \
    } while (0)
