"""Accumulators that are spilled to memory, and the loop over positions that reads them."""

import ctypes
from collections.abc import Sequence

import numpy as np
from support.cpu.routines import TARGET
from support.sweeps import sweep

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.accumulator_spill import each_spilled_position, spill
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.native.objects.llvm import LoadedCode
from neurald.drivers.cpu.native.objects.object_code import object_codes
from neurald.drivers.cpu.native.objects.unit_queue import Unit

LANES = 4


@sweep(("positions", "vectors", "together"), [(5, 2, 1), (6, 1, 3), (7, 2, 2), (4, 3, 4)])
def test_every_position_gets_its_accumulators(positions: int, vectors: int, together: int) -> None:
    count = positions * vectors
    code = Instructions(("%sums", "%out", "%kept"))
    v = Vector(code, TARGET, LANES)
    totals = [
        code.fresh(f"load {v.type('i32')}, ptr {address(code, '%sums', str(number * 16))}, align 4")
        for number in range(count)
    ]

    def write(first: str, sums: Sequence[str]) -> None:
        assert len(sums) == together * vectors
        start = address(code, "%out", multiple(code, first, vectors * 16))
        for number, each in enumerate(sums):
            total = code.value(f"add {v.type('i32')} {each}, {each}")
            to = address(code, start, str(number * 16))
            code.effect(f"store {v.type('i32')} {total}, ptr {to}, align 4")

    spill(v, "i32", totals, "%kept")
    each_spilled_position(v, "i32", (positions, vectors), "%kept", write, together=together)
    name = f"kept_{positions}_{vectors}_{together}"
    head = f"define void @{name}(ptr noalias %sums, ptr noalias %out, ptr noalias %kept) {{"
    text = "\n".join((*sorted(code.declarations), head, *code.lines, "  ret void", "}", ""))
    (object_code,) = object_codes([Unit(name=name, text=text)], TARGET)
    loaded = LoadedCode((object_code,), (name,))
    sums = np.arange(count * LANES, dtype=np.int32)
    out, memory = np.zeros_like(sums), np.zeros(sums.nbytes + 64, np.uint8)
    kept = -(-memory.ctypes.data // 64) * 64
    pointers = (ctypes.c_void_p(sums.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_void_p(kept))
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(loaded.addresses[name])(*pointers)
    np.testing.assert_array_equal(out, 2 * sums)
