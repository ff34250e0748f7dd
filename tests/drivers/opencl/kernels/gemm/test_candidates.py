"""Every candidate for a contraction computes the same as the interpreter."""

from collections.abc import Callable

import pytest
from support.compiler.contractions import TYPES, Case, Cases
from support.opencl.sources import Bench, opencl_facts
from support.tiers import one_in

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.kernels.fused import pair
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

MAKE: dict[str, Callable[[Cases, Scalar], Case]] = {
    "convolution": lambda cases, kind: cases.convolution(kind),
    "grouped convolution": lambda cases, kind: cases.convolution(kind, groups=3),
    "few windows": lambda cases, kind: cases.few_windows(kind),
    "depthwise": lambda cases, kind: cases.depthwise(kind),
    "depthwise with a multiplier": lambda cases, kind: cases.depthwise(kind, multiplier=2),
    "matrices": lambda cases, kind: cases.matrix_product(kind),
    "batches": lambda cases, kind: cases.matrix_product(kind, batch=(2, 3)),
    "few rows": lambda cases, kind: cases.matrix_product(kind, rows=3),
}


def _as_gpu(facts: DeviceFacts) -> DeviceFacts:
    """Returns facts for which GPU kernels are generated; they also run on CPUs."""
    return replace(facts, kind=DeviceKind.GPU, compute_units=16)


@pytest.mark.parametrize("is_integer", [False, True])
@pytest.mark.parametrize("form", one_in(2, MAKE))
def test_cpu(form: str, is_integer: bool, bench: Bench) -> None:
    """For each form, with one float and one integer type."""
    assert FACTS is not None
    number = list(MAKE).index(form)
    kind = TYPES[2 * is_integer + number % 2]
    seed = number * 10 + TYPES.index(kind)
    case = MAKE[form](Cases(seed), kind)
    sources = candidates(case.kernel, FACTS, relaxed=False)
    assert sources
    # The first choice for some, others for the rest.
    source = sources[seed % len(sources) if is_integer else 0]
    result, status = bench.run(source, case.arrays)
    case.assert_equal(result, source.label)
    assert status == 0


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("form", ["convolution", "depthwise", "matrices"])
def test_gpu(form: str, kind: Scalar, bench: Bench) -> None:
    """With sizes as numbers and as parameters (NVIDIA)."""
    assert FACTS is not None
    seed = 100 + TYPES.index(kind)
    case = MAKE[form](Cases(seed), kind)
    facts = _as_gpu(FACTS)
    if TYPES.index(kind) % 2 == 0:
        facts = replace(facts, is_nvidia=True, compute_capability=(7, 0))
    sources = candidates(case.kernel, facts, relaxed=False)
    source = sources[seed % len(sources)]
    # Not every runtime can call a function with barriers, and none but NVIDIA's runs PTX: it only
    # fetches here.
    text = source.text.replace("__attribute__((noinline))", "").replace("asm volatile", "//")
    source = replace(source, code=LazyCode.of(text))
    result, _ = bench.run(source, case.arrays)
    case.assert_equal(result)


def test_candidates_are_deterministic() -> None:
    """The same kernel has the same texts, so that programs are cached, and its weights are packed
    once.
    """
    assert FACTS is not None
    case = Cases(7).convolution(Scalar.FLOAT32)
    first, second = (candidates(case.kernel, FACTS, relaxed=False) for _ in range(2))
    assert [source.name for source in first] == [source.name for source in second]
    assert all(a.arguments == b.arguments for a, b in zip(first, second, strict=True))


def test_tensor_cores_need_permission_to_round_floats() -> None:
    """FLOAT32 is rounded only in relaxed models and otherwise split; float16 is always exact."""
    assert FACTS is not None
    nvidia = replace(_as_gpu(FACTS), is_nvidia=True, compute_capability=(9, 0))
    for kind, relaxed, is_exact in (
        (Scalar.FLOAT32, False, True),
        (Scalar.FLOAT32, True, False),
        (Scalar.FLOAT16, False, False),
    ):
        case = _aligned(kind)
        labels = [source.label for source in candidates(case.kernel, nvidia, relaxed=relaxed)]
        found = [label for label in labels if "tensor cores" in label]
        assert found
        assert all(("3xTF32" in label) is is_exact for label in found)


def test_workspaces_are_used_only_if_provided() -> None:
    assert FACTS is not None
    nvidia = replace(_as_gpu(FACTS), is_nvidia=True, compute_capability=(9, 0))
    kernel = _aligned(Scalar.FLOAT32).kernel
    assert not any(each.workspace_bytes for each in candidates(kernel, nvidia, relaxed=False))


def _aligned(kind: Scalar) -> Case:
    """Returns a product whose depth is a multiple of the number of elements that are copied at a
    time.
    """
    seed = 0
    while True:
        case = Cases(seed).matrix_product(kind)
        left, right = case.kernel.contraction.inputs  # type: ignore[union-attr]
        is_plain = not case.kernel.contraction.left_transposed  # type: ignore[union-attr]
        if is_plain and right.constant is not None and left.shape[-1] % 16 == 0 and right.type is kind:
            return case
        seed += 1


@pytest.mark.parametrize("seed", range(3))
def test_fused_depthwise_convolutions(seed: int, bench: Bench) -> None:
    """The kernel of a pair computes the same as both kernels in order."""
    assert FACTS is not None
    case = Cases(seed).separable(Scalar.FLOAT32)
    first, second = case.kernels
    sources = pair.candidates(first, second, _as_gpu(FACTS))
    assert sources
    assert first.output not in sources[0].arguments
    result, _ = bench.run(sources[seed % len(sources)], case.arrays)
    case.assert_equal(result)
