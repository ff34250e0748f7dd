"""Every choice for a contraction gives what the expressions say."""

import dataclasses
from collections.abc import Callable

import pytest
from support.contractions import TYPES, Case, Cases
from support.opencl_sources import Bench, opencl_facts

from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.opencl.kernels import candidates
from neurald.drivers.opencl.platform import DeviceFacts, DeviceKind
from neurald.drivers.opencl.source import Source

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

MAKE: dict[str, Callable[[Cases, Scalar], Case]] = {
    "convolution": lambda cases, kind: cases.convolution(kind),
    "grouped convolution": lambda cases, kind: cases.convolution(kind, groups=3),
    "depthwise": lambda cases, kind: cases.depthwise(kind),
    "depthwise with a multiplier": lambda cases, kind: cases.depthwise(kind, multiplier=2),
    "matrices": lambda cases, kind: cases.matrix_product(kind),
    "batches": lambda cases, kind: cases.matrix_product(kind, batch=(2, 3)),
    "few rows": lambda cases, kind: cases.matrix_product(kind, rows=3),
}


@pytest.fixture(scope="module")
def bench() -> Bench:
    assert FACTS is not None
    return Bench(FACTS.handle)


def _as_gpu(facts: DeviceFacts) -> DeviceFacts:
    """What kernels for GPUs are made for; they run on processors too."""
    return dataclasses.replace(facts, kind=DeviceKind.GPU, compute_units=16)


def _some(sources: tuple[Source, ...], seed: int) -> list[Source]:
    """The first, and another one, so that all are seen by some case."""
    return list(dict.fromkeys((sources[0], sources[seed % len(sources)])))


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("form", MAKE)
def test_processor(form: str, kind: Scalar, bench: Bench) -> None:
    assert FACTS is not None
    seed = list(MAKE).index(form) * 10 + TYPES.index(kind)
    case = MAKE[form](Cases(seed), kind)
    sources = candidates(case.kernel, FACTS, relaxed=False)
    assert sources
    for source in _some(sources, seed):
        result, status = bench.run(source, case.arrays)
        case.assert_equal(result, source.label)
        assert status == 0


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("form", ["convolution", "matrices"])
def test_gpu(form: str, kind: Scalar, bench: Bench) -> None:
    assert FACTS is not None
    seed = 100 + TYPES.index(kind)
    case = MAKE[form](Cases(seed), kind)
    sources = candidates(case.kernel, _as_gpu(FACTS), relaxed=False)
    result, _ = bench.run(sources[seed % len(sources)], case.arrays)
    case.assert_equal(result)


def test_choices_are_made_once() -> None:
    """The same kernel has the same texts, so that programs are cached, and its weights are packed once."""
    assert FACTS is not None
    case = Cases(7).convolution(Scalar.FLOAT32)
    first, second = (candidates(case.kernel, FACTS, relaxed=False) for _ in range(2))
    assert [source.name for source in first] == [source.name for source in second]
    assert all(a.arguments == b.arguments for a, b in zip(first, second, strict=True))


def test_tensor_cores_need_permission_for_floats() -> None:
    """FLOAT32 is rounded only where that is allowed; halves and 8 bits are exact in any case."""
    assert FACTS is not None
    nvidia = dataclasses.replace(_as_gpu(FACTS), is_nvidia=True, compute_capability=(9, 0))
    for kind, relaxed, expected in (
        (Scalar.FLOAT32, False, False),
        (Scalar.FLOAT32, True, True),
        (Scalar.FLOAT16, False, True),
    ):
        case = _aligned(kind)
        labels = [source.label for source in candidates(case.kernel, nvidia, relaxed=relaxed)]
        assert any("tensor cores" in label for label in labels) is expected


def test_workspace_is_asked_for_only_where_it_is_given() -> None:
    assert FACTS is not None
    nvidia = dataclasses.replace(_as_gpu(FACTS), is_nvidia=True, compute_capability=(9, 0))
    kernel = _aligned(Scalar.FLOAT32).kernel
    assert not any(each.workspace_bytes for each in candidates(kernel, nvidia, relaxed=False))


def _aligned(kind: Scalar) -> Case:
    """A product whose depth is a multiple of what is copied at once."""
    seed = 0
    while True:
        case = Cases(seed).matrix_product(kind)
        left, right = case.kernel.contraction.inputs  # type: ignore[union-attr]
        is_plain = not case.kernel.contraction.left_transposed  # type: ignore[union-attr]
        if is_plain and right.constant is not None and left.shape[-1] % 16 == 0 and right.type is kind:
            return case
        seed += 1
