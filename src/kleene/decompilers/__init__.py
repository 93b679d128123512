"""From a network back to the machine that its weights implement."""
