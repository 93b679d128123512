"""Exact recurrent networks: rational weights, and the evaluators that keep them exact."""
