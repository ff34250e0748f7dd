"""Synchronization between threads and processes: fences, cancellation, deadlines, lending pools."""
