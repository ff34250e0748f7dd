"""Operators that call subgraphs or keep state, and those of StableHLO."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from support.tflite.builder import TfliteGraph, TfliteModel
from sweep.form import ALL, Form, Kind, constant, fed, simple, tensor, varied

_SCALARS = ("f32", "i32", "i64", "bool", "q8", "f16")


def _plain(graph: TfliteGraph, shape: Sequence[int], type_: str, **fields: Any) -> int:
    return graph.tensor(shape, type_, has_rank=not shape, **fields)


def _two(file: TfliteModel, codes: Sequence[str], shape: Sequence[int], kind: Kind) -> None:
    """Adds a subgraph with two inputs and one output for each operator."""
    quantization = {"scale": kind.scale, "zero_point": kind.zero}
    for code in codes:
        graph = file.subgraph()
        graph.inputs = [_plain(graph, shape, kind.type, **quantization) for _ in range(2)]
        graph.outputs = (_plain(graph, shape, kind.type, **quantization),)
        graph.operator(code, graph.inputs, graph.outputs)


def branches(operator: str) -> Iterator[Form]:
    """Yields forms of IF."""
    for kind in ("f32", "i32", "i64", "q8", "bool", "f16"):
        for shape in ((), (3,), (2, 3), (1, 1, 2, 2, 1, 3)):
            codes = ("LOGICAL_AND", "LOGICAL_OR") if kind == "bool" else ("MAXIMUM", "MINIMUM")

            def calls(
                file: TfliteModel,
                codes: Sequence[str] = codes,
                shape: Sequence[int] = shape,
                kind: str = kind,
            ) -> None:
                _two(file, codes, shape, tensor((), kind).kind)

            for condition in ((), (1,)):
                inputs = tensor(condition, "bool"), tensor(shape, kind), tensor(shape, kind)
                form = simple(
                    operator,
                    f"{kind} {shape} by {condition}",
                    inputs,
                    (tensor(shape, kind),),
                    "IfOptions",
                    ThenSubgraphIndex=1,
                    ElseSubgraphIndex=2,
                )
                yield from (replace(each, calls=calls) for each in varied(kind, form))


def loops(operator: str) -> Iterator[Form]:
    """Yields forms of WHILE that double a sum a few times."""
    for kind in ("f32", "i32", "i64"):
        for shape in ((), (3,), (2, 3), (1, 1, 2, 2, 1, 3)):

            def calls(file: TfliteModel, shape: Sequence[int] = shape, kind: str = kind) -> None:
                type_ = tensor((), kind).kind.type
                condition, body = file.subgraph(), file.subgraph()
                for graph in (condition, body):
                    graph.inputs = (_plain(graph, (), "INT32"), _plain(graph, shape, type_))
                limit = condition.tensor((), "INT32", data=np.int32(3))
                condition.outputs = (_plain(condition, (), "BOOL"),)
                condition.operator("LESS", (condition.inputs[0], limit), condition.outputs)
                one = body.tensor((), "INT32", data=np.int32(1))
                body.outputs = (_plain(body, (), "INT32"), _plain(body, shape, type_))
                body.operator("ADD", (body.inputs[0], one), body.outputs[:1], "AddOptions")
                body.operator("ADD", (body.inputs[1],) * 2, body.outputs[1:], "AddOptions")

            inputs = fed(0), tensor(shape, kind)
            form = simple(
                operator,
                f"{kind} {shape}",
                inputs,
                (tensor((), "i32"), tensor(shape, kind)),
                "WhileOptions",
                CondSubgraphIndex=1,
                BodySubgraphIndex=2,
            )
            yield from (replace(each, calls=calls) for each in varied(kind, form))


def variables(operator: str) -> Iterator[Form]:
    """Yields forms of VAR_HANDLE, ASSIGN_VARIABLE and READ_VARIABLE."""
    for kind in ALL:
        for shape in ((), (3,), (2, 3)):

            def wrap(graph: TfliteGraph, form: Form, indexes: Sequence[int]) -> Sequence[int]:
                handle = graph.tensor((), "RESOURCE", has_rank=True)
                graph.operator("VAR_HANDLE", (), (handle,), "VarHandleOptions", Container="c", SharedName="v")
                graph.operator("ASSIGN_VARIABLE", (handle, indexes[0]), (), "AssignVariableOptions")
                graph.operator("READ_VARIABLE", (handle,), indexes[1:], "ReadVariableOptions")
                return indexes[1:]

            form = simple(operator, f"{kind} {shape}", (tensor(shape, kind),), (tensor(shape, kind),))
            yield from (replace(each, wrap=wrap) for each in varied(kind, form))


def elements(operator: str) -> Iterator[Form]:
    """Yields forms with two inputs."""
    for kind in ALL:
        low = 0 if operator == "STABLEHLO_SHIFT_LEFT" else None
        inputs = (
            tensor((2, 3), kind, low=low, high=5 if low == 0 else None),
            tensor((2, 3), kind, low=low, high=5 if low == 0 else None),
        )
        yield from varied(kind, simple(operator, kind, inputs, (tensor((2, 3), kind),)))
    for shape in ((), (5,), (2, 1, 3, 2), (1, 1, 2, 2, 1, 3), (0, 3)):
        yield simple(
            operator, f"{shape}", (tensor(shape, "i32", low=0, high=9),) * 2, (tensor(shape, "i32"),)
        )


def _long(*values: int) -> Any:
    return np.array(values, np.int64)


def stablehlo_pad(operator: str) -> Iterator[Form]:
    for kind in ALL:
        for low, high, inner, shape in (
            ((1, 0), (0, 2), (0, 0), (3, 5)),
            ((0, 0), (0, 0), (1, 2), (3, 7)),
            ((-1, 1), (0, -1), (0, 0), (1, 3)),
        ):
            fields = {
                "EdgePaddingLow": _long(*low),
                "EdgePaddingHigh": _long(*high),
                "InteriorPadding": _long(*inner),
            }
            yield simple(
                operator,
                f"{kind} {low} {high} {inner}",
                (tensor((2, 3), kind), tensor((), kind)),
                (tensor(shape, kind),),
                "StablehloPadOptions",
                **fields,
            )


def stablehlo_gather(operator: str) -> Iterator[Form]:
    for kind in ALL:
        for number in ("i32", "i64"):
            fields = {
                "OffsetDims": _long(1),
                "CollapsedSliceDims": _long(0),
                "StartIndexMap": _long(0),
                "IndexVectorDim": 1,
                "SliceSizes": _long(1, 4),
            }
            inputs = tensor((3, 4), kind), fed([[2], [0]], number)
            yield simple(
                operator,
                f"{kind} {number}",
                inputs,
                (tensor((2, 4), kind),),
                "StablehloGatherOptions",
                **fields,
            )


def _bodies(operator: str, make: Callable[[str, str], Form]) -> Iterator[Form]:
    """Returns a form whose body is one of the reductions of StableHLO or TFLite."""
    for kind in ("f32", "i32", "i64", "f16", "q8", "i8", "u8", "bool"):
        for code in (
            "STABLEHLO_ADD",
            "STABLEHLO_MULTIPLY",
            "STABLEHLO_MAXIMUM",
            "STABLEHLO_MINIMUM",
            "STABLEHLO_AND",
            "STABLEHLO_OR",
            "ADD",
            "MUL",
            "MAXIMUM",
            "MINIMUM",
            "LOGICAL_AND",
            "LOGICAL_OR",
        ):

            def calls(file: TfliteModel, code: str = code, kind: str = kind) -> None:
                _two(file, (code,), (), tensor((), kind).kind)

            yield replace(make(kind, code), calls=calls)


def reduce_window(operator: str) -> Iterator[Form]:
    def make(kind: str, code: str) -> Form:
        fields = {
            "WindowDimensions": _long(2, 2), "WindowStrides": _long(1, 2), "BaseDilations": _long(1, 1),
            "WindowDilations": _long(1, 1), "Padding": _long(0, 1, 0, 0), "BodySubgraphIndex": 1,
        }  # fmt: skip
        start = 0 if code.endswith(("ADD", "OR")) else 1
        value = constant(start, kind)
        return simple(
            operator,
            f"{kind} {code}",
            (tensor((3, 4), kind), value),
            (tensor((3, 2), kind),),
            "StablehloReduceWindowOptions",
            **fields,
        )

    return _bodies(operator, make)


def stablehlo_scatter(operator: str) -> Iterator[Form]:
    def make(kind: str, code: str) -> Form:
        fields = {
            "UpdateWindowDims": _long(1),
            "InsertedWindowDims": _long(0),
            "ScatterDimsToOperandDims": _long(0),
            "IndexVectorDim": 1,
            "UpdateComputationSubgraphIndex": 1,
        }
        inputs = tensor((4, 2), kind), fed([[2], [0]]), tensor((2, 2), kind)
        return simple(
            operator, f"{kind} {code}", inputs, (tensor((4, 2), kind),), "StablehloScatterOptions", **fields
        )

    return _bodies(operator, make)


FORMS: dict[str, Callable[[str], Iterator[Form]]] = {
    "IF": branches,
    "READ_VARIABLE": variables,
    "STABLEHLO_ADD": elements,
    "STABLEHLO_AND": elements,
    "STABLEHLO_GATHER": stablehlo_gather,
    "STABLEHLO_MAXIMUM": elements,
    "STABLEHLO_MINIMUM": elements,
    "STABLEHLO_MULTIPLY": elements,
    "STABLEHLO_PAD": stablehlo_pad,
    "STABLEHLO_REDUCE_WINDOW": reduce_window,
    "STABLEHLO_SCATTER": stablehlo_scatter,
    "STABLEHLO_SHIFT_LEFT": elements,
    "WHILE": loops,
}
