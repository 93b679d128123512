"""Networks that know programs by heart, and the executors that run them."""
