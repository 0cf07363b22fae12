/* Names of hosts as text. */
#include "base/host.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/str.h"

bool host_is_loopback(const char *name)
{
    struct in_addr address;
    if (inet_pton(AF_INET, name, &address) == 1)
        return ntohl(address.s_addr) >> 24 == 127;
    return strcmp(name, "::1") == 0 || strcmp(name, "[::1]") == 0 || str_equal_nocase(name, "localhost");
}
