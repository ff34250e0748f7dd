"""`nd.compile`: every kind of source and option, and what is refused."""

import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.small import add_model
from support.tflite.builder import TfliteModel
from support.tflite.litert_files import counter, sums, two_signatures

import neurald as nd

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


def test_a_file_bytes_and_a_model(tmp_path: Path) -> None:
    path = sums().write(tmp_path / "m.tflite")
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), nd.load_tflite(path)):
        (found,) = nd.compile(source)(X, X)
        np.testing.assert_array_equal(found, 2 * X + 3)


def test_devices_by_name_or_object() -> None:
    content = sums().build()
    for device in ("cpu", ["cpu"], nd.devices()[0], [nd.devices()[0]]):
        function = nd.compile(content, device, threads=1)
        assert function.compilation.has_explicit_devices
    with pytest.raises(nd.UnavailableDevice, match="there is no device 'gpu9'; there are: cpu"):
        nd.compile(content, "gpu9")
    with pytest.raises(nd.UnavailableDevice, match=r"nd\.open_device\('reference'\) opens its device"):
        nd.compile(content, "reference")
    with pytest.raises(nd.UnavailableDevice, match="a daemon: `neurald driver reference` starts it"):
        nd.compile(content, "reference@reference")


@pytest.mark.parametrize("name", ["convert", "receipts"])
def test_a_text_is_no_flag(name: str) -> None:
    options: dict[str, Any] = {name: "false"}
    with pytest.raises(nd.WrongType, match=f"{name} is 'false'; True or False is expected"):
        nd.compile(sums().build(), "cpu", **options)


def test_startup() -> None:
    function = nd.compile(sums().build(), startup=nd.Startup.OPTIMIZED)
    assert function.status.is_optimized
    assert function.wait_until_optimized(10)


def test_signatures_share_variables() -> None:
    content = counter().build()
    add = nd.compile(content, signature="add")
    assert set(add.signatures) == {"add", "get"}
    add(x=np.array([2], np.float32))
    get = add.signatures["get"]
    assert get is add.signatures["get"]
    assert get({}) == {"total": np.float32(7)}
    with pytest.raises(KeyError):
        add.signatures["zz"]
    with pytest.raises(nd.BadData, match="no signature 'zz'"):
        nd.compile(content, signature="zz")


def test_shapes_of_inputs() -> None:
    function = nd.compile(sums(None).build(), shapes={"x": (4, 5), "y": (4, 5)})
    (found,) = function(np.ones((4, 5), np.float32), np.ones((4, 5), np.float32))
    assert found.shape == (4, 5)
    assert function.inputs_info[0].shape == (4, 5)
    opened = nd.compile(sums(None).build(), shapes={"x": (0, 5), "y": (0, 5)})
    assert opened.inputs_info[0].shape == (None, 5)
    for rows in (1, 3):
        assert opened(np.ones((rows, 5), np.float32), np.ones((rows, 5), np.float32))[0].shape == (rows, 5)
    for shapes, words in (
        ({"q": (1,)}, "'q', which is not an input; there are: 'x', 'y'"),
        ({"x": (-1, 3)}, "is not a shape; .* 0 for one that is left open"),
        ({"x": opened.inputs_info[0].shape}, "is None; 0 leaves a length open"),
        ({"x": ("a",)}, "length of input 'x'"),
    ):
        with pytest.raises(nd.BadData, match=words):
            nd.compile(sums().build(), shapes=shapes)  # type: ignore[arg-type]
    with pytest.raises(nd.BadData, match="for a file only"):
        nd.compile(add_model((2,)), shapes={"x": (3,)})


def test_values_inside_are_kept() -> None:
    function = nd.compile(sums().build(), keep=["between"])
    found = function(x=X, y=X)
    assert list(found) == ["z", "between"]
    np.testing.assert_array_equal(found["between"], 2 * X)
    with pytest.raises(nd.BadData, match=r"no result is named 'q'; there are 'between'$"):
        nd.compile(sums().build(), keep=["q"])
    with pytest.raises(nd.BadData, match="a list of names is expected"):
        nd.compile(sums().build(), keep="between")


