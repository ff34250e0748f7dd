"""Specialised kernels for contractions of quantised values; `select` chooses one."""
