"""Writes nests of loops over elements of operands with strides.

See `neurald.drivers.cpu.first_tier.binding.nest`. The words are the number of elements of the
output, `NEST` lengths, and `NEST` strides of each operand.
"""

from collections.abc import Callable, Sequence

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.movement.runs import run_forms, write_run
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, size_bytes
from neurald.drivers.cpu.first_tier.layout import NEST
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.target.routine import ALIGNMENT


def words_of_nest(operands: int) -> int:
    """Returns the number of words of a nest."""
    return 1 + NEST * (1 + operands)


def _starts(kernel: KernelWriter, item: str, operands: int) -> list[str]:
    """Returns the offsets of operands at the indexes of the outer loops, which a work item has."""
    starts, rest = ["0"] * operands, item
    for dimension in reversed(range(NEST - 2)):
        if dimension:
            rest, index = kernel.split(rest, kernel.word(1 + dimension))
        else:
            index = rest
        for number in range(operands):
            stride = kernel.word(1 + NEST * (1 + number) + dimension)
            starts[number] = kernel.sum(starts[number], kernel.product(index, stride))
    return starts


def write_elements(
    kernel: KernelWriter,
    v: Vector,
    operands: Sequence[tuple[str, str]],
    element: str,
    compute: Callable[[Vector, list[str]], str],
    rare: tuple[Callable[[Vector, list[str]], str], Callable[[Vector, list[str]], str]] | None = None,
) -> None:
    """Writes a nest that computes elements of a dense output.

    Args:
        kernel: the function. A work item has the two inner loops.
        v: writes vectors of that width.
        operands: pointers and types of elements. They have strides of 0 or 1 in the inner loop.
        element: the type of the output's elements.
        compute: returns elements of the output from those of the operands.
        rare: returns from those of the operands whether any lane needs another computation (i1),
            and computes all lanes in that other way.
    """
    code, single, count = kernel.code, kernel.single, len(operands)
    total, middle, inner = kernel.word(0), kernel.word(NEST - 1), kernel.word(NEST)
    #: Memory for vectors of elements that do not change in the inner loop.
    repeated = [code.fresh(f"alloca {v.type(kind)}, align {ALIGNMENT}") for _, kind in operands]
    steps = [kernel.word(NEST * (2 + number)) for number in range(count)]
    with kernel.each_item() as item:
        starts = _starts(kernel, item, count)
        with code.loop("0", middle) as line:
            place = kernel.product(kernel.sum(kernel.product(item, middle), line.index), inner)
            length = kernel.least(inner, kernel.difference(total, place))
            # The last block may have fewer lines.
            with code.when(single.compare("sgt", "i64", length, "0")):
                sources = []
                for number, (pointer, kind) in enumerate(operands):
                    stride = kernel.word(NEST * (2 + number) - 1)
                    at = kernel.sum(starts[number], kernel.product(line.index, stride))
                    value = v.splat(kind, kernel.element(single, kind, pointer, at))
                    code.effect(f"store {v.type(kind)} {value}, ptr {repeated[number]}, align {ALIGNMENT}")
                    is_same = single.compare("eq", "i64", steps[number], "0")
                    source = kernel.at(kind, pointer, at)
                    sources.append(code.value(f"select i1 {is_same}, ptr {repeated[number]}, ptr {source}"))

                def given(v: Vector, index: str, sources: list[str]) -> list[str]:
                    return [
                        kernel.element(v, kind, source, kernel.product(index, step))
                        for (_, kind), source, step in zip(operands, sources, steps, strict=True)
                    ]

                def write(v: Vector, index: str, sources: list[str] = sources, place: str = place) -> None:
                    values, at = given(v, index, sources), kernel.sum(place, index)
                    store(v, element, compute(v, values), "%out", at)
                    if rare is None:
                        return
                    is_needed, compute_again = rare
                    with code.when(is_needed(v, values)):
                        # What follows from values that are loaded here is not computed before.
                        store(v, element, compute_again(v, given(v, index, sources)), "%out", at)

                kernel.each_element(v, "0", length, write)


