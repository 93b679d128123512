"""Render data from other rooms: in the terminal, as HTML pages, as plots."""
