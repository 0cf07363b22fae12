/* Filling of error records: see report.h. */
#include "guest/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int report(struct guest_error *err, const char *stage)
{
    return report_text(err, errno, stage, "");
}

int report_at(struct guest_error *err, const char *stage, const char *what)
{
    int sys = errno;
    memset(err, 0, sizeof(*err));
    err->sys = sys;
    snprintf(err->stage, sizeof(err->stage), "%s %s", stage, what);
    return -1;
}

int report_text(struct guest_error *err, int sys, const char *stage, const char *text)
{
    memset(err, 0, sizeof(*err));
    err->sys = sys;
    snprintf(err->stage, sizeof(err->stage), "%s", stage);
    snprintf(err->text, sizeof(err->text), "%s", text);
    return -1;
}
