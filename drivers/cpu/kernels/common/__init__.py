"""What specialised kernels share: loops, windows, tiles, packed weights and function texts."""
