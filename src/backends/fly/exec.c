/* From a command to what it comes to. */
#include "backends/fly/private.h"

int fly_instance_exec(struct instance *instance, const struct exec_request *request, struct exec_result *ret,
                      struct error *err)
{
    struct fly_instance *i = fly_instance_of(instance);
    if (!fly_instance_alive(instance))
        return error_set(err, ERR_GONE, "it has ended");
    return shells_exec(&i->shells, fly_call, i, request, ret, err);
}
