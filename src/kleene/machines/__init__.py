"""What we compile from: machines with exact meaning. Pure Python and NumPy, no torch."""
