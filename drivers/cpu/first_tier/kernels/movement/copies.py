"""Writes copies, and movements of elements by strides or by indexes."""

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.movement.runs import write_run
from neurald.drivers.cpu.first_tier.kernels.nest import words_of_nest, write_movement
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter
from neurald.drivers.cpu.first_tier.layout import LINE_BYTES, TRANSPOSED
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def movement_units(target: Target) -> list[Unit]:
    """Returns the units of all movements."""
    return [
        _copy(target),
        *(_move(target, size) for size in (1, 2, 4, 8)),
        *(_transpose(target, size) for size in TRANSPOSED),
        *(_move_part(target, size) for size in (1, 2, 4, 8)),
        _runs(target),
        *(_gather(target, index) for index in ("i32", "i64")),
        *(_gather_nd(target, index) for index in ("i32", "i64")),
        _gather_scaled(target),
    ]


def _copy(target: Target) -> Unit:
    """Writes a copy. Words: bytes. A work item is a block of them."""
    kernel = KernelWriter(target, "first_copy", ("out", "input"))

    def write(v: Vector, index: str) -> None:
        store(v, "i8", kernel.element(v, "i8", "%input", index), "%out", index)

    kernel.each_element(Vector(kernel.code, target, target.lanes(1)), *kernel.blocks(), write)
    return kernel.unit()


def _move(target: Target, size: int) -> Unit:
    """Writes a movement of elements of a size by strides; see `write_movement`."""
    kernel = KernelWriter(target, f"first_move_{size}", ("out", "input"))
    write_movement(kernel, f"i{8 * size}")
    return kernel.unit()


def _transpose(target: Target, size: int) -> Unit:
    """Writes a transposition of matrices with elements of a size, in square tiles.

    Words: elements of a line of the output, and of one of the input; the distances of lines of the
    output and of the input; the offsets of their first elements; the distances of their matrices;
    and the number of blocks of a matrix. A block is what lines of the output have in one line of a
    cache, and a work item. Tiles at the ends overlap others.
    """
    kernel = KernelWriter(target, f"first_transpose_{size}", ("out", "input"))
    code, element, edge = kernel.code, f"i{8 * size}", TRANSPOSED[size]
    v = Vector(code, target, edge)
    rows, columns, target_step, source_step, *firsts = (kernel.word(number) for number in range(9))
    blocks, line = firsts.pop(), LINE_BYTES // size
    last_row, last_column = (kernel.sum(each, str(-edge)) for each in (rows, columns))
    with kernel.each_item() as item:
        batch, block = kernel.split(item, blocks)
        target_start, source_start = (
            kernel.sum(firsts[number], kernel.product(batch, firsts[2 + number])) for number in range(2)
        )
        begin = multiple(code, block, line)
        end = kernel.least(kernel.sum(begin, str(line)), rows)
        with code.loop("0", columns, step=edge) as across, code.loop(begin, end, step=edge) as down:
            column, row = kernel.least(across.index, last_column), kernel.least(down.index, last_row)
            source = kernel.sum(source_start, kernel.sum(kernel.product(row, source_step), column))
            place = kernel.sum(target_start, kernel.sum(kernel.product(column, target_step), row))
            lines = []
            for _ in range(edge):
                lines.append(kernel.element(v, element, "%input", source))
                source = kernel.sum(source, source_step)
            for value in _transposed(v, element, lines):
                store(v, element, value, "%out", place)
                place = kernel.sum(place, target_step)
    return kernel.unit()


def _transposed(v: Vector, element: str, lines: list[str]) -> list[str]:
    """Returns the lines of the transposed tile.

    Each step interleaves the first half of the lines with the second half.
    """
    half, kind = v.lanes // 2, v.type(element)
    for _ in range(half.bit_length()):
        pairs = zip(lines[:half], lines[half:], strict=True)
        lines = [
            v.code.value(
                f"shufflevector {kind} {first}, {kind} {second}, <{v.lanes} x i32> <"
                + ", ".join(f"i32 {begin + lane}, i32 {begin + lane + v.lanes}" for lane in range(half))
                + ">"
            )
            for first, second in pairs
            for begin in (0, half)
        ]
    return lines


def _move_part(target: Target, size: int) -> Unit:
    """Writes a movement by strides from or to a part of an operand whose place is in memory.

    `%index` has the index of the part along each axis. `%axes` has, for each axis, the largest
    index, and the strides of the output and of the input; the one that is not part has strides of
    0. After the words of the movement: the number of axes, whether another index is an error,
    otherwise the nearest one counts, and how many words of 32 bits an index has, one or two.
    """
    kernel = KernelWriter(target, f"first_move_part_{size}", ("out", "input", "index", "axes"))
    code, single, words = kernel.code, kernel.single, words_of_nest(2) + 2
    is_checked = single.compare("ne", "i64", kernel.word(words + 1), "0")
    size_of_index = kernel.word(words + 2)
    last_of_index = kernel.sum(size_of_index, "-1")
    is_short = single.compare("eq", "i64", last_of_index, "0")
    with code.loop("0", kernel.word(words), [("i64", "0"), ("i64", "0")]) as axis:
        at = multiple(code, axis.index, 3)
        last, *strides = (
            kernel.element(single, "i64", "%axes", kernel.sum(at, str(number))) for number in range(3)
        )
        place = kernel.product(axis.index, size_of_index)
        low, high = (
            kernel.element(single, "i32", "%index", each)
            for each in (place, kernel.sum(place, last_of_index))
        )
        high = single.cast("sext", "i32", high, "i64")
        both = single.binary(
            "or", "i64", single.binary("shl", "i64", high, "32"), single.cast("zext", "i32", low, "i64")
        )
        number = single.select(is_short, "i64", high, both)
        nearest = kernel.least(single.call("llvm.smax", "i64", number, "0"), last)
        is_outside = single.compare("ne", "i64", number, nearest)
        with code.when(single.binary("and", "i1", is_outside, is_checked)):
            code.effect(f"store i32 1, ptr %status, align {WORD_BYTES}")
        axis.results = [
            kernel.sum(before, kernel.product(nearest, stride))
            for before, stride in zip(axis.carried, strides, strict=True)
        ]
    write_movement(kernel, f"i{8 * size}", axis.results)
    return kernel.unit()


