"""Networks that are trained by gradient descent."""
