"""Finite automata: deterministic, nondeterministic, alternating, weighted, with output; regular expressions."""
