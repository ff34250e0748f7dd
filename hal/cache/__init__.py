"""The compilation cache: its store, entries, keys, seals and file attestations."""
