"""Which taps of a window lie on the image, and which tile a place is in, found out at run time."""

from collections.abc import Callable, Sequence

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.counters import multiple, total
from neurald.drivers.cpu.kernels.window import Run, Side


def taps_on_image(v: Vector, side: Side, place: str) -> tuple[str, str]:
    """The taps at a place of the output that lie on the image: the first, and the one after the last.

    Args:
        v: where instructions go, for single numbers.
        side: of the convolution.
        place: a name or number, i64.
    """

    def first_from(distance: str) -> str:
        """The first tap that is at least so far from the start of the window."""
        whole = v.call("llvm.smax", "i64", distance, "0")
        if side.dilation > 1:
            rounded_up = v.two("add", "i64", whole, str(side.dilation - 1))
            whole = v.two("udiv", "i64", rounded_up, str(side.dilation))
        return v.call("llvm.smin", "i64", whole, str(side.taps))

    start = v.two("mul", "i64", place, str(side.stride))
    back = v.two("sub", "i64", str(side.before), start)
    return first_from(back), first_from(v.two("add", "i64", back, str(side.length)))


def write_chosen(
    code: Instructions, choices: Sequence[Run], tile: str, write: Callable[[Run, str], None]
) -> None:
    """What a tile does, whichever run it is in.

    Args:
        code: where instructions go.
        choices: the runs, one after another.
        tile: the number of the tile, i64.
        write: called with each run and the first place of the tile if it is in that.
    """
    before = 0
    for run in choices:
        inner = total(code, tile, str(-before))
        start = total(code, multiple(code, inner, run.length), str(run.first))
        if len(choices) == 1:
            write(run, start)
        else:
            with code.when(code.value(f"icmp ult i64 {inner}, {run.count}")):
                write(run, start)
        before += run.count
