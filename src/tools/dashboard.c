/* See dashboard.h. */
#include "tools/dashboard.h"

#include <stddef.h>
#include <string.h>

#define TITLE "Sandbox Computer Dashboard"
#define MIME_TYPE "text/html;profile=mcp-app"
/* No csp means that the page may load nothing, and it needs nothing. */
#define META "{\"ui\":{\"csp\":{},\"prefersBorder\":true}}"

/* Made at build from web/dashboard. */
extern const unsigned char dashboard_page[];
extern const size_t dashboard_page_size;

static void write_kind(struct json_writer *w)
{
    jw_key(w, "uri");
    jw_string(w, DASHBOARD_URI);
    jw_key(w, "mimeType");
    jw_string(w, MIME_TYPE);
    jw_key(w, "_meta");
    jw_raw(w, META, strlen(META));
}

void dashboard_write_entry(struct json_writer *w)
{
    jw_begin_object(w);
    jw_key(w, "name");
    jw_string(w, TITLE);
    jw_key(w, "title");
    jw_string(w, TITLE);
    jw_key(w, "description");
    jw_string(w, "Your computers, with a terminal for each.");
    write_kind(w);
    jw_end_object(w);
}

void dashboard_write_contents(struct json_writer *w)
{
    jw_begin_object(w);
    write_kind(w);
    jw_key(w, "text");
    jw_string_n(w, dashboard_page, dashboard_page_size);
    jw_end_object(w);
}
