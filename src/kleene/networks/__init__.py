"""What Kleene compiles to and explains: plain torch modules that know nothing of machines."""
