/* A computer as its folder and its running commands show it. */
#include <stdio.h>

#include "backends/native/usage.h"
#include "backends/wasm/folder.h"
#include "backends/wasm/private.h"
#include "base/path.h"

#define FILES_MAX (1 << 20) /* counted */

int wasm_stat(struct instance *instance, bool usage, const struct wait *wait, struct instance_stat *ret,
              struct error *err)
{
    const struct wasm_instance *i = wasm_instance_of(instance);
    const struct wasm *w = i->wasm;
    struct usage used;
    (void)wait; /* nobody has to be asked */
    (void)err;
    *ret = (struct instance_stat){.disk_bytes = -1,
                                  .memory_limit = i->memory_bytes,
                                  .disk_limit = w->disk.bytes,
                                  .enforced = COMPUTER_MEMORY};
    snprintf(ret->provider_id, sizeof(ret->provider_id), "%s", i->key);
    snprintf(ret->image, sizeof(ret->image), "%s.wasm", w->stem);
    if (!usage)
        return 0;
    ret->pids = i->running;
    if (usage_measure(i->root, ".", FILES_MAX, &used, NULL) == 0 && used.bytes != USAGE_UNKNOWN)
        ret->disk_bytes = used.bytes;
    return 0;
}