def _runs(target: Target) -> Unit:
    """Writes a movement of runs of elements.

    The table has two numbers for each run: the first elements of the output and of the input.
    Words: bytes of a run, and of an element. A work item is a run.
    """
    kernel = KernelWriter(target, "first_runs", ("out", "input", "table"))
    length, size = kernel.word(0), kernel.word(1)
    with kernel.each_item() as run:
        numbers = []
        for number in range(2):
            at = kernel.sum(multiple(kernel.code, run, 2), str(number))
            numbers.append(
                kernel.single.cast("zext", "i32", kernel.element(kernel.single, "i32", "%table", at), "i64")
            )
        place, source = (kernel.product(number, size) for number in numbers)
        write_run(kernel, place, source, length)
    return kernel.unit()


def _row_of(kernel: KernelWriter, index: str, place: str, length: str) -> str:
    """Returns an index, and reports one that is not below a length; see `_gather`."""
    single = kernel.single
    number = kernel.element(single, index, "%index", place)
    number = number if index == "i64" else single.cast("sext", index, number, "i64")
    is_inside = single.compare("ult", "i64", number, length)
    with kernel.code.when(single.binary("xor", "i1", is_inside, "true")):
        kernel.code.effect(f"store i32 1, ptr %status, align {WORD_BYTES}")
    return single.select(is_inside, "i64", number, "0")


def _gather(target: Target, index: str) -> Unit:
    """Writes the movement of runs of bytes whose numbers are in memory.

    Words: bytes of a run, indexes of a batch, runs among which an index chooses, and how often the
    indexes of a batch are used. A work item is a run.
    """
    kernel = KernelWriter(target, f"first_gather_{index}", ("out", "input", "index"))
    code, single = kernel.code, kernel.single
    run, count, length, repeats = (kernel.word(number) for number in range(4))
    outer, position = kernel.split("%begin", count)
    batch, repeat = kernel.split(outer, repeats)
    start = [("i64", each) for each in (position, outer, repeat, batch)]
    with code.loop("%begin", "%end", start, may_be_empty=True) as item:
        position, outer, repeat, batch = item.carried
        number = _row_of(kernel, index, kernel.sum(kernel.product(batch, count), position), length)
        source = kernel.product(kernel.sum(kernel.product(outer, length), number), run)
        write_run(kernel, kernel.product(item.index, run), source, run)
        # Divisions take longer than short runs.
        following = kernel.sum(position, "1")
        is_last = single.compare("eq", "i64", following, count)
        turn = kernel.sum(repeat, single.cast("zext", "i1", is_last, "i64"))
        is_used = single.compare("eq", "i64", turn, repeats)
        item.results = [
            single.select(is_last, "i64", "0", following),
            kernel.sum(outer, single.cast("zext", "i1", is_last, "i64")),
            single.select(is_used, "i64", "0", turn),
            kernel.sum(batch, single.cast("zext", "i1", is_used, "i64")),
        ]
    return kernel.unit()


def _gather_nd(target: Target, index: str) -> Unit:
    """Writes the movement of runs of bytes whose positions along several axes are in memory.

    Words: bytes of a run, and the number of axes. `%axes` has the length of each, and runs from one
    position to the next. A work item is a run.
    """
    kernel = KernelWriter(target, f"first_gather_nd_{index}", ("out", "input", "index", "axes"))
    code, single = kernel.code, kernel.single
    run, depth = kernel.word(0), kernel.word(1)
    with kernel.each_item() as item:
        first = kernel.product(item, depth)
        with code.loop("0", depth, [("i64", "0")], may_be_empty=True) as axis:
            at = multiple(code, axis.index, 2)
            length = kernel.element(single, "i64", "%axes", at)
            step = kernel.element(single, "i64", "%axes", kernel.sum(at, "1"))
            number = _row_of(kernel, index, kernel.sum(first, axis.index), length)
            axis.results = [kernel.sum(axis.carried[0], kernel.product(number, step))]
        place, source = kernel.product(item, run), kernel.product(axis.results[0], run)
        write_run(kernel, place, source, run)
    return kernel.unit()


def _gather_scaled(target: Target) -> Unit:
    """Writes the conversion to floats of rows of signed bytes whose numbers are in memory.

    Words: elements of a row, 0, and the number of rows. `%scales` has a scale for each row. A work
    item is a row.
    """
    kernel = KernelWriter(target, "first_gather_scaled", ("out", "input", "index", "scales"))
    run = kernel.word(0)
    with kernel.each_item() as item:
        number = _row_of(kernel, "i32", item, kernel.word(2))
        source, place = kernel.product(number, run), kernel.product(item, run)
        scale = kernel.element(kernel.single, "float", "%scales", number)

        def write(
            v: Vector, index: str, source: str = source, place: str = place, scale: str = scale
        ) -> None:
            value = kernel.element(v, "i8", "%input", kernel.sum(source, index))
            real = v.cast("sitofp", "i8", value, "float")
            store(
                v,
                "float",
                v.binary("fmul", "float", real, v.splat("float", scale)),
                "%out",
                kernel.sum(place, index),
            )

        kernel.each_element(kernel.vector, "0", run, write)
    return kernel.unit()
