"""Specialised kernels for contractions, top-k and data movement; `select` chooses one."""
