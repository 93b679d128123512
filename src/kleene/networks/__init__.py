"""What we compile to: plain torch modules that know nothing of machines."""
