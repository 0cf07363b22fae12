/* An engine's address as text: unix://PATH, tcp://HOST[:PORT], ssh://[USER@]HOST[:PORT][/SOCKET]; without a
 * scheme a path or HOST[:PORT], as docker takes it. http:// and https:// stand for tcp://. */
#pragma once

#include "backends/engine/address.h"

/* Sets text, url, unix_path and ssh* of *ret, whose other members stay. tls: tcp:// is HTTP over TLS.
 * What goes to ssh holds nothing that it, or a shell on the far side, could take for anything but a name.
 * ERR_INVALID says what is wrong. */
int address_parse(const char *text, bool tls, struct engine_address *ret, struct error *err);
