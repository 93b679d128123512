"""Speeds and sizes, measured by `make bench`."""
