/* A small Lisp: numbers, symbols, lists, quote, if, lambda, define; + - * < = cons car cdr atom. Reads its input. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Cell Cell;
struct Cell {
    enum { NUMBER, SYMBOL, PAIR, BUILTIN, CLOSURE } kind;
    long number; /* or the number of a builtin */
    char name[12];
    Cell *first, *rest, *scope; /* of a closure: parameters, body, scope */
};

static Cell *nil, *yes, *top;
static int ahead = ' ';

static Cell *make(int kind) {
    Cell *made = calloc(1, sizeof *made);
    if (!made) puts("out of memory"), exit(1);
    made->kind = kind;
    return made;
}

static Cell *number(long value) { Cell *made = make(NUMBER); made->number = value; return made; }
static Cell *cons(Cell *first, Cell *rest) { Cell *made = make(PAIR); made->first = first; made->rest = rest; return made; }

static Cell *symbol(const char *name) {
    Cell *made = make(SYMBOL);
    memcpy(made->name, name, strlen(name) < sizeof made->name ? strlen(name) : sizeof made->name - 1);
    return made;
}

static int is(Cell *cell, const char *name) { return cell->kind == SYMBOL && !strcmp(cell->name, name); }

static Cell *read(void) {
    while (isspace(ahead)) ahead = getchar();
    if (ahead == EOF) return NULL;
    if (ahead == '(' ) {
        Cell *list = nil, **end = &list;
        ahead = getchar();
        for (;;) {
            while (isspace(ahead)) ahead = getchar();
            if (ahead == ')') { ahead = getchar(); return list; }
            Cell *one = read();
            if (!one) return list;
            *end = cons(one, nil);
            end = &(*end)->rest;
        }
    }
    if (ahead == '\'') {
        ahead = getchar();
        return cons(symbol("quote"), cons(read(), nil));
    }
    char name[12];
    int length = 0;
    while (ahead != EOF && !isspace(ahead) && ahead != '(' && ahead != ')') {
        if (length < 11) name[length++] = (char)ahead;
        ahead = getchar();
    }
    name[length] = 0;
    if (isdigit((unsigned char)name[0]) || (name[0] == '-' && name[1])) return number(atol(name));
    return symbol(name);
}

static void print(Cell *cell) {
    if (cell->kind == NUMBER) printf("%ld", cell->number);
    else if (cell == nil) printf("()");
    else if (cell->kind == SYMBOL) printf("%s", cell->name);
    else if (cell->kind != PAIR) printf("<function>");
    else {
        putchar('(');
        for (; cell->kind == PAIR; cell = cell->rest) {
            print(cell->first);
            if (cell->rest->kind == PAIR) putchar(' ');
        }
        putchar(')');
    }
}

static Cell *bind(Cell *scope, Cell *name, Cell *value) { return cons(cons(name, value), scope); }

static Cell *find(Cell *scope, Cell *name) {
    for (Cell *at = scope; at != nil; at = at->rest)
        if (!strcmp(at->first->first->name, name->name)) return at->first->rest;
    for (Cell *at = top; at != nil; at = at->rest)
        if (!strcmp(at->first->first->name, name->name)) return at->first->rest;
    printf("unknown: %s\n", name->name);
    exit(1);
}

static const char *builtins[] = {"+", "-", "*", "<", "=", "cons", "car", "cdr", "atom"};

static Cell *apply_builtin(int which, Cell *given) {
    Cell *a = given->first, *b = given->rest == nil ? nil : given->rest->first;
    switch (which) {
        case 0: return number(a->number + b->number);
        case 1: return number(a->number - b->number);
        case 2: return number(a->number * b->number);
        case 3: return a->number < b->number ? yes : nil;
        case 4: return a->number == b->number ? yes : nil;
        case 5: return cons(a, b);
        case 6: return a->first;
        case 7: return a->rest;
        default: return a->kind == PAIR ? nil : yes;
    }
}

static Cell *evaluate(Cell *cell, Cell *scope);

static Cell *evaluate_all(Cell *list, Cell *scope) {
    if (list == nil) return nil;
    Cell *first = evaluate(list->first, scope);
    return cons(first, evaluate_all(list->rest, scope));
}

static Cell *evaluate(Cell *cell, Cell *scope) {
    for (;;) {
        if (cell->kind == SYMBOL && cell != nil) return find(scope, cell);
        if (cell->kind != PAIR) return cell;
        if (is(cell->first, "quote")) return cell->rest->first;
        if (is(cell->first, "if")) {
            Cell *parts = cell->rest;
            cell = evaluate(parts->first, scope) != nil ? parts->rest->first : parts->rest->rest->first;
            continue;
        }
        if (is(cell->first, "lambda")) {
            Cell *made = make(CLOSURE);
            made->first = cell->rest->first;
            made->rest = cell->rest->rest->first;
            made->scope = scope;
            return made;
        }
        if (is(cell->first, "define")) {
            top = bind(top, cell->rest->first, evaluate(cell->rest->rest->first, scope));
            return cell->rest->first;
        }
        Cell *function = evaluate(cell->first, scope), *given = evaluate_all(cell->rest, scope);
        if (function->kind == BUILTIN) return apply_builtin((int)function->number, given);
        scope = function->scope;
        for (Cell *name = function->first; name != nil; name = name->rest, given = given->rest)
            scope = bind(scope, name->first, given->first);
        cell = function->rest;
    }
}

int main(void) {
    nil = symbol("nil");
    yes = symbol("t");
    top = bind(bind(nil, symbol("nil"), nil), yes, yes);
    for (int k = 0; k < 9; k++) {
        Cell *one = make(BUILTIN);
        one->number = k;
        top = bind(top, symbol(builtins[k]), one);
    }
    ahead = ' ';
    for (Cell *one; (one = read());) {
        print(evaluate(one, nil));
        putchar('\n');
    }
    return 0;
}