def write_movement(kernel: KernelWriter, element: str, moved: Sequence[str] = ("0", "0")) -> None:
    """Writes a nest that copies elements between an output and an input with any strides.

    The words have the strides of the output first, and at the end the offsets of its first element
    and of that of the input.

    Args:
        kernel: the function. A work item has the two inner loops.
        element: the type of elements.
        moved: added to the offsets of the output and of the input.
    """
    code, words = kernel.code, words_of_nest(2)
    firsts = [kernel.sum(kernel.word(words + number), moved[number]) for number in range(2)]
    middle, inner = kernel.word(NEST - 1), kernel.word(NEST)
    size = size_bytes(element)
    v = Vector(code, kernel.target, kernel.target.lanes(size))
    steps = [kernel.word(NEST * (2 + number)) for number in range(2)]
    is_dense = kernel.single.binary(
        "and", "i1", *(kernel.single.compare("eq", "i64", step, "1") for step in steps)
    )
    is_reversed = kernel.single.binary(
        "and",
        "i1",
        kernel.single.compare("eq", "i64", steps[0], "1"),
        kernel.single.compare("eq", "i64", steps[1], "-1"),
    )
    is_other = kernel.single.binary(
        "xor", "i1", kernel.single.binary("or", "i1", is_dense, is_reversed), "true"
    )

    def places_of(starts: list[str], line: str) -> list[str]:
        return [
            kernel.sum(
                kernel.sum(firsts[number], starts[number]),
                kernel.product(line, kernel.word(NEST * (2 + number) - 1)),
            )
            for number in range(2)
        ]

    with kernel.each_item() as item:
        starts = _starts(kernel, item, 2)
        end = kernel.product(kernel.product(kernel.sum(item, "1"), middle), inner)
        is_whole = kernel.single.compare("sle", "i64", end, kernel.word(0))
        is_regular = kernel.single.binary("and", "i1", is_whole, is_dense)
        # Choosing how to copy a line takes longer than copying a short one.
        for fits, copy in run_forms(kernel, multiple(code, inner, size)):
            is_chosen = kernel.single.binary("and", "i1", is_regular, fits)
            with code.when(is_chosen), code.loop("0", middle) as line:
                copy(*(multiple(code, each, size) for each in places_of(starts, line.index)))
        is_irregular = kernel.single.binary("xor", "i1", is_regular, "true")
        with code.when(is_irregular), code.loop("0", middle) as line:
            target, source = places_of(starts, line.index)

            def write_reversed(v: Vector, index: str, target: str = target, source: str = source) -> None:
                last = kernel.difference(source, kernel.sum(index, str(v.lanes - 1)))
                value = kernel.element(v, element, "%input", last)
                if v.lanes > 1:
                    kind, order = v.type(element), ", ".join(f"i32 {n}" for n in reversed(range(v.lanes)))
                    value = code.value(
                        f"shufflevector {kind} {value}, {kind} poison, <{v.lanes} x i32> <{order}>"
                    )
                store(v, element, value, "%out", kernel.sum(target, index))

            number = kernel.product(kernel.sum(kernel.product(item, middle), line.index), inner)
            length = kernel.least(inner, kernel.difference(kernel.word(0), number))
            with code.when(is_dense):
                write_run(kernel, *(multiple(code, each, size) for each in (target, source, length)))
            with code.when(is_reversed):
                kernel.each_element(v, "0", length, write_reversed)
            with code.when(is_other), code.loop("0", length, may_be_empty=True) as each:
                at = kernel.sum(source, kernel.product(each.index, steps[1]))
                value = kernel.element(kernel.single, element, "%input", at)
                to = kernel.sum(target, kernel.product(each.index, steps[0]))
                store(kernel.single, element, value, "%out", to)
