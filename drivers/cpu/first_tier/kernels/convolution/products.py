"""Writes products: convolutions, fully connected layers, and products of pairs of matrices."""

from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.emit.vector_memory import masked_load
from neurald.drivers.cpu.first_tier.kernels.convolution.epilogue import SumsToOutputs
from neurald.drivers.cpu.first_tier.kernels.writer import KernelWriter, size_bytes
from neurald.drivers.cpu.first_tier.layout import BATCH_WORDS, ProductForm, tiles_of
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.drivers.cpu.kernels.common.addressing import address, multiple
from neurald.drivers.cpu.kernels.int8.scheme import WORD_BYTES, Scheme
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target.target import Target

#: Vectors of channels that a depthwise kernel computes at a time.
_DEPTHWISE_VECTORS = 4


def product_units(target: Target) -> list[Unit]:
    """Returns the units of all products."""
    return [
        *(_product(target, kind, form) for kind in Products for form in tiles_of(target).forms()),
        *(_depthwise(target, kind) for kind in Products if kind is not Products.BLOCKS),
    ]


def _product(target: Target, kind: Products, form: ProductForm) -> Unit:
    """Writes sums of products over taps and terms, for batches.

    Words: positions, channels, taps, terms of a tap, panels, tiles of a batch, elements between
    rows of the output, then those of the epilogue. A term is a float, or two integers of 16 bits. A
    work item is a tile of positions, or a panel of weights. `%batches` has `BATCH_WORDS` for each
    batch.
    """
    name = f"first_{form.name}_{kind.value}"
    pointers = ("out", "input", "weights", *kind.pointers, "table", "zeros", "batches")
    kernel = KernelWriter(target, name, pointers)
    code, tiles, v = kernel.code, kernel.tiles, kernel.vector
    scheme = Scheme(target=target, is_bytes=False)
    rows, vectors = form.rows, form.vectors
    term, element = ("float", "float") if kind.is_float else ("i32", "i16")
    width = vectors * tiles.lanes
    positions, channels, taps, terms, panels, per_batch, stride = (kernel.word(number) for number in range(7))
    epilogue = SumsToOutputs(kernel, kind, channels, stride, 7)
    last = kernel.difference(positions, "1")
    term_bytes = width * WORD_BYTES
    starts_of_vectors = [str(n * target.vector_bytes) for n in range(vectors)]

    def begin_batch(batch: str) -> tuple[str, str]:
        """Returns the input and the weights of a batch, and tells the epilogue its parameters."""
        offsets = []
        for number in range(BATCH_WORDS):
            at = kernel.at("i64", "%batches", kernel.sum(multiple(code, batch, BATCH_WORDS), str(number)))
            offsets.append(code.load(f"load i64, ptr {at}, align 8"))
        given, weights, epilogue.start, epilogue.parameters, epilogue.rows = offsets
        return kernel.at(element, "%input", given), kernel.at(term, "%weights", weights)

    def add_terms(sums: list[str], sources: list[str], weights: str) -> list[str]:
        sum_kind = "float" if kind.is_float else "i32"
        with code.loop("0", terms, [(v.type(sum_kind), each) for each in sums]) as loop:
            panel = address(code, weights, multiple(code, loop.index, term_bytes))
            columns = [
                kernel.loaded(v.type(term), address(code, panel, start), target.vector_bytes)
                for start in starts_of_vectors
            ]
            loop.results = list(loop.carried)
            for row, source in enumerate(sources):
                at = code.fresh(f"getelementptr {term}, ptr {source}, i64 {loop.index}")
                loaded = kernel.loaded(term, at, size_bytes(element))
                factor = v.splat(term, loaded) if kind.is_float else scheme.broadcast(code, loaded)
                for n, column in enumerate(columns):
                    each = row * vectors + n
                    if kind.is_float:
                        loop.results[each] = v.fma("float", factor, column, loop.results[each])
                    else:
                        loop.results[each] = scheme.step(
                            code, loop.results[each], factor, column, is_broadcast=True
                        )
        return loop.results

    def write_tile(batch: str, panel: str, first: str) -> None:
        given, matrix = begin_batch(batch)
        channel = multiple(code, panel, width)
        places = [kernel.sum(channel, str(n * tiles.lanes)) for n in range(vectors)]
        started = [epilogue.initial(v, each) for each in places]
        numbers = [kernel.least(kernel.sum(first, str(row)), last) for row in range(rows)]
        begins = [kernel.product(each, taps) for each in numbers]
        carried_kind = v.type("float" if kind in (Products.FLOAT, Products.BLOCKS) else "i32")
        carried = [(carried_kind, started[each % vectors]) for each in range(rows * vectors)]
        before = kernel.product(kernel.product(panel, taps), terms)
        with code.loop("0", taps, carried) as loop:
            sources = [kernel.source(begin, loop.index, element, given) for begin in begins]
            done = kernel.sum(before, kernel.product(loop.index, terms))
            weights = address(code, matrix, multiple(code, done, term_bytes))
            if kind is Products.BLOCKS:
                sums = add_terms([v.number("i32", 0)] * len(carried), sources, weights)
                loop.results = [
                    epilogue.scaled(v, total, each, loop.index, places[n % vectors])
                    for n, (total, each) in enumerate(zip(loop.carried, sums, strict=True))
                ]
            else:
                loop.results = add_terms(list(loop.carried), sources, weights)
        for each, total in enumerate(loop.results):
            row, n = divmod(each, vectors)
            epilogue.store(v, total, numbers[row], places[n])

    if rows == 1:
        with kernel.each_item() as item:
            batch, panel = kernel.split(item, panels)
            with code.loop("0", positions) as position:
                write_tile(batch, panel, position.index)
    else:
        with code.loop("0", panels) as panel_loop, kernel.each_item() as item:
            batch, tile = kernel.split(item, per_batch)
            write_tile(batch, panel_loop.index, multiple(code, tile, rows))
    return kernel.unit()


