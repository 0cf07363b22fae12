/* embed OUTPUT NAME FILE [NAME FILE ...]: writes C source that defines, for each pair, `const unsigned char
 * NAME[]`, followed by a NUL that doesn't count, and `const size_t NAME_size`. Runs on the building machine.
 */
#include <stdio.h>

static int embed(FILE *out, const char *name, const char *path)
{
    FILE *in = fopen(path, "rb");
    if (!in) {
        perror(path);
        return -1;
    }
    size_t size = 0;
    fprintf(out, "extern const unsigned char %s[];\nextern const size_t %s_size;\n", name, name);
    fprintf(out, "const unsigned char %s[] = {", name);
    for (int c; (c = getc(in)) != EOF; size++)
        fprintf(out, "%s%d,", size % 24 ? "" : "\n", c);
    fprintf(out, "0};\nconst size_t %s_size = %zu;\n", name, size);
    int failed = ferror(in);
    fclose(in);
    return failed ? -1 : 0;
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc % 2) {
        fprintf(stderr, "usage: embed OUTPUT NAME FILE [NAME FILE ...]\n");
        return 2;
    }
    FILE *out = fopen(argv[1], "wb");
    if (!out) {
        perror(argv[1]);
        return 1;
    }
    fprintf(out, "/* Made by tools/embed.c. */\n#include <stddef.h>\n");
    for (int i = 2; i < argc; i += 2)
        if (embed(out, argv[i], argv[i + 1]) < 0)
            return 1;
    return fclose(out) ? 1 : 0;
}
