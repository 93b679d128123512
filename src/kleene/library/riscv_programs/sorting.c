/* Sorts words that malloc holds with qsort, and prints numbers with printf. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(void) {
    const char *text = "the quick brown fox jumps over the lazy dog while seven wizards box";
    char **words = malloc(20 * sizeof *words), *copy = strdup(text);
    int count = 0;
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) words[count++] = word;
    qsort(words, count, sizeof *words, by_text);
    for (int k = 0; k < count; k++) printf("%s%c", words[k], k + 1 < count ? ' ' : '\n');
    int *numbers = malloc(1000 * sizeof *numbers), total = 0;
    unsigned long state = 1;
    for (int k = 0; k < 1000; k++) {
        state = state * 1103515245 + 12345;
        numbers[k] = state >> 16 & 0x7fff;
    }
    qsort(numbers, 1000, sizeof *numbers, by_number);
    for (int k = 1; k < 1000; k++) total += numbers[k - 1] <= numbers[k];
    printf("%d of 999 pairs in order; least %d, median %d, most %d; mean %.3f\n", total, numbers[0], numbers[500],
           numbers[999], (double)(numbers[0] + numbers[500] + numbers[999]) / 3);
    free(numbers);
    free(copy);
    free(words);
    return 0;
}
