/* The dashboard: an MCP App (extension io.modelcontextprotocol/ui, 2026-01-26), one page that comes with the
 * server (web/dashboard). Any thread. */
#pragma once

#include <stdbool.h>

#include "base/json.h"

#define DASHBOARD_URI "ui://kilntainers/computers"
/* What a server that has it adds to its capabilities, under "extensions". */
#define DASHBOARD_EXTENSION "{\"io.modelcontextprotocol/ui\":{\"mimeTypes\":[\"text/html;profile=mcp-app\"]}}"

/* The members of its entry in resources/list; and of its item in the contents of resources/read. */
void dashboard_write_entry(struct json_writer *w);
void dashboard_write_contents(struct json_writer *w);
