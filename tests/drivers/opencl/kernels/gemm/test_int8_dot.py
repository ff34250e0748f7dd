"""Four-byte dot products give the same integers, and are used only on devices that have them.

The tests define functions and instructions that the device may lack in OpenCL C.
NEURALD_UPDATE_GOLDEN=1 rewrites the golden files instead of comparing with them.
"""

import os
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from support.compiler.contractions import Case, Cases
from support.compiler.graphs import GraphBuilder
from support.opencl.kernels import GRAPHS, kernels
from support.opencl.sources import Bench, opencl_facts
from support.sweeps import sweep

from neurald.drivers.compiler.ir.graph import Contraction
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.lazy_code import LazyCode
from neurald.drivers.opencl.kernels.gemm import int8_dot
from neurald.drivers.opencl.kernels.gemm.gemm_view import gemm_view
from neurald.drivers.opencl.kernels.gemm.int8_dot import DotInstruction, instruction_of
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.hal.records import replace

FACTS = opencl_facts()
pytestmark = pytest.mark.skipif(FACTS is None, reason="no OpenCL device")

GOLDEN = Path(__file__).parent / "golden"
UPDATE_VARIABLE = "NEURALD_UPDATE_GOLDEN"

_TYPES = {"s": "char", "u": "uchar"}
#: The functions of cl_khr_integer_dot_product and the instructions, of any signs.
_EMULATED = "#define __opencl_c_integer_dot_product_input_4x8bit_packed 1\n" + "".join(
    f"""\
static int emulated_{left}{right}(const uint a, const uint b) {{
  int sum = 0;
  for (int i = 0; i < 32; i += 8) sum += (int)({_TYPES[left]})(a >> i) * (int)({_TYPES[right]})(b >> i);
  return sum;
}}
#define dot_4x8packed_{left}{right}_{"uint" if left + right == "uu" else "int"}(a, b) emulated_{left}{right}(a, b)
"""
    for left, right in product("su", "su")
)

MAKE: dict[str, Callable[[Cases, Scalar], Case]] = {
    "convolution": lambda cases, kind: cases.convolution(kind),
    "grouped": lambda cases, kind: cases.convolution(kind, groups=3),
    "windows": lambda cases, kind: cases.few_windows(kind),
    "matrices": lambda cases, kind: cases.matrix_product(kind),
    "batches": lambda cases, kind: cases.matrix_product(kind, batch=(2, 3)),
}


def gpu(instruction: DotInstruction | None) -> DeviceFacts:
    """Returns a device with this instruction and no other special support for 8 bits."""
    assert FACTS is not None
    facts = replace(FACTS, kind=DeviceKind.GPU, compute_units=16, is_nvidia=False, compute_capability=None)
    if instruction is DotInstruction.PTX:
        return replace(facts, has_dot_product=False, is_nvidia=True, compute_capability=(6, 1))
    return replace(facts, has_dot_product=instruction is not None)


def sources_of(case: Case, instruction: DotInstruction) -> list[Source]:
    found = gemm_view(case.kernel)
    assert found is not None
    return int8_dot.candidates(case.kernel, found, gpu(instruction))


def emulated(source: Source, definitions: str = "") -> Source:
    """Returns the source for a device without the instruction.

    Args:
        source: the source to run.
        definitions: replaces the default definitions.
    """
    text = re.sub(
        r'asm\("dp4a\.([su])32\.([su])32 [^;]*;" [^;]*;',
        lambda found: f"sum += emulated_{found[1]}{found[2]}(left, right);",
        source.text,
    )
    assert "asm" not in text
    # Not every runtime can call a function with barriers, and PoCL's compiler (LLVM 15) crashes on
    # some loops when unrolled.
    for hint in ("__attribute__((noinline))", "#pragma unroll\n", '_Pragma("unroll")'):
        text = text.replace(hint, "")
    return replace(source, code=LazyCode.of((definitions or _EMULATED) + text))


@sweep("seed", range(2))
@sweep("kind", [Scalar.INT8, Scalar.UINT8], ids=lambda kind: kind.name)
@sweep("form", MAKE)
def test_every_form_gives_the_same_integers(form: str, kind: Scalar, seed: int, bench: Bench) -> None:
    instruction = list(DotInstruction)[seed % 2]
    # The next one that has such kernels: not all layouts of what is not a constant do.
    for number in range(100 * seed, 100 * seed + 100):
        case = MAKE[form](Cases(number), kind)
        sources = sources_of(case, instruction)
        if sources:
            break
    source = sources[seed % len(sources)]
    result, status = bench.run(emulated(source), case.arrays)
    case.assert_equal(result, source.label)
    assert status == 0


