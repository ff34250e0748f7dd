"""Border handling at run time: the taps that lie on the image, and the choice of a tile's run."""

from collections.abc import Callable, Sequence

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import multiple, total
from neurald.drivers.cpu.kernels.common.window import TileRun, WindowDimension


def taps_on_image(v: Vector, side: WindowDimension, index: str) -> tuple[str, str]:
    """Returns the range of taps that lie on the image at an output position.

    Args:
        v: receives the instructions, for scalars.
        side: the dimension of the convolution.
        index: output index, a name or number (i64).
    """

    def first_from(distance: str) -> str:
        """Returns the first tap that is at least `distance` from the start of the window."""
        whole = v.call("llvm.smax", "i64", distance, "0")
        if side.dilation > 1:
            rounded_up = v.binary("add", "i64", whole, str(side.dilation - 1))
            whole = v.binary("udiv", "i64", rounded_up, str(side.dilation))
        return v.call("llvm.smin", "i64", whole, str(side.taps))

    start = v.binary("mul", "i64", index, str(side.stride))
    back = v.binary("sub", "i64", str(side.padding_before), start)
    return first_from(back), first_from(v.binary("add", "i64", back, str(side.length)))


def tile_start(code: Instructions, run: TileRun, number: str) -> str:
    """Returns the first position of a tile of a run, given its number in the run."""
    start = total(code, multiple(code, number, run.length), str(run.first))
    if run.end is None:
        return start
    code.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
    return code.value(f"call i64 @llvm.smin.i64(i64 {start}, i64 {run.end - run.length})")


def write_chosen(
    code: Instructions, choices: Sequence[TileRun], tile: str, write: Callable[[TileRun, str], None]
) -> None:
    """Writes a tile as part of the run that contains it.

    Args:
        code: receives the instructions.
        choices: the runs in order.
        tile: number of the tile, i64.
        write: called with each run and the tile's first index if it is in that run.
    """
    before = 0
    for run in choices:
        inner = total(code, tile, str(-before))
        start = tile_start(code, run, inner)
        if len(choices) == 1:
            write(run, start)
        else:
            with code.when(code.value(f"icmp ult i64 {inner}, {run.count}")):
                write(run, start)
        before += run.count
