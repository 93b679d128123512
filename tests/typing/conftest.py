"""The files here are read by type checkers and never run."""

collect_ignore_glob = ["*.py"]
