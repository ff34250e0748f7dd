"""Chooses the taps of windows that tiles multiply, without those that only read padding.

All positions of a tile are in a row of the output, so they miss the same rows of taps. They only
miss the same columns if they are on the same side of the image. With dilated windows as wide as a
third of the image, a fifth of the taps of each dimension is outside of it.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.cpu.kernels.common.window import WindowDimension


class TapSets(Struct, frozen=True, kw_only=True):
    """Sets of taps, each of which some tiles multiply.

    A set is the product of a range of a window's rows and a range of its columns. Sets are numbered
    by rows, then by columns.

    Attributes:
        rows, columns: the ranges.
        of_row: number of the range of rows for each row of the output.
        of_tile: number of the range of columns for each tile of a row.
        has_starts: True if initial sums depend on the set, since the padding element is not 0.
    """

    rows: tuple[range, ...]
    columns: tuple[range, ...]
    of_row: tuple[int, ...]
    of_tile: tuple[int, ...]
    has_starts: bool

    @property
    def sets(self) -> list[tuple[range, range]]:
        """The rows and columns of each set."""
        return list(itertools.product(self.rows, self.columns))

    @property
    def start_rows(self) -> int:
        """Number of rows of initial sums that a panel has for the sets."""
        return len(self.sets) if self.has_starts else 0

    def products(self) -> float:
        """Returns the mean number of taps of a tile."""
        rows = np.mean([len(self.rows[each]) for each in self.of_row])
        columns = np.mean([len(self.columns[each]) for each in self.of_tile])
        return float(rows * columns)

    def starts(self, starts: Array, factors: Array, padding: int) -> list[Array]:
        """Returns the initial sums of each set of `start_rows`, (groups, channels).

        Args:
            starts: the initial sums if all taps are multiplied.
            factors: weights, (groups, channels, rows, columns, depth).
            padding: the padding element.
        """
        if not self.has_starts:
            return []
        of_taps = factors.sum(axis=-1, dtype=np.int64)
        whole = of_taps.sum(axis=(-1, -2))
        found = []
        for rows, columns in self.sets:
            part = of_taps[..., rows.start : rows.stop, columns.start : columns.stop].sum(axis=(-1, -2))
            found.append(starts + padding * (whole - part))
        return found


def tap_sets(
    rows: WindowDimension, columns: WindowDimension | None, tiles: Sequence[range], *, has_starts: bool
) -> TapSets:
    """Returns the smallest sets of taps for tiles of a row.

    Args:
        rows, columns: movement of the windows; None for columns of taps that cannot be left out.
        tiles: the columns of the output of each tile.
        has_starts: see `TapSets`.
    """
    of_rows = [_used(rows, range(each, each + 1)) for each in range(rows.positions)]
    of_tiles = [range(1) if columns is None else _used(columns, each) for each in tiles]
    some_rows, some_columns = tuple(dict.fromkeys(of_rows)), tuple(dict.fromkeys(of_tiles))
    return TapSets(
        rows=some_rows,
        columns=some_columns,
        of_row=tuple(map(some_rows.index, of_rows)),
        of_tile=tuple(map(some_columns.index, of_tiles)),
        has_starts=has_starts,
    )


def _used(side: WindowDimension, positions: range) -> range:
    """Returns the taps that are on the image at some of the positions; one if there are none."""
    first, last = side.taps_at(positions[-1]).start, side.taps_at(positions[0]).stop
    return range(first, last) if first < last else range(1)
