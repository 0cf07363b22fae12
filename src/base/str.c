/* String helpers. The locale is never set, so that the C library's number and case functions are plain ASCII.
 */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"
#include "base/mem.h"

#define BLANKS " \t\n\v\f\r"

bool str_has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_has_suffix(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

bool str_equal_nocase(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}

char *str_trim(const char *s)
{
    s += strspn(s, BLANKS);
    size_t n = strlen(s);
    while (n > 0 && strchr(BLANKS, s[n - 1]))
        n--;
    return xstrndup(s, n);
}

bool str_parse_i64(const char *s, int64_t *ret)
{
    const char *digits = s + (*s == '-' || *s == '+');
    if (!isdigit((unsigned char)*digits))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(s, &end, 10);
    if (errno != 0 || *end)
        return false;
    *ret = value;
    return true;
}

bool str_parse_double(const char *s, double *ret)
{
    /* strtod(3) would also take blanks, hexadecimal, "inf" and "nan". */
    if (!*s || s[strspn(s, "0123456789+-.eE")])
        return false;
    char *end;
    double value = strtod(s, &end);
    if (end == s || *end || !isfinite(value))
        return false;
    *ret = value;
    return true;
}

/* The factor that a size's suffix stands for, 0 if it is none. */
static int64_t size_unit(const char *suffix)
{
    static const struct {
        char letter;
        int64_t factor;
    } units[] = {{'k', 1LL << 10}, {'m', 1LL << 20}, {'g', 1LL << 30}, {'t', 1LL << 40}};

    int64_t factor = 1;
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (tolower((unsigned char)*suffix) == units[i].letter)
            factor = units[i].factor;
    if (factor > 1)
        suffix++;
    bool known = !*suffix || str_equal_nocase(suffix, "b") || (factor > 1 && str_equal_nocase(suffix, "ib"));
    return known ? factor : 0;
}

bool str_parse_size(const char *s, int64_t *ret)
{
    if (!isdigit((unsigned char)*s))
        return false;
    char *end;
    errno = 0;
    long long whole = strtoll(s, &end, 10);
    if (errno != 0)
        return false;

    double fraction = 0;
    if (*end == '.') {
        size_t digits = strspn(end + 1, "0123456789");
        if (digits == 0)
            return false;
        double place = 0.1;
        for (size_t i = 1; i <= digits; i++, place /= 10)
            fraction += (end[i] - '0') * place;
        end += 1 + digits;
    }

    int64_t unit = size_unit(end), bytes;
    if (unit == 0 || __builtin_mul_overflow((int64_t)whole, unit, &bytes) ||
        __builtin_add_overflow(bytes, (int64_t)(fraction * (double)unit), &bytes))
        return false;
    *ret = bytes;
    return true;
}

bool str_parse_bool(const char *s, bool *ret)
{
    static const char *const words[2][4] = {{"false", "0", "no", "off"}, {"true", "1", "yes", "on"}};

    _cleanup_(cleanup_free) char *word = str_trim(s);
    for (int value = 0; value < 2; value++)
        for (size_t i = 0; i < ARRAY_LEN(words[value]); i++)
            if (str_equal_nocase(word, words[value][i])) {
                *ret = value;
                return true;
            }
    return false;
}

static int min3(int a, int b, int c)
{
    int least = a < b ? a : b;
    return least < c ? least : c;
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

int str_edit_distance(const char *a, const char *b, int max)
{
    enum { LONGEST = 64 };
    size_t n = strnlen(a, LONGEST + 1), m = strnlen(b, LONGEST + 1);
    if (n > LONGEST || m > LONGEST)
        return max + 1;

    /* rows[0] is the row before the last, for swaps; rows[1] the last one; rows[2] the one being filled. */
    int rows[3][LONGEST + 1] = {0};
    for (size_t j = 0; j <= m; j++)
        rows[1][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        rows[2][0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int replace = rows[1][j - 1] + !same_letter(a[i - 1], b[j - 1]);
            rows[2][j] = min3(rows[1][j] + 1, rows[2][j - 1] + 1, replace);
            bool swapped =
                i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
            if (swapped && rows[0][j - 2] + 1 < rows[2][j])
                rows[2][j] = rows[0][j - 2] + 1;
        }
        memmove(rows[0], rows[1], 2 * sizeof(rows[0]));
    }
    return rows[1][m] <= max ? rows[1][m] : max + 1;
}
