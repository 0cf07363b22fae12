/* Prints the manual page's source: the template with its line @OPTIONS@ replaced by the options table, as
 * scdoc(5) has it. */
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "config/state.h"

/* Text in which no character means anything to scdoc. */
static void print_escaped(const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\*_~[]|#<>", *text) != NULL)
            putchar('\\');
        putchar(*text);
    }
}

static void print_option(const struct option_row *row)
{
    _cleanup_(buf_done) struct buf usage = BUF_INIT(CONFIG_TEXT_MAX);
    _cleanup_(buf_done) struct buf text = BUF_INIT(CONFIG_TEXT_MAX);
    option_usage(row, &usage);
    option_describe(row, false, &text);
    putchar('*');
    print_escaped(buf_str(&usage));
    fputs("*\n\t", stdout);
    print_escaped(buf_str(&text));
    fputs("\n\n", stdout);
}

static void print_options(void)
{
    for (int group = 0; group < GROUP_COUNT; group++) {
        printf("## %s%s\n\n", option_groups[group].title,
               option_groups[group].later ? " (not in this version)" : "");
        for (size_t i = 0; i < option_row_count; i++)
            if ((int)option_rows[i].group == group)
                print_option(&option_rows[i]);
    }
}

int main(int argc, char **argv)
{
    FILE *template = argc == 2 ? fopen(argv[1], "re") : NULL;
    if (template == NULL) {
        fprintf(stderr, "usage: make-manpage TEMPLATE\n");
        return 1;
    }
    char line[1024];
    while (fgets(line, sizeof(line), template) != NULL) {
        if (strcmp(line, "@OPTIONS@\n") == 0)
            print_options();
        else
            fputs(line, stdout);
    }
    fclose(template);
    return fflush(stdout) == 0 ? 0 : 1;
}
