"""Variables that the signatures of a file share."""

from pathlib import Path

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.resources import (
    assign,
    initialise,
    plus,
    read,
    variable,
    write_own_initialisations,
)

from neurald.hal.errors import BadData, BadState, UnexpectedNull
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.tflite import load_tflite

ONES = np.ones(2, np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Writes a file: `train` adds its input to a variable, `infer` reads it, `twice` ignores it."""
    file = TfliteModel()
    train, infer, twice = (file.subgraph() for _ in range(3))
    initialise(file, train, v=[1, 2])
    infer.operator("CALL_ONCE", (), (), "CallOnceOptions", InitSubgraphIndex=3)
    x, handle = train.tensor((2,)), variable(train, "v")
    total = plus(train, read(train, handle, 2), x, 2)
    assign(train, handle, total)
    train.inputs, train.outputs = (x,), (total,)
    y = infer.tensor((2,))
    infer.inputs, infer.outputs = (y,), (plus(infer, read(infer, variable(infer, "v"), 2), y, 2),)
    z = twice.tensor((2,))
    twice.inputs, twice.outputs = (z,), (plus(twice, z, z, 2),)
    for number, (name, graph) in enumerate({"train": train, "infer": infer, "twice": twice}.items()):
        file.signature(name, {"x": graph.inputs[0]}, {"y": graph.outputs[0]}, number)
    return file.write(tmp_path / "model.tflite")


def compiled(path: Path, signature: str, *others: Compilation) -> Compilation:
    builder = CompilationBuilder(load_tflite(path, signature))
    for other in others:
        builder.share_state(other)
    return builder.finish()


def test_a_signature_reads_values_that_another_assigns(path: Path) -> None:
    train = compiled(path, "train")
    infer = compiled(path, "infer", train)
    found = [one.run(ONES)[0].tolist() for one in (infer, train, infer, train, infer)]
    assert found == [[2, 3], [2, 3], [3, 4], [3, 4], [4, 5]]
    assert infer.state.value("variable 'v'").tolist() == [3, 4]
    infer.state.reset()
    assert train.run(ONES)[0].tolist() == [2, 3]


def test_signatures_share_nothing_by_default(path: Path) -> None:
    train, infer = compiled(path, "train"), compiled(path, "infer")
    train.run(ONES)
    assert infer.run(ONES)[0].tolist() == [2, 3]


def test_three_compilations_share_state(path: Path) -> None:
    twice = compiled(path, "twice")
    assert not twice.state.names
    infer = compiled(path, "infer", twice)
    train = compiled(path, "train", twice)
    again = compiled(path, "train", infer)
    train.run(ONES)
    again.run(ONES)
    assert infer.run(ONES)[0].tolist() == [4, 5]


def test_a_variable_that_no_signature_assigns_is_a_constant(tmp_path: Path) -> None:
    file = TfliteModel()
    main = file.subgraph()
    initialise(file, main, v=[1, 2])
    x = main.tensor((2,))
    main.inputs, main.outputs = (x,), (plus(main, read(main, variable(main, "v"), 2), x, 2),)
    file.signature("only", {"x": x}, {"y": main.outputs[0]})
    assert not load_tflite(file.write(tmp_path / "model.tflite"), "only").state


def test_each_signature_begins_with_the_values_of_its_own_initialisation(tmp_path: Path) -> None:
    path = write_own_initialisations(tmp_path, [10, 20])
    assert compiled(path, "train").run(ONES)[0].tolist() == [2, 3]
    infer = compiled(path, "infer")
    assert infer.run(ONES)[0].tolist() == [11, 21]
    builder = CompilationBuilder(load_tflite(path, "train"))
    with pytest.raises(BadData, match="variable 'v' does not have the same type and initial value"):
        builder.share_state(infer)


def test_a_damaged_signature_does_not_affect_others(path: Path, tmp_path: Path) -> None:
    file = TfliteModel()
    main, other = file.subgraph(), file.subgraph()
    x = main.tensor((2,))
    main.inputs, main.outputs = (x,), (plus(main, x, x, 2),)
    file.signature("good", {"x": x}, {"y": main.outputs[0]})
    file.signature("bad", {}, {}, 1)
    other.operator("IF", (0, 9), (0,), "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=1)
    assert load_tflite(file.write(tmp_path / "damaged.tflite"), "good").main.operations


def test_state_that_cannot_be_shared(path: Path, tmp_path: Path) -> None:
    train = compiled(path, "train")
    builder = CompilationBuilder(load_tflite(path, "infer"))
    with pytest.raises(UnexpectedNull, match="other is None"):
        builder.share_state(None)  # type: ignore[arg-type]
    builder.finish()
    with pytest.raises(BadState, match="finished"):
        builder.share_state(train)
    file = TfliteModel()
    main = file.subgraph()
    initialise(file, main, v=[5, 5])
    x, handle = main.tensor((2,)), variable(main, "v")
    main.inputs, main.outputs = (x,), (plus(main, read(main, handle, 2), x, 2),)
    assign(main, handle, main.outputs[0])
    other = CompilationBuilder(load_tflite(file.write(tmp_path / "other.tflite")))
    with pytest.raises(BadData, match="variable 'v' does not have the same type and initial value"):
        other.share_state(train)
    assert other.finish().run(ONES)[0].tolist() == [6, 6]
