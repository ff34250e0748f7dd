"""PTX of a step of a warpgroup product of FLOAT32 as sums of TF32 and a remainder.

As in `tensor_core`, only the product of both remainders is omitted, products with a remainder have
accumulators of their own, and the main ones sum up one step. A warp reads its rows of the left
matrix from local memory and splits them in registers, from where the instruction takes them. The
right matrix is split when it is packed.
"""

import numpy as np

from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.gemm.packing import packed, padded
from neurald.drivers.opencl.kernels.gemm.warpgroup import BLOCK, PART_BYTES, STEP_BYTES
from neurald.drivers.opencl.platform.retargeting import HIDDEN

#: Bits of a FLOAT32 that a TF32 has, and half of the last of them.
_KEPT, _HALF = 0xFFFFE000, 0x1000
#: Parts of a step whose rows are in registers.
_SETS = 2


def split(right: Value) -> Value:
    """Returns a matrix of (batch, column, depth) with the columns' remainders behind all columns.

    The number of columns is rounded up to whole blocks before.
    """

    def of(array: np.ndarray) -> np.ndarray:
        whole = np.ascontiguousarray(padded(array, 1, BLOCK, 0))
        first = (whole.view(np.uint32) & np.uint32(_KEPT)).view(np.float32)
        with np.errstate(invalid="ignore"):
            rest = np.ascontiguousarray(whole - first)
        return np.concatenate((first, (rest.view(np.uint32) + np.uint32(_HALF)).view(np.float32)), axis=1)

    return packed(right, "split", of)


def step_lines(*, columns: int, right_bytes: int) -> list[str]:
    """Returns the instructions that multiply a step of 64 rows by the columns of a tile.

    The operands are, in this order:

    - the accumulators of the step, which these instructions clear, and those with a remainder;
    - the addresses of the step's counters: that it has arrived, and that its place is free;
    - the address of this work-item's first element of the left matrix, with the chunk swizzled;
    - the address of the right matrix, which has its remainders `right_bytes` behind;
    - the phase of the first counter;
    - the number of this work-item in its warp.
    """
    count = columns // 2
    main, rests = (", ".join(f"%{first + number}" for number in range(count)) for first in (0, count))
    full, empty, left, right, phase, lane = (f"%{2 * count + number}" for number in range(6))
    instruction = f"wgmma.mma_async.sync.aligned.m64n{columns}k8.f32.tf32.tf32"
    lines = [
        "{",
        ".reg .pred p, more;",
        f".reg .b32 address, value, first<{4 * _SETS}>, rest<{4 * _SETS}>;",
        ".reg .b64 described, matrix, behind;",
        "bar.warp.sync 0xffffffff;",
        "AWAIT:",
        f"mbarrier.try_wait.parity.shared.b64 p, [{full}], {phase};",
        "@!p bra AWAIT;",
        f"and.b32 address, {right}, 0x3ffff;",
        "shr.u32 address, address, 4;",
        "cvt.u64.u32 described, address;",
        f"or.b64 described, described, {1 << 62 | (8 * STEP_BYTES >> 4) << 32 | 1 << 16:#x};",
        "setp.eq.u32 more, 0, 0;",
    ]
    for part in range(STEP_BYTES // PART_BYTES):
        own = part % _SETS * 4
        if part >= _SETS:
            # What has read these registers before is finished.
            lines.append(f"{HIDDEN} wgmma.wait_group.sync.aligned {_SETS - 1};")
        for half in range(2):
            lines.append(f"xor.b32 address, {left}, {(2 * part + half) * 16};")
            for below in range(2):
                number = own + 2 * half + below
                lines += [
                    f"ld.shared.b32 value, [address+{below * 8 * STEP_BYTES}];",
                    f"and.b32 first{number}, value, {_KEPT:#x};",
                    f"sub.f32 rest{number}, value, first{number};",
                    f"add.u32 rest{number}, rest{number}, {_HALF:#x};",
                ]
        firsts, remainders = (
            ", ".join(f"{name}{own + number}" for number in range(4)) for name in ("first", "rest")
        )
        lines += [
            f"add.u64 matrix, described, {part * PART_BYTES // 16};",
            f"add.u64 behind, matrix, {right_bytes // 16};",
            # The first instruction replaces the accumulators of the step.
            f"setp.ne.u32 p, {part}, 0;",
            f"{HIDDEN} wgmma.fence.sync.aligned;",
            f"{HIDDEN} {instruction} {{{main}}}, {{{firsts}}}, matrix, p, 1, 1;",
            f"{HIDDEN} {instruction} {{{rests}}}, {{{remainders}}}, matrix, more, 1, 1;",
            f"{HIDDEN} {instruction} {{{rests}}}, {{{firsts}}}, behind, more, 1, 1;",
            f"{HIDDEN} wgmma.commit_group.sync.aligned;",
        ]
    return [
        *lines,
        f"{HIDDEN} wgmma.wait_group.sync.aligned 0;",
        f"setp.eq.u32 p, {lane}, 0;",
        f"@p mbarrier.arrive.shared.b64 _, [{empty}];",
        "}",
    ]
