"""Attention in portable OpenCL C, for every type, width and stride.

A work-group has a tile of rows of one batch. It passes over the columns in tiles: it computes a
tile of scores, staging the operands in local memory, then the largest exponent and the sum of
weights of each row so far, and adds the values with their weights to its sums, which are scaled
whenever either changes. Sums are averages of values at any time, so that they cannot overflow.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.template import templates
from neurald.drivers.opencl.kernels.attention.attention_view import AttentionView
from neurald.drivers.opencl.platform.device_facts import DeviceFacts

_TEMPLATES = templates(__name__, "tile.cl")
#: Rows and columns of a tile, of which each work-item has four by four.
_SHAPES = ((64, 64), (32, 128), (16, 256), (32, 32), (16, 64), (16, 16))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tiling:
    """Tiling of an attention.

    Attributes:
        rows, columns: the rows and columns of a tile of scores.
        depth: the depth of a step.
        features: rounded up to a multiple of four.
    """

    rows: int
    columns: int
    depth: int
    features: int

    @property
    def items(self) -> int:
        return self.rows * self.columns // 16

    @property
    def across(self) -> int:
        return self.columns // 4

    @property
    def row_pitch(self) -> int:
        return self.rows + 4

    @property
    def column_pitch(self) -> int:
        return self.columns + 4

    @property
    def powers_at(self) -> int:
        return 4 * self.depth * max(self.row_pitch + self.column_pitch, self.features)

    @property
    def parts_at(self) -> int:
        return self.powers_at + 4 * self.columns * self.row_pitch

    @property
    def scratch_bytes(self) -> int:
        return self.parts_at + 4 * self.across * self.rows


def candidates(view: AttentionView, facts: DeviceFacts) -> Iterator[Source]:
    """Yields every tiling that the device has the local memory for, the best first."""
    features = -(-view.features // 4) * 4
    tilings = [
        _Tiling(rows=rows, columns=columns, depth=depth, features=features)
        for rows, columns in _SHAPES
        for depth in (16, 8)
    ]
    fitting = [
        each
        for each in tilings
        if each.scratch_bytes <= facts.local_memory_bytes and each.items <= facts.max_work_group_size
    ]
    for tiling in sorted(fitting, key=lambda each: _cost(each, view, facts)):
        yield _source(view, tiling)


def _cost(tiling: _Tiling, view: AttentionView, facts: DeviceFacts) -> float:
    """Estimates the time in cycles of a compute unit."""
    groups = view.batches * math.ceil(view.rows / tiling.rows)
    waves = math.ceil(groups / facts.compute_units)
    overlapped = max(1, min(waves, 4 * facts.local_memory_bytes // tiling.scratch_bytes))
    multiplied = tiling.rows * tiling.columns * (view.depth + tiling.features)
    steps = math.ceil(view.depth / tiling.depth) + tiling.columns // tiling.depth
    each = max(multiplied / 128 * overlapped, steps * 150 + 8 * tiling.across + 600)
    return math.ceil(waves / overlapped) * math.ceil(view.columns / tiling.columns) * each


def _source(view: AttentionView, tiling: _Tiling) -> Source:
    vectors = math.ceil(tiling.features / 4 / tiling.across)
    # Adjacent work-items load adjacent elements.
    is_key_by_row = view.key.inner <= view.key.row
    return view.source(
        _TEMPLATES["function"],
        rows=tiling.rows,
        local_size=tiling.items,
        scratch_bytes=tiling.scratch_bytes,
        label=f"attention, tile {tiling.rows} x {tiling.columns}",
        names={
            "BN": tiling.columns,
            "KC": tiling.depth,
            "ACROSS": tiling.across,
            "ROWS": tiling.row_pitch,
            "COLUMNS": tiling.column_pitch,
            "DP": tiling.features,
            "ND": vectors,
            "IS_FULL": int(vectors * 4 * tiling.across == tiling.features),
            "UNROLL": 16 if vectors <= 2 else 1,
            "POWERS_AT": tiling.powers_at,
            "PARTS_AT": tiling.parts_at,
            "KEY_COLUMN": f"e / {tiling.depth}" if is_key_by_row else f"e % {tiling.columns}",
            "KEY_DEPTH": f"e % {tiling.depth}" if is_key_by_row else f"e / {tiling.columns}",
            "LOAD_QUERY": view.argument(view.query).load("at"),
            "LOAD_KEY": view.argument(view.key).load("at"),
            "LOAD_VALUE": view.argument(view.value).load("at"),
        },
    )
