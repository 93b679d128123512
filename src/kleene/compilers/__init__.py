"""One file an arrow: from a machine to a network whose weights are constructed, never trained."""
