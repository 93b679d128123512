"""Renders data that was made elsewhere: in the terminal, as HTML pages, as plots."""
