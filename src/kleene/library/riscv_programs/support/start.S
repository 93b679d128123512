# Kleene's RISC-V computer: from the first instruction to main(argc, argv), and to exit.
# The driver puts argc and argv at the top of memory and points sp there.
    .section .text.start
    .globl _start
_start:
    .option push
    .option norelax
    la gp, __global_pointer$
    .option pop
    la tp, __thread_data
    lw a0, 0(sp)
    addi a1, sp, 4
    andi sp, sp, -16
    la t0, __bss_start
    la t1, _end
clear:
    bgeu t0, t1, ready
    sw zero, 0(t0)
    addi t0, t0, 4
    j clear
ready:
    call main
    .globl _exit
_exit:
    li t0, 0x7ffffff8
    sw a0, 0(t0)
forever:
    j forever
