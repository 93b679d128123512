"""What is true of a machine: exact effects of its inputs, its causal graph, and networks whose mechanism is known."""
