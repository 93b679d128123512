"""Agreement, certificates, minimality: how we know."""
