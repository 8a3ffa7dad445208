"""How jobs get to workers and results back: leases, claims, supplies, settlements, bundles."""
