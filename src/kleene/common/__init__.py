"""Plain data that both sides of the house share: alphabets, outputs, decisions, residual dimensions by name."""