@sweep("kind", [Scalar.INT8, Scalar.UINT8], ids=lambda kind: kind.name)
def test_compilers_without_the_functions_give_the_same_integers(kind: Scalar, bench: Bench) -> None:
    case = Cases(1).convolution(kind)
    source = sources_of(case, DotInstruction.FUNCTION)[0]
    hidden = "#undef __opencl_c_integer_dot_product_input_4x8bit_packed\n"
    result, _ = bench.run(emulated(source, hidden), case.arrays)
    case.assert_equal(result, source.label)


@pytest.mark.parametrize("rows", [1, 33])
def test_every_tiling_gives_the_same_integers(rows: int, bench: Bench) -> None:
    case = Cases(rows).matrix_product(Scalar.UINT8, rows=rows)
    while not (sources := sources_of(case, DotInstruction.FUNCTION)):
        rows += 100
        case = Cases(rows).matrix_product(Scalar.UINT8, rows=rows % 100)
    for source in sources:
        result, _ = bench.run(emulated(source), case.arrays)
        case.assert_equal(result, source.label)


def _contraction(case: Case) -> Contraction:
    found = case.kernel.contraction
    assert found is not None
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("is_constant", [True, False])
def test_weights_that_do_not_fit_without_their_zero_point(is_constant: bool, bench: Bench) -> None:
    """Weights from 0 to 255 minus a zero point of 100 exceed 8 bits, so that rows are summed."""
    seed = 0
    while True:
        case = Cases(seed).matrix_product(Scalar.UINT8)
        contraction = _contraction(case)
        right = contraction.inputs[1]
        is_wide = right.type is Scalar.UINT8 and 64 < contraction.right_zero < 192  # type: ignore[union-attr]
        is_it = is_wide and contraction.left_zero and (right.constant is not None) is is_constant  # type: ignore[union-attr]
        if is_it and (sources := sources_of(case, DotInstruction.FUNCTION)):
            break
        seed += 1
    for source in sources[:1]:
        assert "row_sums[i] = " in source.text
        assert ("column_sums = KERNEL_NAME" in source.text) is not is_constant
        result, _ = bench.run(emulated(source), case.arrays)
        case.assert_equal(result, source.label)


def test_sums_wrap_around(bench: Bench) -> None:
    """As without dot products; the saturating functions would not."""
    builder, depth = GraphBuilder(), 1 << 17
    left = builder.input(9, depth, type=Scalar.INT8)
    right = builder.constant(np.full((4, depth), -128, np.int8))
    (kernel,) = kernels(builder.finish(builder.matrix_product(left, right, type=Scalar.INT32)))
    found = gemm_view(kernel)
    assert found is not None
    source = int8_dot.candidates(kernel, found, gpu(DotInstruction.FUNCTION))[0]
    result, _ = bench.run(emulated(source), {left: np.full(left.shape, -128, np.int8)})
    np.testing.assert_array_equal(result, np.full((9, 4), -(2**31), np.int32))


def test_instructions_of_devices() -> None:
    for instruction in (*DotInstruction, None):
        assert instruction_of(gpu(instruction)) is instruction
    both = replace(gpu(DotInstruction.PTX), has_dot_product=True)
    assert instruction_of(both) is DotInstruction.FUNCTION
    assert instruction_of(replace(gpu(DotInstruction.PTX), compute_capability=(6, 0))) is None
    assert instruction_of(replace(gpu(DotInstruction.PTX), compute_capability=None)) is None
    assert instruction_of(replace(gpu(DotInstruction.FUNCTION), kind=DeviceKind.CPU)) is None


def test_dot_products_precede_other_tiles() -> None:
    def labels(case: Case, instruction: DotInstruction | None) -> list[str]:
        sources = candidates(case.kernel, gpu(instruction), relaxed=False)
        return [source.label.split(",")[0].split(" ")[0] for source in sources]

    integers, floats = (Cases(3).convolution(kind) for kind in (Scalar.INT8, Scalar.FLOAT32))
    for instruction in DotInstruction:
        found = [each for each in labels(integers, instruction) if each in ("dot", "tile")]
        assert found == sorted(found)
        assert set(found) == {"dot", "tile"}
        assert "dot" not in labels(floats, instruction)
    assert "dot" not in labels(integers, None)


@sweep("instruction", DotInstruction)
def test_golden_texts(instruction: DotInstruction) -> None:
    (kernel,) = kernels(GRAPHS["quantised_product"]())
    found = gemm_view(kernel)
    assert found is not None
    facts = replace(gpu(instruction), max_work_group_size=256, local_memory_bytes=32768)
    text = int8_dot.candidates(kernel, found, facts)[0].text
    path = GOLDEN / f"dot_{instruction.value}.cl"
    if os.environ.get(UPDATE_VARIABLE):
        path.write_text(text)
    assert text == path.read_text(), f"{UPDATE_VARIABLE}=1 accepts the change"
