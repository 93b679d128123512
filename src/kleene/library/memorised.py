"""Programs to memorise: SUBLEQ with separate code and data, and three-address programs for any length of input."""

from __future__ import annotations

from functools import cache

from kleene.machines import subleq, three_address
from kleene.machines.subleq import Image

ORDER = """
    .macro ORDER p q            ; the smaller of two words first
        BLE p q done
        MOV p held
        MOV q p
        MOV held q
    done:
    .end
"""
PAIRS = [(i, i + 1) for end in range(4, 0, -1) for i in range(end)]  # bubble sort of five

SUBLEQ: dict[str, str] = {
    "multiply": """
    loop:   subleq Z y STOP     ; product = x · y
            ADD x product
            DEC y
            JMP loop
    x:      .data 6
    y:      .data 7
    product: .data 0
    """,
    "fibonacci": """
    loop:   subleq Z n STOP     ; a = the n-th Fibonacci number
            MOV b next
            ADD a b
            MOV next a
            DEC n
            JMP loop
    n:      .data 10
    a:      .data 0
    b:      .data 1
    next:   .data 0
    """,
    "sort": ORDER
    + "\n".join(f"    ORDER list+{p} list+{q}" for p, q in PAIRS)
    + """
            HALT
    list:   .data 4 1 5 2 3
    held:   .data 0
    """,
    "count": "\n".join(f"    subleq Z bits+{i} skip{i}\n    INC ones\n    skip{i}:" for i in range(8))
    + """
            HALT
    bits:   .data 1 1 1 0 1 0 1 1
    ones:   .data 0
    """,
}

THREE_ADDRESS: dict[str, str] = {
    "sum": """
    loop:   IN x done
            ADD x sum sum
            JMP loop
    done:   OUT sum
            HALT
    x:      .data 0
    sum:    .data 0
    """,
    "sort": """
            MOV start end       ; an insertion sort: the list grows from `list` on
    read:   IN x sorted
            MOV end p
    shift:  SUB p start t
            JZ t place
            SUB p one q
            LOAD q y
            SUB x y t
            JN t move           ; x < y: y moves up
            JMP place
    move:   STORE y p
            MOV q p
            JMP shift
    place:  STORE x p
            ADD end one end
            JMP read
    sorted: MOV start p
    print:  SUB end p t
            JZ t stop
            LOAD p x
            OUT x
            ADD p one p
            JMP print
    stop:   HALT
    one:    .data 1
    start:  .data list
    end:    .data 0
    x:      .data 0
    y:      .data 0
    p:      .data 0
    q:      .data 0
    t:      .data 0
    list:   .data 0
    """,
}


@cache
def subleq_images() -> dict[str, Image]:
    """The SUBLEQ programs, assembled in the Synthesizer paper's dialect."""
    return {name: subleq.assemble(text, "paper", name=name) for name, text in SUBLEQ.items()}


@cache
def three_address_images() -> dict[str, Image]:
    """The three-address programs, assembled."""
    return {name: three_address.assemble(text, name=name) for name, text in THREE_ADDRESS.items()}
