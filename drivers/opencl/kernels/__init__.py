"""Specialised kernels for contractions and element-wise operations; `select` lists candidates."""
