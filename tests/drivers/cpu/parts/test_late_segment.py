"""Operations get code for shapes and values that only executions know, also the first ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteGraph, TfliteModel

import neurald as nd
from neurald.drivers.cpu.data_dependent.value_variants import ValueVariants
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.cpu.parts import late_segment
from neurald.drivers.cpu.parts.late_segment import LateSegment
from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.execution.graph_operations import GraphOperations
from neurald.hal.model.types import Lifetime
from neurald.hal.records import replace
from neurald.service.conformance.cases.case import Case, generate, signatures

Array = np.ndarray[Any, Any]
SHAPE = (2, 3, 4)


def source(shape: Sequence[int] = SHAPE) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def integers(*values: int) -> Array:
    return np.array(values, np.int32)


def fed(
    code: str,
    count: int,
    options: str | None = None,
    *,
    kind: str = "FLOAT32",
    shape: Sequence[int] = SHAPE,
    is_open: bool = False,
    rank: int = 3,
    follows: bool = False,
    **values: Any,
) -> nd.Model:
    """Returns a model of one operator on a tensor and an input of integers.

    Args:
        code: the operator.
        count: the number of integers.
        options: the table of its options, with `values`.
        kind: the type of the tensor.
        shape: its shape.
        is_open: whether executions may have other lengths.
        rank: the rank of the result.
        follows: whether other operators read the result.
        values: the values of the options, by name.
    """
    file = TfliteModel()
    graph = file.subgraph()
    tensor = graph.tensor(shape, kind, shape_signature=(-1,) * len(shape) if is_open else None)
    given = graph.tensor((count,), "INT32")
    result = _open(graph, rank, kind)
    graph.operator(code, (tensor, given), (result,), options, **values)
    output = result
    if follows:
        output = _open(graph, rank, kind)
        graph.operator("MUL", (result, result), (output,), "MulOptions")
    graph.inputs, graph.outputs = (tensor, given), (output,)
    return nd.load_tflite(file.build())


def _open(graph: TfliteGraph, rank: int, kind: str) -> int:
    return graph.tensor((1,) * rank, kind, shape_signature=(-1,) * rank)


def compiled(model: nd.Model, device: nd.Device | None = None) -> nd.Compilation:
    return nd.CompilationBuilder(model, [device or CpuDevice()]).finish()


@pytest.fixture
def on_references(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that references of the CPU device have computed."""
    found: list[str] = []
    compute = GraphOperations._compute

    def noted(self: GraphOperations, position: int, *arguments: Any) -> None:
        found.append(self.graph.operations[position].type.name)
        compute(self, position, *arguments)

    monkeypatch.setattr(GraphOperations, "_compute", noted)
    return found


REDUCED = {"options": "ReducerOptions", "KeepDims": True}
CASES: dict[str, tuple[dict[str, Any], list[Array]]] = {
    "transpose": ({"code": "TRANSPOSE", "count": 3}, [integers(2, 0, 1), integers(0, 2, 1)]),
    "reverse": ({"code": "REVERSE_V2", "count": 1}, [integers(0), integers(-1)]),
    "sum": ({"code": "SUM", "count": 2, **REDUCED}, [integers(0, 2), integers(1, 1)]),
    "maximum": ({"code": "REDUCE_MAX", "count": 1, "kind": "INT32", **REDUCED}, [integers(1), integers(-3)]),
    "reshape": ({"code": "RESHAPE", "count": 3}, [integers(4, -1, 2), integers(24, 1, 1)]),
    "tile": ({"code": "TILE", "count": 3}, [integers(1, 2, 3), integers(0, 1, 1)]),
}


