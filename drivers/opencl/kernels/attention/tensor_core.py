"""Attention on the tensor cores of NVIDIA GPUs, in PTX, for FLOAT16.

Each warp has 16 rows, whose queries and sums of weighted values stay in registers. Keys and values
of a step are copied to local memory (`cp.async`), and read there by `ldmatrix`, values transposed.
The accumulators of scores are in the order in which the next product reads its left matrix, so that
weights never leave the registers. If there are fewer blocks of rows than warps, several warps split
the columns of a block, and add up their sums at the end.

Rows in local memory have an odd number of 16-byte units, so that eight of them begin in different
banks.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.template import templates
from neurald.drivers.opencl.kernels.attention.attention_view import AttentionView, store2_text
from neurald.drivers.opencl.kernels.group_exchange import OTHER
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "tensor_core.cl")
_MAX_LOCAL_BYTES = 48 * 1024
_ITEMS = 256
_WARPS = _ITEMS // 32


@dataclass(frozen=True, kw_only=True, slots=True)
class _WarpTiling:
    """Tiling of an attention.

    Attributes:
        down: blocks of 16 rows of a group.
        columns: the columns of a warp in a step.
        stages: the number of steps in local memory.
        depths, features: blocks of 16 of the depth and of the features.
    """

    down: int
    columns: int
    stages: int
    depths: int
    features: int

    @property
    def slices(self) -> int:
        return _WARPS // self.down

    @property
    def step_columns(self) -> int:
        return self.slices * self.columns

    @property
    def key_pitch(self) -> int:
        return (2 * self.depths + 1) * 16

    @property
    def value_pitch(self) -> int:
        return (2 * self.features + 1) * 16

    @property
    def step_bytes(self) -> int:
        return self.step_columns * (self.key_pitch + self.value_pitch)

    @property
    def scratch_bytes(self) -> int:
        parts = self.down * (self.features * 8 + 4) * 32 * 4 if self.slices > 1 else 0
        return max(self.stages * self.step_bytes, parts)


def candidates(view: AttentionView, facts: DeviceFacts) -> Iterator[Source]:
    """Yields every suitable tiling, the best first.

    There are none if the device has no tensor cores for the operands, or if these cannot be copied
    16 bytes at a time.
    """
    operands = (view.query, view.key, view.value)
    if not facts.has_nvidia_capability((8, 0)):
        return
    if not all(each.value.type is Scalar.FLOAT16 and each.is_aligned for each in operands):
        return
    if view.depth % 8 or view.features % 8:
        return
    tilings = [
        _WarpTiling(
            down=down,
            columns=columns,
            stages=stages,
            depths=-(-view.depth // 16),
            features=-(-view.features // 16),
        )
        for down in (8, 4, 2, 1)
        for columns in (64, 32, 16)
        for stages in (2, 1)
    ]
    fitting = [each for each in tilings if _is_suitable(each, view)]
    for tiling in sorted(fitting, key=lambda each: _cost(each, view, facts)):
        yield _source(view, tiling)


def _is_suitable(tiling: _WarpTiling, view: AttentionView) -> bool:
    if tiling.scratch_bytes > _MAX_LOCAL_BYTES or tiling.down > 2 * -(-view.rows // 16):
        return False
    # Accumulators and queries must fit in registers.
    registers = 8 * tiling.features + 4 * tiling.depths + tiling.columns // 2
    has_steps = tiling.stages == 1 or view.columns > tiling.step_columns
    return registers <= 208 and has_steps


def _cost(tiling: _WarpTiling, view: AttentionView, facts: DeviceFacts) -> float:
    """Estimates the time in cycles of a compute unit."""
    groups = view.batches * -(-view.rows // (16 * tiling.down))
    waves = -(-groups // facts.compute_units)
    steps = -(-view.columns // tiling.step_columns)
    multiplied = tiling.columns / 8 * tiling.depths + tiling.columns / 16 * tiling.features * 2
    # Multiplications of 8 warps, and some twelve instructions for each score.
    busy = _WARPS * (multiplied * 1.5 + tiling.columns * 16 * 12 / 128)
    latency = 500 if tiling.stages == 2 else 1100
    registers = 8 * tiling.features + 4 * tiling.depths + tiling.columns // 2 + 60
    resident = max(1, min(65536 // (_ITEMS * registers), 4 * 48 * 1024 // tiling.scratch_bytes))
    overlapped = min(waves, resident)
    overhead = 1500 + 250 * (tiling.slices - 1)
    return math.ceil(waves / overlapped) * (steps * max(busy * overlapped, latency) + overhead)


def _source(view: AttentionView, tiling: _WarpTiling) -> Source:
    rows = 16 * tiling.down
    return view.source(
        _TEMPLATES["function"],
        rows=rows,
        local_size=_ITEMS,
        scratch_bytes=tiling.scratch_bytes,
        label=f"attention on tensor cores, {rows} rows, {tiling.step_columns} columns by {tiling.slices}, "
        f"{tiling.stages} stages",
        names={
            "TEXT": view.text + store2_text(view),
            "OTHER": OTHER,
            "DOWN": tiling.down,
            "KS": tiling.slices,
            "BN": tiling.columns,
            "NB": tiling.step_columns,
            "STAGES": tiling.stages,
            "STEP": tiling.step_bytes,
            "STEPS": -(-view.columns // tiling.step_columns),
            "DEPTHS": tiling.depths,
            "FEATURES": tiling.features,
            "KEY_CHUNKS": 2 * tiling.depths,
            "VALUE_CHUNKS": 2 * tiling.features,
            "KEY_PITCH": tiling.key_pitch,
            "VALUE_PITCH": tiling.value_pitch,
        },
    )
