"""Compiled transformers: the model, its evaluators and its files."""
