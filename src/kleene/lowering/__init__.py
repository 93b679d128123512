"""From a program's Python step to neurons, still without weights."""
