"""Variables get the values of CALL_ONCE when a signature runs for the first time, as in LiteRT."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from support.tflite.resources import write_own_initialisations

from neurald.litert import CompiledModel, Interpreter

ONES = np.ones(2, np.float32)

Run = Callable[[str], list[float]]


def interpreter(path: Path) -> Run:
    found = Interpreter(path)
    runners = {name: found.get_signature_runner(name) for name in ("train", "infer")}

    def run(name: str) -> list[float]:
        values: list[float] = runners[name](x=ONES)["y"].tolist()
        return values

    return run


def compiled_model(path: Path) -> Run:
    model = CompiledModel.from_file(path)

    def run(name: str) -> list[float]:
        index = model.get_signature_index(name)
        inputs, outputs = model.create_input_buffers(index), model.create_output_buffers(index)
        inputs[0].write(ONES)
        model.run_by_index(index, inputs, outputs)
        values: list[float] = outputs[0].read(2, np.float32).tolist()
        return values

    return run


# Found with ai-edge-litert 2.3.
@pytest.mark.parametrize("opened", [interpreter, compiled_model])
@pytest.mark.parametrize(
    ("second", "order", "expected"),
    [
        ([1, 2], "train train infer train infer", [[2, 3], [3, 4], [2, 3], [2, 3], [3, 4]]),
        ([1, 2], "infer train train infer", [[2, 3], [2, 3], [3, 4], [4, 5]]),
        ([10, 20], "train train infer train infer", [[2, 3], [3, 4], [11, 21], [11, 21], [12, 22]]),
        ([10, 20], "infer train train infer", [[11, 21], [2, 3], [3, 4], [4, 5]]),
    ],
)
def test_first_runs_initialise(
    opened: Callable[[Path], Run], second: Sequence[float], order: str, expected: object, tmp_path: Path
) -> None:
    run = opened(write_own_initialisations(tmp_path, second))
    assert [run(name) for name in order.split()] == expected
