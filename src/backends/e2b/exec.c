/* From a command to what it comes to. */
#include "backends/e2b/private.h"

int e2b_instance_exec(struct instance *instance, const struct exec_request *request, struct exec_result *ret,
                      struct error *err)
{
    struct e2b_instance *i = e2b_instance_of(instance);
    if (!e2b_instance_alive(instance))
        return error_set(err, ERR_GONE, "it has ended");
    return shells_exec(&i->shells, e2b_call, i, request, ret, err);
}
