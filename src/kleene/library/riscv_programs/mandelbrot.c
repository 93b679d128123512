/* Draws the Mandelbrot set in floating point, which the compiler turns into whole numbers. */
#include <stdio.h>

int main(void) {
    for (int row = 0; row < 21; row++) {
        for (int column = 0; column < 64; column++) {
            float x = -2.2f + column * (3.2f / 63), y = -1.2f + row * (2.4f / 20), a = 0, b = 0;
            int steps = 0;
            while (steps < 40 && a * a + b * b < 4) {
                float next = a * a - b * b + x;
                b = 2 * a * b + y;
                a = next;
                steps++;
            }
            putchar(" .:-=+*%#@"[steps / 4 > 9 ? 9 : steps / 4]);
        }
        putchar('\n');
    }
    return 0;
}
