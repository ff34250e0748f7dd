"""How threads and processes wait for each other: fences, cancellation, deadlines and lending pools."""
