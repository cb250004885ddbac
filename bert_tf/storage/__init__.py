"""Files and what keeps them safe: disk, object stores, locks, manifests, checksums, variables."""
