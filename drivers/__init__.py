"""The drivers: each folder is one device, with the same file names in each."""
