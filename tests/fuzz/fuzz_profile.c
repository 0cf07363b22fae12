/* Fuzz: the profiles of Modal's client. What is refused says where; what is accepted has no text that is
 * empty. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "backends/modal/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {NULL, "a"};
    for (size_t i = 0; i < 2; i++) {
        struct error err = ERROR_INIT;
        struct modal_profile p = {.sandbox_v2 = -1};
        if (modal_profile_parse("file", (const char *)data, size, names[i], &p, &err) < 0) {
            assert(err.code == ERR_INVALID && strncmp(err.msg, "file", 4) == 0);
            continue;
        }
        assert((!p.token_id || *p.token_id) && (!p.server_url || *p.server_url));
        assert(p.sandbox_v2 >= -1 && p.sandbox_v2 <= 1);
        modal_profile_done(&p);
    }
    return 0;
}
