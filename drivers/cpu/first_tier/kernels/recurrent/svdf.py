"""Writes steps of SVDF, of floats and of integers."""

from collections.abc import Callable

from neurald.drivers.cpu.emit.vector_memory import store
from neurald.drivers.cpu.first_tier.kernels.convolution.epilogue import requantized_by_words
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, clamped
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target


def svdf_units(target: Target) -> list[Unit]:
    """Returns the units of the kernels of SVDF."""
    return [_svdf_step(target), _integer_svdf_step(target)]


def _svdf_step(target: Target) -> Unit:
    """Writes a step of SVDF of floats; see `_of_memory`.

    Words, after its own: the limits of the results.
    """
    kernel = _memory_kernel(target, "first_svdf_step")
    low, high = kernel.word(3, "float"), kernel.word(4, "float")
    v = kernel.single

    def weighted(total: str, value: str, weight: str) -> str:
        return v.binary("fadd", "float", total, v.binary("fmul", "float", value, weight))

    def finish(total: str, unit: str, item: str) -> None:
        total = v.binary("fadd", "float", total, kernel.element(v, "float", "%bias", unit))
        store(v, "float", clamped(v, total, low, high), "%result", item)

    return _of_memory(kernel, ("float", "float"), weighted, finish)


def _integer_svdf_step(target: Target) -> Unit:
    """Writes a step of SVDF of 16-bit features; see `_of_memory`.

    Sums, of 64 bits, wrap to 32. Words, after its own: see `requantized_by_words`.
    """
    kernel = _memory_kernel(target, "first_svdf_step_short")
    v = kernel.single

    def weighted(total: str, value: str, weight: str) -> str:
        product = v.binary(
            "mul", "i32", v.cast("sext", "i16", value, "i32"), v.cast("sext", "i16", weight, "i32")
        )
        return v.binary("add", "i64", total, v.cast("sext", "i32", product, "i64"))

    def finish(total: str, unit: str, item: str) -> None:
        bias = v.cast("sext", "i32", kernel.element(v, "i32", "%bias", unit), "i64")
        total = v.cast("trunc", "i64", v.binary("add", "i64", total, bias), "i32")
        store(v, "i8", requantized_by_words(kernel, v, total, 3), "%result", item)

    return _of_memory(kernel, ("i16", "i64"), weighted, finish)


def _memory_kernel(target: Target, name: str) -> KernelWriter:
    return KernelWriter(target, name, ("out", "result", "features", "before", "times", "bias"))


def _of_memory(
    kernel: KernelWriter,
    types: tuple[str, str],
    weighted: Callable[[str, str, str], str],
    finish: Callable[[str, str, str], None],
) -> Unit:
    """Writes a step of SVDF.

    `%features` has one number for each filter, which is stored in the last place of its memory
    `%before`; `%times` weights its places. `%out` is the next memory, whose last places are free.
    Words: units, filters of each, and places of a memory. A work item is a unit of a row.

    Args:
        kernel: the function.
        types: the type of features, and that of sums.
        weighted: adds a feature times its weight to a sum.
        finish: stores the result of a sum, for the number of a unit and of the work item.
    """
    code, v, (element, total) = kernel.code, kernel.single, types
    units, rank, length = (kernel.word(number) for number in range(3))
    newest = kernel.difference(length, "1")
    with kernel.each_item() as item:
        _, unit = kernel.split(item, units)
        first, own = kernel.product(item, rank), kernel.product(unit, rank)
        with code.loop("0", rank, [(total, v.number(total, 0))]) as filters:
            number = kernel.sum(first, filters.index)
            begin = kernel.product(number, length)
            weights = kernel.product(kernel.sum(own, filters.index), length)
            feature = kernel.element(v, element, "%features", number)

            def added(sums: str, place: str, value: str, weights: str = weights) -> str:
                weight = kernel.element(v, element, "%times", kernel.sum(weights, place))
                return weighted(sums, value, weight)

            with code.loop("0", newest, [(total, filters.carried[0])], may_be_empty=True) as places:
                value = kernel.element(v, element, "%before", kernel.sum(begin, places.index))
                places.results = [added(places.carried[0], places.index, value)]
            filters.results = [added(places.results[0], newest, feature)]
            # All but the oldest one move by one place.
            with code.loop("1", newest, may_be_empty=True) as places:
                at = kernel.sum(begin, places.index)
                value = kernel.element(v, element, "%before", at)
                store(v, element, value, "%out", kernel.difference(at, "1"))
            last = kernel.sum(begin, newest)
            is_long = v.compare("sgt", "i64", newest, "0")
            # A memory of one place has nothing but the free one.
            before_last = v.select(is_long, "i64", kernel.difference(last, "1"), last)
            store(v, element, feature, "%out", before_last)
            store(v, element, v.number(element, 0), "%out", last)
        finish(filters.results[0], unit, item)
    return kernel.unit()
