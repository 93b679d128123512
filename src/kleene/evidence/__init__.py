"""Which parts of an input did what: traces, contextual decomposition, interdependence, statistics."""
