"""Integer LSTM cells, against a cell of real numbers and against LiteRT's results."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep
from support.tflite.builder import TfliteGraph, TfliteModel

from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite

GATES = ("input", "forget", "cell", "output")
BATCH, SIZE, UNITS = 2, 5, 4
INPUT, WEIGHTS, VECTORS, BIAS, OUTPUT, STATE = 2.0**-6, 2.0**-7, 2.0**-14, 2.0**-13, 2.0**-7, 2.0**-11
INPUT_ZERO, OUTPUT_ZERO, HIDDEN_ZERO = 3, -5, -5


@dataclass(kw_only=True)
class Cell:
    """A cell to be written to a file.

    Attributes:
        kind: the operator.
        intermediates: number of the operator's intermediates.
        state: the scale of the cell state.
        hidden_scale, hidden_zero: of the hidden values.
    """

    kind: str = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    time: int = 3
    outputs: int = UNITS
    coupled: bool = False
    peephole: bool = False
    norm: bool = False
    projection: bool = False
    time_major: bool = True
    cell_clip: float = 0.0
    projection_clip: float = 0.0
    intermediates: int = 5
    state: float = STATE
    hidden_scale: float = OUTPUT
    hidden_zero: int = HIDDEN_ZERO

    def __post_init__(self) -> None:
        rng = np.random.default_rng(7)

        def draw(limit: int, *shape: int) -> Array:
            return rng.integers(-limit, limit + 1, shape)

        self.inputs = draw(127, 4, UNITS, SIZE)
        self.recurrent = draw(127, 4, UNITS, self.outputs)
        self.peepholes, self.norms = draw(32767, 4, UNITS), draw(32767, 4, UNITS)
        self.bias = draw(4000, 4, UNITS)
        self.projected, self.projected_bias = draw(127, self.outputs, UNITS), draw(4000, self.outputs)

    @property
    def is_step(self) -> bool:
        return self.kind == "LSTM"

    def shape(self, last: int) -> tuple[int, ...]:
        if self.is_step:
            return BATCH, last
        return (self.time, BATCH, last) if self.time_major else (BATCH, self.time, last)

    def build(self) -> TfliteModel:
        file = TfliteModel()
        graph = file.subgraph()
        x = graph.tensor(self.shape(SIZE), "INT8", scale=INPUT, zero_point=INPUT_ZERO)
        y = graph.tensor(self.shape(self.outputs), "INT8", scale=OUTPUT, zero_point=OUTPUT_ZERO)
        inside = [graph.tensor((1,), "INT16", scale=STATE if self.norm else ()) for _ in GATES]
        inside.append(graph.tensor((1,), "INT8", scale=self.hidden_scale, zero_point=self.hidden_zero))
        options: dict[str, Any] = {"CellClip": self.cell_clip, "ProjClip": self.projection_clip}
        if not self.is_step:
            options["TimeMajor"] = self.time_major
        graph.operator(
            self.kind,
            (x, *self._parameters(graph)),
            (y,),
            "LSTMOptions" if self.is_step else "UnidirectionalSequenceLSTMOptions",
            FusedActivationFunction=4,
            intermediates=inside[: self.intermediates],
            **options,
        )
        graph.inputs, graph.outputs = (x,), (y,)
        return file

    def _parameters(self, graph: TfliteGraph) -> list[int]:
        def fixed(type_: str, scale: float, value: Array, *, given: bool = True) -> int:
            return graph.tensor(value.shape, type_, data=value, scale=scale) if given else -1

        gates = range(4)
        given = [not self.coupled, True, True, True]
        return [
            *(fixed("INT8", WEIGHTS, self.inputs[k], given=given[k]) for k in gates),
            *(fixed("INT8", WEIGHTS, self.recurrent[k], given=given[k]) for k in gates),
            *(
                fixed("INT16", VECTORS, self.peepholes[k], given=self.peephole and given[k])
                for k in (0, 1, 3)
            ),
            *(fixed("INT32", BIAS, self.bias[k], given=given[k]) for k in gates),
            fixed("INT8", WEIGHTS, self.projected, given=self.projection),
            fixed("INT32", BIAS, self.projected_bias, given=self.projection),
            graph.tensor(
                (BATCH, self.outputs), "INT8", scale=OUTPUT, zero_point=OUTPUT_ZERO, is_variable=True
            ),
            graph.tensor((BATCH, UNITS), "INT16", scale=self.state, is_variable=True),
            *(fixed("INT16", VECTORS, self.norms[k], given=self.norm and given[k]) for k in gates),
        ]

    def values(self) -> Array:
        return np.random.default_rng(8).integers(-128, 128, self.shape(SIZE)).astype(np.int8)


def compiled(cell: Cell, folder: Path) -> Compilation:
    return CompilationBuilder(load_tflite(cell.build().write(folder / "model.tflite"))).finish()


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


@sweep("time_major", [False, True])
@sweep("coupled", [False, True])
def test_reals(tmp_path: Path, *, time_major: bool, coupled: bool) -> None:
    cell = Cell(time_major=time_major, coupled=coupled, time=4)
    compilation = compiled(cell, tmp_path)
    assert [o.type for o in compilation.model.main.operations] == [
        OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM
    ]
    x = cell.values()
    (result,) = compilation.run(x)
    sequence = x if time_major else x.swapaxes(0, 1)
    state = np.zeros((BATCH, UNITS))
    last = np.full((BATCH, UNITS), -OUTPUT_ZERO * OUTPUT)  # Variables start as raw zeros.
    expected = []
    for step in sequence:
        real = (step.astype(np.float64) - INPUT_ZERO) * INPUT
        sums = [
            real @ (cell.inputs[k].T * WEIGHTS) + last @ (cell.recurrent[k].T * WEIGHTS) + cell.bias[k] * BIAS
            for k in range(4)
        ]
        forget = sigmoid(sums[1])
        admit = 1 - forget if coupled else sigmoid(sums[0])
        state = forget * state + admit * np.tanh(sums[2])
        last = sigmoid(sums[3]) * np.tanh(state)
        expected.append(last)
    outputs = np.stack(expected) if time_major else np.stack(expected, axis=1)
    np.testing.assert_allclose((result.astype(int) - OUTPUT_ZERO) * OUTPUT, outputs, atol=4 * OUTPUT)


#: Results of LiteRT's reference kernels, in the second of two runs, for all steps and rows.
GOLDEN: list[tuple[dict[str, Any], list[int]]] = [
    (
        {},
        [
            -10,
            38,
            -14,
            -7,
            47,
            -11,
            33,
            -18,
            -10,
            28,
            17,
            -36,
            22,
            28,
            22,
            -16,
            3,
            -2,
            -26,
            32,
            -15,
            13,
            6,
            -18,
        ],
    ),
    (
        {"time_major": False, "coupled": True, "peephole": True},
        [
            -8,
            55,
            19,
            -4,
            34,
            -37,
            18,
            2,
            18,
            -35,
            6,
            -77,
            -11,
            85,
            -48,
            -65,
            1,
            -1,
            -65,
            17,
            -20,
            22,
            -10,
            -23,
        ],
    ),
    (
        {"norm": True, "peephole": True, "time": 2},
        [7, 32, -10, -16, -16, -49, 73, -13, -2, 27, 66, -24, -6, -3, -8, -42],
    ),
    ({"kind": "LSTM"}, [-14, 35, -8, -8, 65, -21, 33, -1]),
    ({"kind": "LSTM", "norm": True, "coupled": True, "hidden_zero": 20}, [35, 67, -8, 21, 16, -25, 95, 22]),
    (
        {"projection": True, "outputs": 3, "peephole": True, "hidden_zero": 60, "time": 2},
        [-47, -64, -10, 44, 10, 9, -46, -116, -22, 10, -47, -4],
    ),
    (
        {"projection": True, "outputs": 3, "peephole": True, "time_major": False, "time": 2},
        [-44, -50, -8, -9, -24, -8, 22, -85, -13, -7, -64, -8],
    ),
    (
        {
            "projection": True,
            "outputs": 6,
            "norm": True,
            "hidden_scale": 0.001953125,
            "hidden_zero": 30,
            "time": 1,
            "projection_clip": 0.5,
        },
        [-29, -26, 10, 2, -25, 24, -1, 19, -32, -30, -11, -46],
    ),
    (
        {"cell_clip": 0.25, "state": 3.0517578125e-05, "time": 2},
        [-8, 22, 9, -8, 19, -5, 8, -21, -3, 17, 6, -34, 7, 25, 1, -15],
    ),
    (
        {"state": 0.001953125, "hidden_scale": 0.00390625, "hidden_zero": 100, "time": 2},
        [91, 127, 127, 102, 127, 106, 127, 97, 56, 127, 127, 86, 127, 127, 125, 97],
    ),
]


@sweep(("options", "expected"), GOLDEN)
def test_numbers(tmp_path: Path, options: dict[str, Any], expected: list[int]) -> None:
    cell = Cell(**options)
    compilation = compiled(cell, tmp_path)
    assert len(compilation.model.state) == 2
    for _ in range(2):
        (result,) = compilation.run(cell.values())
    assert result.dtype == np.int8
    assert result.shape == cell.shape(cell.outputs)
    assert result.ravel().tolist() == expected


@pytest.mark.parametrize("hidden_zero", [-128, 127])
@pytest.mark.parametrize("projection", [False, True])
def test_compiled_with_every_zero_point(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, hidden_zero: int, *, projection: bool
) -> None:
    cell = Cell(hidden_zero=hidden_zero, projection=projection, outputs=3 if projection else UNITS)
    model = load_tflite(cell.build().write(tmp_path / "model.tflite"))
    results = [
        CompilationBuilder(model, [CpuDevice(compiles=compiles)]).finish().run(cell.values())
        for compiles in (False, True)
    ]
    np.testing.assert_array_equal(results[1], results[0])
    # Operations that the compiler cannot compile run on references, which is logged.
    assert caplog.records == []


@sweep(
    ("options", "message"),
    [
        ({"intermediates": 4}, "4 intermediates; one of integers needs 5"),
        ({"state": 2.0**-16}, "a power of two from 2\\^-15"),
        ({"state": 0.0004}, "a power of two from 2\\^-15"),
        ({"hidden_zero": 128}, "hidden_state_zero_point"),
        ({"outputs": UNITS + 1, "projection": True, "peephole": True}, "at most 4"),
        ({"outputs": UNITS + 1}, "recurrent_to_output_weights"),
        ({"cell_clip": -1.0}, "cell_clip"),
    ],
)
def test_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadData, match=message):
        load_tflite(Cell(**options).build().write(tmp_path / "model.tflite"))