def _depthwise(target: Target, kind: Products) -> Unit:
    """Writes a depthwise convolution, whose input and output have the same channels.

    Words: positions, channels, taps, channels that have weights, those of the epilogue. A work item
    is a position. Weights of integers have 32 bits.
    """
    pointers = ("out", "input", "weights", *kind.pointers, "table", "zeros")
    kernel = KernelWriter(target, f"first_depthwise_{kind.value}", pointers)
    code, v = kernel.code, kernel.vector
    term, element = ("float", "float") if kind.is_float else ("i32", "i16")
    _, channels, taps, padded = (kernel.word(number) for number in range(4))
    epilogue = SumsToOutputs(kernel, kind, channels, channels, 4)
    step = _DEPTHWISE_VECTORS * v.lanes

    def values(v: Vector, source: str, channel: str, *, is_whole: bool) -> str:
        if is_whole:
            return kernel.element(v, element, source, channel)
        return masked_load(v, element, source, channel, kernel.mask(v, channel, channels))

    def write(position: str, channel: str, vectors: int, *, is_whole: bool) -> None:
        places = [kernel.sum(channel, str(n * v.lanes)) for n in range(vectors)]
        carried = [(v.type(term), epilogue.initial(v, each)) for each in places]
        begin = kernel.product(position, taps)
        with code.loop("0", taps, carried) as loop:
            source = kernel.source(begin, loop.index, element)
            row = kernel.product(loop.index, padded)
            loop.results = []
            for total, each in zip(loop.carried, places, strict=True):
                weights = kernel.element(v, term, "%weights", kernel.sum(row, each))
                factors = values(v, source, each, is_whole=is_whole)
                if kind.is_float:
                    loop.results.append(v.fma("float", factors, weights, total))
                else:
                    long = v.cast("sext", "i16", factors, "i32")
                    loop.results.append(v.binary("add", "i32", total, v.binary("mul", "i32", long, weights)))
        for total, each in zip(loop.results, places, strict=True):
            epilogue.store(v, total, position, each, is_whole=is_whole)

    whole = kernel.product(kernel.single.binary("sdiv", "i64", channels, str(step)), str(step))
    vectors = kernel.product(kernel.single.binary("sdiv", "i64", channels, str(v.lanes)), str(v.lanes))
    with kernel.each_item() as position:
        with code.loop("0", whole, step=step, may_be_empty=True) as channel:
            write(position, channel.index, _DEPTHWISE_VECTORS, is_whole=True)
        with code.loop(whole, vectors, step=v.lanes, may_be_empty=True) as channel:
            write(position, channel.index, 1, is_whole=True)
        with code.loop(vectors, channels, step=v.lanes, may_be_empty=True) as channel:
            write(position, channel.index, 1, is_whole=False)
    return kernel.unit()
