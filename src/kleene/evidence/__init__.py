"""Evidence of how a network computes: traces, contextual decomposition, interdependence, statistics."""
