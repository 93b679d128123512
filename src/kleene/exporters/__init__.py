"""Export networks and machines to other tools: one file for each arrow."""
