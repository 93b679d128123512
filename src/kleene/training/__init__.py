"""Gradient descent: one loop, and what each kind of network adds to it."""