@pytest.mark.parametrize("is_open", [False, True], ids=["specified", "open"])
@pytest.mark.parametrize("follows", [False, True], ids=["alone", "followed"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_runs_on_references(
    name: str, *, follows: bool, is_open: bool, on_references: list[str], compiles_here: None
) -> None:
    arguments, given = CASES[name]
    model = fed(**arguments, is_open=is_open, follows=follows)
    compilation, reference = compiled(model), compiled(model, ReferenceDevice())
    shapes = [SHAPE, (3, 2, 4), (0, 3, 8)] if is_open else [SHAPE]
    for shape in shapes:
        tensor = source(shape).astype("<i4" if arguments.get("kind") else "<f4")
        for values in given:
            try:
                (wanted,) = reference.run(tensor, values)
            except nd.OpFailed:
                with pytest.raises(nd.OpFailed):
                    compilation.run(tensor, values)
                continue
            on_references.clear()
            (found,) = compilation.run(tensor, values)
            assert not on_references
            assert found.shape == wanted.shape
            np.testing.assert_array_equal(found, wanted)


def late(compilation: nd.Compilation) -> LateSegment:
    """Returns the only late step of a compilation."""
    (step,) = compilation.plan.steps
    prepared = step.prepared_model
    base = prepared.base if isinstance(prepared, ValueVariants) else prepared
    assert isinstance(base, PartlyCompiledModel)
    (found,) = (each for each in base.steps[0] if isinstance(each, LateSegment))
    return found


def deciding(case: Case) -> list[int]:
    """Returns the constant integers of a case that affect more than arithmetic."""
    definition = case.signature.definition
    binding = definition.bind(case.operation, case.operands, values_known=False)
    return [
        index
        for name, indexes in binding.inputs.items()
        if name not in definition.arithmetic
        for index in indexes
        if index not in case.free
        and (value := case.values[index]) is not None
        and case.operands[index].type.is_tensor
        and value.dtype.kind in "iu"
    ]


def with_inputs(case: Case, fed: Sequence[int], *, is_open: bool) -> tuple[nd.Model, list[Array]]:
    """Returns a case's model with further inputs and outputs of unknown lengths, and the inputs.

    Args:
        case: the case.
        fed: the constants that become inputs.
        is_open: whether inputs may have other lengths.
    """
    main, inputs = case.model.main, (*case.model_inputs, *fed)
    operands, given = list(main.operands), []
    for index in inputs:
        value = case.values[index]
        assert value is not None
        given.append(value)
        operands[index] = replace(
            operands[index],
            lifetime=Lifetime.SUBGRAPH_INPUT,
            dimensions=(0,) * value.ndim if is_open else value.shape,
            value=b"",
            location=None,
        )
    for index in case.operation.outputs:
        operands[index] = replace(operands[index], dimensions=(0,) * len(operands[index].dimensions or ()))
    graph = replace(main, operands=tuple(operands), inputs=inputs)
    return replace(case.model, main=graph), given


def fed_cases() -> dict[str, Case]:
    """Returns a case of each operation with such arguments."""
    found: dict[str, Case] = {}
    for signature in signatures():
        case = None if signature.definition.type.name in found else generate(signature, 0)
        if case is not None and deciding(case):
            found[case.type.name] = case
    return found


def is_same(found: Array, wanted: Array) -> bool:
    if wanted.dtype.kind != "f":
        return np.array_equal(found, wanted)
    return found.shape == wanted.shape and np.allclose(found, wanted, rtol=1e-2, atol=1e-2, equal_nan=True)


@pytest.mark.parametrize("is_open", [False, True], ids=["specified", "open"])
def test_arguments_of_each_operation(*, is_open: bool, on_references: list[str], compiles_here: None) -> None:
    """Each may be an input, also in the first execution."""
    cases, wrong = fed_cases(), list[str]()
    for name, case in cases.items():
        for fed_together in (*([each] for each in deciding(case)), deciding(case)):
            model, given = with_inputs(case, fed_together, is_open=is_open)
            found = compiled(model).run(*given)
            if not all(map(is_same, found, case.expected)):
                wrong.append(f"{name} {fed_together}")
    assert len(cases) > 80
    assert not wrong
    assert not on_references


def test_random_numbers_differ(on_references: list[str], compiles_here: None) -> None:
    file = TfliteModel()
    graph = file.subgraph()
    logits, samples = graph.tensor((2, 7)), graph.tensor((), "INT32", has_rank=True)
    result = _open(graph, 2, "INT64")
    graph.operator("MULTINOMIAL", (logits, samples), (result,), "RandomOptions")
    graph.inputs, graph.outputs = (logits, samples), (result,)
    compilation = compiled(nd.load_tflite(file.build()))
    given = source((2, 7)) / 14
    found = [compilation.run(given, np.array(count, np.int32))[0] for count in (64, 64, 6)]
    assert not on_references
    assert [each.shape for each in found] == [(2, 64), (2, 64), (2, 6)]
    assert not np.array_equal(found[0], found[1])


def test_code_is_kept_for_values(compiles_here: None) -> None:
    compilation = compiled(fed("TRANSPOSE", 3))
    segment = late(compilation)
    for _ in range(3):
        for axes in ((2, 0, 1), (1, 0, 2)):
            (found,) = compilation.run(source(), integers(*axes))
            np.testing.assert_array_equal(found, source().transpose(axes))
    assert len(segment._kept) == 2
    # Code that is used makes up for code that is made.
    assert segment._count == 0


def test_values_that_code_need_not_know_are_read_by_it(on_references: list[str], compiles_here: None) -> None:
    """The rows to gather may differ in every execution, and so may their number."""
    file = TfliteModel()
    graph = file.subgraph()
    table, axes, rows = graph.tensor((5, 3)), graph.tensor((2,), "INT32"), graph.tensor((2,), "INT32")
    turned, result = _open(graph, 2, "FLOAT32"), _open(graph, 2, "FLOAT32")
    graph.operator("TRANSPOSE", (table, axes), (turned,))
    graph.operator("GATHER", (turned, rows), (result,), "GatherOptions", Axis=0)
    graph.inputs, graph.outputs = (table, axes, rows), (result,)
    compilation = compiled(nd.load_tflite(file.build()))
    for first in range(3):
        (found,) = compilation.run(source((5, 3)), integers(1, 0), integers(first, 2))
        np.testing.assert_array_equal(found, source((5, 3)).T[[first, 2]])
    assert not on_references
    (step,) = compilation.plan.steps
    prepared = step.prepared_model
    assert isinstance(prepared, ValueVariants)
    gather = prepared.base.steps[0][-1]  # type: ignore[index]
    assert isinstance(gather, LateSegment)
    assert len(gather._kept) == 1


def test_values_that_always_differ_get_no_code_forever(
    monkeypatch: pytest.MonkeyPatch, on_references: list[str], compiles_here: None
) -> None:
    monkeypatch.setattr(late_segment, "_MAX_NEW", 2)
    compilation = compiled(fed("TRANSPOSE", 3))
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0)]
    for axes in orders:
        compilation.run(source(), integers(*axes))
    assert len(on_references) == 2
    on_references.clear()
    # What is found again is not new.
    for axes in orders[2:]:
        (found,) = compilation.run(source(), integers(*axes))
        np.testing.assert_array_equal(found, source().transpose(axes))
    assert not on_references


