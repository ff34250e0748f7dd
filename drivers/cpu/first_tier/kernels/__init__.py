"""LLVM IR of the kernels of the first tier, which read all sizes at run time.

A kernel is a function like that of a `neurald.drivers.cpu.target.routine.Routine`. Its last
pointer, `%words`, refers to 64-bit words: sizes, and other parameters. Windows are described by a
table: for each position of the output and each tap, the offset in elements of the input's first
    channel there,
or -1 outside of the image, where zeros are read.

Integers are multiplied as 16-bit values without their zero points, which is exact for all 8-bit
types, and needs no correction at borders.
"""
