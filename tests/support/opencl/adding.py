"""Replaces PTX for atomic additions of floats in kernel texts, for devices without PTX."""

import re

#: Atomic addition of floats without PTX.
_ADD = """\
static inline void add_float(__global float *to, const float value) {
  uint seen = atomic_or((volatile __global uint *)to, 0), before;
  do {
    before = seen;
    seen = atomic_cmpxchg((volatile __global uint *)to, before, as_uint(as_float(before) + value));
  } while (seen != before);
}
"""
_PTX_ADD = re.compile(
    r'asm volatile\("red\.global\.add\.f32 \[%0\], %1;" :: "l"\(\(ulong\)\((.*?)\)\), "f"\((.*?)\) : "memory"\);'
)


def with_added_floats(text: str) -> str:
    """Returns a text with additions by compare and exchange, one float at a time."""
    return _ADD + _PTX_ADD.sub(r"add_float(\1, \2);", text)


def without_ptx(text: str) -> str:
    """Returns a text with such additions, and without prefetches and function calls."""
    return with_added_floats(text).replace("asm volatile", "//").replace("__attribute__((noinline))", "")
