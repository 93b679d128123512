/* Greets, and tells its arguments. */
#include <stdio.h>

int main(int count, char **arguments) {
    printf("Hello from %d bits of RISC-V.\n", (int)(8 * sizeof(void *)));
    for (int k = 1; k < count; k++) printf("argument %d: %s\n", k, arguments[k]);
    return 0;
}
