/* Plays checkers against itself: alpha-beta search on a board of 32 squares, three to five moves deep. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMPTY, MAN, KING };
typedef struct { signed char square[32]; } Board; /* positive: white, who moves up the board */
typedef struct { Board after; signed char from, to; } Move;

static long positions;

static int neighbour(int at, int direction) { /* 0, 1: up; 2, 3: down */
    int row = at / 4, column = at % 4 * 2 + (row & 1 ? 0 : 1);
    row += direction < 2 ? 1 : -1;
    column += direction & 1 ? 1 : -1;
    return row < 0 || row > 7 || column < 0 || column > 7 ? -1 : row * 4 + column / 2;
}

static int may_go(int piece, int direction) { return abs(piece) == KING || (piece > 0) == (direction < 2); }

static int jumps(const Board *board, int at, int from, Move *moves, int count) {
    int piece = board->square[at], found = 0;
    for (int direction = 0; direction < 4; direction++) {
        int over = neighbour(at, direction), to = over < 0 ? -1 : neighbour(over, direction);
        if (to < 0 || !may_go(piece, direction) || board->square[over] * piece >= 0 || board->square[to]) continue;
        Board next = *board;
        next.square[at] = next.square[over] = EMPTY;
        int crowned = abs(piece) == MAN && (piece > 0 ? to >= 28 : to < 4);
        next.square[to] = crowned ? 2 * piece : piece;
        int more = crowned ? 0 : jumps(&next, to, from, moves, count + found);
        if (!more && count + found < 40) {
            moves[count + found] = (Move){next, from, to};
            more = 1;
        }
        found += more;
    }
    return found;
}

static int moves_of(const Board *board, int side, Move *moves) {
    int count = 0;
    for (int at = 0; at < 32; at++)
        if (board->square[at] * side > 0) count += jumps(board, at, at, moves, count);
    if (count) return count;
    for (int at = 0; at < 32; at++) {
        int piece = board->square[at];
        for (int direction = 0; piece * side > 0 && direction < 4 && count < 40; direction++) {
            int to = neighbour(at, direction);
            if (to < 0 || !may_go(piece, direction) || board->square[to]) continue;
            Board next = *board;
            next.square[at] = EMPTY;
            next.square[to] = abs(piece) == MAN && (piece > 0 ? to >= 28 : to < 4) ? 2 * piece : piece;
            moves[count++] = (Move){next, at, to};
        }
    }
    return count;
}

static int worth(const Board *board) {
    int total = 0;
    for (int at = 0; at < 32; at++) {
        int piece = board->square[at], row = at / 4;
        if (abs(piece) == MAN) total += piece * (100 + 3 * (piece > 0 ? row : 7 - row));
        else total += piece * 80;
    }
    return total;
}

static int search(const Board *board, int side, int depth, int low, int high) {
    Move moves[40];
    positions++;
    int count = moves_of(board, side, moves);
    if (!count) return -10000 - depth;
    if (!depth) return side * worth(board);
    for (int k = 0; k < count; k++) {
        int value = -search(&moves[k].after, -side, depth - 1, -high, -low);
        if (value > low) low = value;
        if (low >= high) break;
    }
    return low;
}

int main(int arguments, char **given) {
    int depth = arguments > 1 ? atoi(given[1]) : 3, turns = arguments > 2 ? atoi(given[2]) : 12;
    Board board;
    memset(&board, 0, sizeof board);
    for (int at = 0; at < 12; at++) board.square[at] = MAN, board.square[31 - at] = -MAN;
    for (int turn = 0, side = 1; turn < turns; turn++, side = -side) {
        Move moves[40];
        int count = moves_of(&board, side, moves), best = -1, low = -20000;
        for (int k = 0; k < count; k++) {
            int value = -search(&moves[k].after, -side, depth - 1, -20000, -low);
            if (value > low) low = value, best = k;
        }
        if (best < 0) {
            printf("%s has no move\n", side > 0 ? "white" : "black");
            break;
        }
        printf("%2d. %s %d-%d (%d)\n", turn + 1, side > 0 ? "white" : "black", moves[best].from + 1,
               moves[best].to + 1, low);
        board = moves[best].after;
    }
    for (int row = 7; row >= 0; row--) {
        for (int column = 0; column < 8; column++) {
            int at = row * 4 + column / 2, here = (column & 1) == !(row & 1);
            putchar(here ? "Bb.wW"[board.square[at] + 2] : ' ');
        }
        putchar('\n');
    }
    printf("%ld positions\n", positions);
    return 0;
}
