"""Equal kernels: which they are, and that they have the sources that each would have alone."""

import gc
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from unittest.mock import patch

import numpy as np
import pytest
from support.compiler.contractions import TYPES, Cases
from support.compiler.graphs import GraphBuilder
from support.opencl.facts import small_gpu, warpgroup_facts
from support.opencl.kernels import GRAPHS, kernels
from support.opencl.sources import opencl_facts
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Expression, apply, load
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.kernels.equal_kernels import EqualKernels
from neurald.drivers.opencl.kernels.gemm import warpgroup
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.hal.records import replace

pytestmark = pytest.mark.skipif(opencl_facts() is None, reason="no OpenCL device")

_MAX_CANDIDATES = 6


@pytest.fixture(autouse=True)
def small_products() -> Iterator[None]:
    """Lets warpgroups compute products of any size."""
    with patch.object(warpgroup, "_MIN_MULTIPLICATIONS", 0):
        yield


def facts(*, is_nvidia: bool) -> DeviceFacts:
    return warpgroup_facts() if is_nvidia else replace(small_gpu(), images=None)


def first_candidates(kernel: Kernel, device: DeviceFacts) -> Sequence[Source]:
    return list(
        islice(candidates(kernel, device, relaxed=True, has_workspace=True, is_large=True), _MAX_CANDIDATES)
    )


def constants_of(kernel: Kernel) -> list[Value]:
    return [each for each in kernel.inputs if each.constant is not None]


@sweep("form", ["convolution", "few_windows", "depthwise", "matrix_product"])
@sweep("kind", TYPES, ids=lambda kind: kind.name)
@sweep("is_nvidia", [False, True])
def test_sources_are_those_of_each_kernel(form: str, kind: Scalar, is_nvidia: bool) -> None:
    """The second kernel has other operations, and constants with other elements.

    The sources of constants of integers depend on their elements, so that these kernels are asked
    for their own.
    """
    device = facts(is_nvidia=is_nvidia)
    for seed in range(4):
        kernels = [getattr(Cases(seed), form)(kind).kernel for _ in range(2)]
        second = replace(kernels[1], operations=(7, 9))
        for each in constants_of(second):
            assert each.constant is not None
            each.constant = np.flip(each.constant)
        asked: list[Kernel] = []
        equal = EqualKernels()

        def sources(kernel: Kernel, equal: EqualKernels = equal, asked: list[Kernel] = asked) -> list[Source]:
            def make() -> Sequence[Source]:
                asked.append(kernel)
                return first_candidates(kernel, device)

            return list(equal.sources("kernel", (kernel,), make))

        sources(kernels[0])
        found = sources(second)
        assert [each.operations for each in found] == [(7, 9)] * len(found)
        assert found == first_candidates(second, device)
        is_shared = all(each.type.is_float for each in constants_of(second))
        assert len(asked) == (1 if is_shared else 2)


def changed_kernels() -> Iterable[Kernel]:
    """Yields kernels that all differ in more than the values that they access."""

    def product(rows: int = 4, *, kind: Scalar = Scalar.FLOAT32, is_constant: bool = True) -> Kernel:
        builder = GraphBuilder()
        left, array = builder.input(rows, 8), np.ones((8, 8), np.float32)
        right = builder.constant(array) if is_constant else builder.input(8, 8)
        sums = builder.matrix_product(left, right)
        graph = builder.finish(builder.compute(sums.shape, lambda *at: load(sums, at).to(kind)))
        return fuse(graph).kernels[0]

    yield product()
    yield product(rows=5)
    yield product(kind=Scalar.FLOAT16)
    yield product(is_constant=False)

    def binary(body: str, *, is_same: bool = False) -> Kernel:
        builder = GraphBuilder()
        one = builder.input(4, 6)
        two = one if is_same else builder.input(4, 6)

        def element(*at: Expression) -> Expression:
            a, b = load(one, at), load(two, at)
            return {
                "a - b": a - b,
                "b - a": b - a,
                "a + 0": apply(Op.ADD, a, b * 0.0),
                "a + -0": apply(Op.ADD, a, b * -0.0),
                "exp": apply(Op.EXP, a) + b,
                "turned": a + load(two, (at[0], 5 - at[1])),
                "row": a + load(two, (at[0], at[0])),
            }[body]

        return fuse(builder.finish(builder.compute((4, 6), element))).kernels[0]

    yield from map(binary, ("a - b", "a + 0", "a + -0", "exp", "turned", "row"))
    yield binary("exp", is_same=True)
    for make in GRAPHS.values():
        yield from kernels(make())


def test_different_kernels_are_told_apart() -> None:
    """Each is asked about, also if all were asked about before by another question."""
    equal, asked = EqualKernels(), 0

    def decide(kernel: Kernel) -> bool:
        nonlocal asked
        asked += 1
        return kernel.contraction is None

    given = list(changed_kernels())
    for count in (1, 2):
        for kernel in given:
            assert equal.verdict(kernel, decide) is (kernel.contraction is None)
        assert asked == len(given), count
    assert not equal.verdict(given[4], lambda _: False)
    sources = [equal.sources(what, (given[4],), lambda: ()) for what in ("one", "two")]
    assert sources == [(), ()]


def test_the_order_of_loads_does_not_matter() -> None:
    """A difference of two values has the roles of both, whatever they are."""

    def difference(*, is_turned: bool) -> Kernel:
        builder = GraphBuilder()
        values = builder.input(4), builder.input(4)
        one, two = reversed(values) if is_turned else values
        return fuse(
            builder.finish(builder.compute((4,), lambda i: load(one, (i,)) - load(two, (i,))))
        ).kernels[0]

    equal, device = EqualKernels(), facts(is_nvidia=False)
    for is_turned in (False, True):
        kernel = difference(is_turned=is_turned)
        found = equal.sources("kernel", (kernel,), partial(first_candidates, kernel, device))
        assert [each.arguments for each in found] == [
            each.arguments for each in first_candidates(kernel, device)
        ]


def test_sources_that_read_other_values_are_made_again() -> None:
    """A source that reads what no kernel accesses, and is not packed from it, serves one only."""
    first, second = (Cases(3).matrix_product(Scalar.FLOAT32).kernel for _ in range(2))
    device, equal = facts(is_nvidia=False), EqualKernels()

    def make(kernel: Kernel) -> list[Source]:
        plain, *others = first_candidates(kernel, device)
        foreign = Value((1,), Scalar.FLOAT32, np.zeros(1, np.float32))
        return [plain, replace(plain, arguments=(*plain.arguments, foreign)), *others]

    known = equal.sources("kernel", (first,), lambda: make(first))
    own = make(second)
    found = list(equal.sources("kernel", (second,), lambda: own))
    assert len(known) == len(found) == len(own)
    assert found[0] == own[0]
    assert found[0] is not own[0]
    assert all(one is other for one, other in zip(found[1:], own[1:], strict=True))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("is_nvidia", [False, True])
def test_packed_weights_are_freed(kind: Scalar, is_nvidia: bool) -> None:
    """Nothing that remains of candidates refers to the weights of a kernel."""
    alive: list[weakref.ref[Value]] = []
    for seed in range(4):
        for form in ("convolution", "depthwise", "matrix_product"):
            kernel = getattr(Cases(seed), form)(kind).kernel
            first_candidates(kernel, facts(is_nvidia=is_nvidia))
            alive += map(weakref.ref, constants_of(kernel))
    del kernel
    gc.collect()
    assert alive
    assert not [each() for each in alive if each() is not None]