def test_a_name_that_is_not_kept_lists_few_others_and_the_likely_ones_first() -> None:
    builder = nd.ModelBuilder()
    kind = nd.OperandType.TENSOR_FLOAT32
    names = ["x", *(f"{'very' * n}/layer_{n}" for n in range(40)), "Head/pool", "twice", "twice"]
    values = [builder.add_operand(kind, (2,), name=name) for name in [*names, "y"]]
    for source, target in pairwise(values):
        builder.add_operation(nd.OperationType.RELU, [source], [target])
    builder.identify_inputs_and_outputs(values[:1], values[-1:])
    model = builder.finish()
    with pytest.raises(nd.BadData, match=r"no result is named 'head'; there are 'Head/pool', ") as raised:
        nd.compile(model, keep=["head"])
    assert "and 37 others, which `neurald inspect --operations` lists" in str(raised.value)
    with pytest.raises(nd.BadData, match="no result is named 'layerlayer") as raised:
        nd.compile(model, keep=["layer" * 100])
    assert len(str(raised.value)) < 600
    with pytest.raises(nd.BadData, match="2 results of operations are named 'twice'"):
        nd.compile(model, keep=["twice"])


def test_sources_that_are_none() -> None:
    with pytest.raises(nd.BadData, match=r"nothing\.tflite"):
        nd.compile("nothing.tflite")
    with pytest.raises(nd.BadData, match="the model"):
        nd.compile(3)  # type: ignore[arg-type]


def test_pickling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sums().write(tmp_path / "m.tflite")
    monkeypatch.chdir(tmp_path)
    function = nd.compile("m.tflite", "cpu", keep=["between"])
    monkeypatch.chdir("/")
    restored = pickle.loads(pickle.dumps(function))
    np.testing.assert_array_equal(restored(X, X)[1], 2 * X)
    assert pickle.loads(pickle.dumps(nd.compile(sums().build())))(X, X)[0].shape == (2, 3)
    of_a_model = pickle.loads(pickle.dumps(nd.compile(add_model((2,)), "cpu")))
    assert of_a_model(np.ones(2, np.float32), np.ones(2, np.float32))[0].tolist() == [2, 2]
    with pytest.raises(TypeError, match=r"cannot be pickled: .* Compile it for names of devices"):
        pickle.dumps(nd.compile(sums().build(), nd.devices()[0]))


def test_a_pickled_model_needs_no_file(tmp_path: Path) -> None:
    """Another process, in which nothing of this library is loaded, computes with its constants."""
    models = {"sums": sums(), "counter": counter(), "signatures": two_signatures()}
    for name, file in models.items():
        model = nd.load_tflite(file.write(tmp_path / "m.tflite"))
        (tmp_path / f"{name}.pickle").write_bytes(pickle.dumps(model))
        (tmp_path / "m.tflite").unlink()
    program = """
import pathlib, pickle, sys
import numpy as np
for path in map(pathlib.Path, sys.argv[1:]):
    model = pickle.loads(path.read_bytes())
    import neurald as nd
    function = nd.compile(model)
    inputs = [np.ones([each or 1 for each in info.shape], info.dtype) for info in function.inputs_info]
    function(*inputs)
    print(path.stem, sorted(model.signatures), [each.tolist() for each in function(*inputs)])
"""
    paths = [tmp_path / f"{name}.pickle" for name in models]
    run = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, check=False)
    expected = []
    for name, file in models.items():
        function = nd.compile(file.build())
        inputs = [
            np.ones([each or 1 for each in info.shape or ()], info.dtype) for info in function.inputs_info
        ]
        function(*inputs)
        found = [each.tolist() for each in function(*inputs)]
        expected.append(f"{name} {sorted(function.compilation.model.signatures)} {found}")
    assert run.stdout.splitlines() == expected, run.stderr


def test_real_numbers_for_quantised_values() -> None:
    file = TfliteModel()
    graph = file.subgraph()
    x = graph.tensor((3,), "INT8", name="x", scale=0.5, zero_point=1)
    z = graph.tensor((3,), "INT8", name="z", scale=0.5, zero_point=1)
    graph.operator("RELU", (x,), (z,))
    graph.inputs, graph.outputs = (x,), (z,)
    function = nd.compile(file.build(), convert=True)
    (found,) = function([-1.0, 1.2, 1e9])
    assert found.dtype == np.float32
    assert found.tolist() == [0, 1, 63]
    (plain,) = nd.compile(file.build())(np.array([-3, 3, 127], np.int8))
    assert plain.dtype == np.int8
    with pytest.raises(nd.BadData, match="NaN"):
        function([np.nan, 0, 0])


def test_two_signatures_run() -> None:
    function = nd.compile(two_signatures().build())
    assert function.signatures["double"](b=[4.0])["w"].tolist() == [8]
