/* Kleene's RISC-V computer: standard input and output, and a heap, for picolibc. */
#include <stdio.h>
#include <stddef.h>

#define WRITE_BYTE (*(volatile unsigned char *)0x7ffffff0)
#define READ_BYTE (*(volatile int *)0x7ffffff4)

static int put(char c, FILE *file) {
    (void)file;
    WRITE_BYTE = c;
    return (unsigned char)c;
}

static int get(FILE *file) {
    (void)file;
    int c = READ_BYTE;
    return c < 0 ? _FDEV_EOF : c;
}

static FILE console = FDEV_SETUP_STREAM(put, get, NULL, _FDEV_SETUP_RW);
FILE *const stdin = &console;
FILE *const stdout = &console;
FILE *const stderr = &console;

void *sbrk(ptrdiff_t more) {
    extern char _end;
    static char *top = &_end;
    char here, *old = top;
    if (top + more + 1024 > &here) return (void *)-1; /* leave room for the stack */
    top += more;
    return old;
}

/* What abort, raise and assert ask for: there is one process, and a signal ends it as a shell would say. */
void _exit(int code); /* in start.S */
int getpid(void) { return 1; }
int kill(int process, int signal) {
    (void)process;
    _exit(128 + signal);
    return 0;
}
