/* The contract, held against the fake: the tests that use it may rely on it, and no case is shaped after one
 * real backend. */
#include "contract/contract.h"
#include "fakes/fake_backend.h"

static struct backend *make(const char *state_dir)
{
    return fake_backend_new(BACKEND_PERSISTENT | BACKEND_GUEST, NULL);
}

int main(void)
{
    return contract_run("contract: fake", make);
}