def test_little_code_is_kept(monkeypatch: pytest.MonkeyPatch, compiles_here: None) -> None:
    monkeypatch.setattr(late_segment, "_MAX_KEPT", 2)
    compilation = compiled(fed("TRANSPOSE", 3))
    segment = late(compilation)
    for axes in ((0, 1, 2), (0, 2, 1), (1, 0, 2)):
        (found,) = compilation.run(source(), integers(*axes))
        np.testing.assert_array_equal(found, source().transpose(axes))
    assert len(segment._kept) == 2


def test_code_for_values_is_not_kept_for_others(compiles_here: None) -> None:
    """Another thread finds out that code needs values just after this one has asked."""

    class _Late(dict[Any, Any]):
        is_asked = False

        def get(self, key: Any, default: Any = None) -> Any:
            self.is_asked, was_asked = True, self.is_asked
            return super().get(key, default) if was_asked else default

    compilation = compiled(fed("TRANSPOSE", 3))
    segment = late(compilation)
    segment._needs_values = _Late({(SHAPE, (3,)): (1,)})
    for axes in ((2, 0, 1), (1, 0, 2)):
        (found,) = compilation.run(source(), integers(*axes))
        np.testing.assert_array_equal(found, source().transpose(axes))
        # As if other shapes had taken their places.
        segment._needs_values.clear()


def test_wrong_values_are_errors_of_references(compiles_here: None) -> None:
    compilation = compiled(fed("TRANSPOSE", 3))
    for _ in range(2):
        with pytest.raises(nd.OpFailed, match="0, 1, 3"):
            compilation.run(source(), integers(0, 1, 3))


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("last", [-1, 2])
def test_lengths_whose_product_exceeds_a_word_are_refused(
    is_open: bool, last: int, compiles_here: None
) -> None:
    """In 64 bits the product of the first three is 4, and that of all four is the right one."""
    compilation = compiled(fed("RESHAPE", 4, "ReshapeOptions", shape=(2, 4), rank=4, is_open=is_open))
    lengths = integers(276131137, 34724, 1923865, last)
    assert np.prod([int(each) for each in lengths[:3]], dtype=object) == 2**64 + 4
    with pytest.raises(nd.OpFailed, match="276131137"):
        compilation.run(source((2, 4)), lengths)


def test_profiles_have_the_operations_of_the_model(compiles_here: None) -> None:
    compilation = compiled(fed("REVERSE_V2", 1, follows=True))
    compilation.run(source(), integers(1))
    (step,) = compilation.plan.steps
    prepared = step.prepared_model
    assert isinstance(prepared, ValueVariants)
    times = [each.profile() for each in prepared.base.steps[0]]  # type: ignore[index, union-attr]
    assert [kernel.operations for kernels in times for kernel in kernels] == [(0,), (1,)]
