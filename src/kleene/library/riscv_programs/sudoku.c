/* Solves a Sudoku: the puzzle given as 81 digits (0 or . for empty), or a hard one. */
#include <stdio.h>

static int cell[81], row[9], column[9], box[9];

static int options(int at) { return ~(row[at / 9] | column[at % 9] | box[at / 27 * 3 + at % 9 / 3]) & 0x3fe; }

static void flip(int at, int bit) {
    row[at / 9] ^= bit;
    column[at % 9] ^= bit;
    box[at / 27 * 3 + at % 9 / 3] ^= bit;
}

static int count(int bits) {
    int found = 0;
    for (; bits; bits &= bits - 1) found++;
    return found;
}

static long tried;

static int solve(void) {
    int best = -1, fewest = 10;
    for (int at = 0; at < 81; at++)
        if (!cell[at]) {
            int open = count(options(at));
            if (open < fewest) best = at, fewest = open;
        }
    if (best < 0) return 1;
    int left = options(best);
    for (int digit = 1; digit <= 9; digit++)
        if (left >> digit & 1) {
            tried++;
            cell[best] = digit;
            flip(best, 1 << digit);
            if (solve()) return 1;
            flip(best, 1 << digit);
        }
    cell[best] = 0;
    return 0;
}

int main(int arguments, char **given) {
    const char *puzzle =
        arguments > 1 ? given[1]
                      : "800000000003600000070090200050007000000045700000100030001000068008500010090000400";
    for (int at = 0; at < 81; at++) {
        if (!puzzle[at]) return puts("give 81 digits"), 2;
        cell[at] = puzzle[at] >= '1' && puzzle[at] <= '9' ? puzzle[at] - '0' : 0;
        if (cell[at]) flip(at, 1 << cell[at]);
    }
    if (!solve()) return puts("no solution"), 1;
    for (int at = 0; at < 81; at++) printf("%d%c", cell[at], at % 9 == 8 ? '\n' : ' ');
    printf("%ld digits tried\n", tried);
    return 0;
}
