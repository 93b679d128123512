"""Network or machine to the tools of others: one file an arrow."""
