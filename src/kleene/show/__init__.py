"""Renders data made elsewhere: terminal, HTML page, plots."""
