"""The CPU benchmark of a folder: found models, their inputs, what counts as right, rows."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from support.tflite.builder import TfliteModel


@pytest.fixture
def modules(import_benchmark: Callable[..., Any]) -> Callable[[str], Any]:
    """Imports a module of `benchmarks/cpu` by name."""
    return partial(import_benchmark, folder="cpu")


def write_dense(
    path: Path, *, weights: str = "FLOAT32", activations: str = "FLOAT32", batch: int = 1
) -> Path:
    """Writes a model of one FULLY_CONNECTED; a batch of -1 is open."""
    model = TfliteModel()
    graph = model.subgraph()
    signature = (batch, 4) if batch < 0 else None
    scale: Any = {"scale": 0.1} if activations != "FLOAT32" else {}
    x = graph.tensor((abs(batch), 4), activations, name="x", shape_signature=signature, **scale)
    data = np.arange(8).reshape(2, 4)
    scale_w: Any = {"scale": 0.01} if weights != "FLOAT32" else {}
    w = graph.tensor((2, 4), weights, name="w", data=data, **scale_w)
    out = None if batch > 0 else (-1, 2)
    y = graph.tensor((abs(batch), 2), activations, name="y", shape_signature=out, **scale)
    graph.operator("FULLY_CONNECTED", (x, w), (y,), "FullyConnectedOptions", FusedActivationFunction=0)
    graph.inputs, graph.outputs = (x,), (y,)
    path.parent.mkdir(parents=True, exist_ok=True)
    return model.write(path)


def write_operators(path: Path, *names: str) -> Path:
    """Writes a file that holds operators, which need not be valid."""
    model = TfliteModel()
    graph = model.subgraph()
    x = graph.tensor((1, 4), name="x")
    w = graph.tensor((1, 4), name="w", data=np.zeros((1, 4)))
    for name in names:
        graph.operator(name, (x, w), (x,))
    graph.inputs, graph.outputs = (x,), (x,)
    return model.write(path)


@pytest.mark.parametrize(
    ("weights", "activations", "family"),
    [
        ("FLOAT32", "FLOAT32", "dense fp32"),
        ("INT8", "FLOAT32", "dense hybrid"),
        ("INT8", "INT8", "dense int8"),
        ("UINT8", "UINT8", "dense uint8"),
        ("INT8", "INT16", "dense int16x8"),
    ],
)
def test_the_precision_follows_from_weights_and_activations(
    modules: Any, tmp_path: Path, weights: str, activations: str, family: str
) -> None:
    path = write_dense(tmp_path / "m.tflite", weights=weights, activations=activations)
    assert modules("model_file").read_model_file(path).family == family


@pytest.mark.parametrize(
    ("operators", "kind"),
    [
        (("CONV_2D", "ADD"), "cnn"),
        (("CONV_2D", "BATCH_MATMUL", "SOFTMAX", "BATCH_MATMUL"), "transformer"),
        (("CONV_2D", "UNIDIRECTIONAL_SEQUENCE_LSTM"), "recurrent"),
        (("WHILE", "FULLY_CONNECTED"), "recurrent"),
        (("FULLY_CONNECTED", *["TANH", "LOGISTIC", "LOGISTIC"] * 4), "recurrent"),
        (("WHILE", "ADD"), "control flow"),
        (("CONV_3D", "CONV_2D"), "3-D convolution"),
        (("FULLY_CONNECTED", "TANH"), "dense"),
        (("ADD",), "operators"),
    ],
)
def test_the_kind_follows_from_the_operators(
    modules: Any, tmp_path: Path, operators: tuple[str, ...], kind: str
) -> None:
    assert modules("model_file").read_model_file(write_operators(tmp_path / "m", *operators)).kind == kind


def test_models_of_nested_folders_are_found_and_damaged_ones_are_rows(modules: Any, tmp_path: Path) -> None:
    write_dense(tmp_path / "b" / "dense.tflite")
    (tmp_path / "a.tflite").write_bytes(b"nothing")
    found = list(modules("model_folder").folder_models(tmp_path))
    assert [(model.name, model.family) for model in found] == [("a", "damaged"), ("b/dense", "dense fp32")]
    with pytest.raises(modules("model_folder").Unusable, match="damaged"):
        found[0].inputs(modules("model_folder").OpenShapes())


def manifest(tmp_path: Path, **case: Any) -> None:
    """Writes a manifest beside the folder `models`."""
    entry = {"file": "models/dense.tflite", "family": "mine", "cases": [{"seed": 3, **case}]}
    (tmp_path / "manifest.json").write_text(json.dumps({"models": [entry]}))


def test_a_manifest_gives_family_inputs_and_limits(modules: Any, tmp_path: Path) -> None:
    write_dense(tmp_path / "models" / "dense.tflite", batch=-1)
    rules = [
        {"rule": "uniform", "low": -2, "high": 2, "shape": [3, 4], "dtype": "float32"},
        {"rule": "randint", "low": 5, "high": 7, "shape": [2], "dtype": "int64"},
        {"rule": "randbool", "shape": [2], "dtype": "bool"},
        {"rule": "zeros", "shape": [2], "dtype": "int8"},
        {"rule": "arange", "shape": [2, 2], "dtype": "int32"},
        {"rule": "const", "value": [1, 2], "shape": [2], "dtype": "float32"},
    ]
    manifest(tmp_path, steps=[{"inputs": rules, "outputs": [{"atol": 0.5, "sampled": False}]}])
    (model,) = modules("model_folder").folder_models(tmp_path / "models")
    assert model.family == "mine"
    arrays = model.inputs(modules("model_folder").OpenShapes())
    random = np.random.default_rng(3)
    expected = np.float32(-2) + np.float32(4) * random.random((3, 4), dtype=np.float32)
    np.testing.assert_array_equal(arrays[0], expected)
    np.testing.assert_array_equal(arrays[1], random.integers(5, 7, 2))
    assert arrays[2].dtype == bool
    assert [array.tolist() for array in arrays[3:]] == [[0, 0], [[0, 1], [2, 3]], [1.0, 2.0]]
    (limit,) = model.limits()
    assert (limit.atol, limit.is_widened) == (0.5, False)


@pytest.mark.parametrize(
    "case", [{"steps": [{"inputs": [{"rule": "image"}]}]}, {"signature": "f", "steps": [{"inputs": []}]}, {}]
)
def test_cases_that_need_more_are_passed_over(modules: Any, tmp_path: Path, case: dict[str, Any]) -> None:
    write_dense(tmp_path / "models" / "dense.tflite")
    manifest(tmp_path, **case)
    (model,) = modules("model_folder").folder_models(tmp_path / "models")
    assert model.case is None
    assert [array.shape for array in model.inputs(modules("model_folder").OpenShapes())] == [(1, 4)]


def test_a_wrong_manifest_is_refused(modules: Any, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(ValueError, match=r"manifest\.json is not a manifest"):
        list(modules("model_folder").folder_models(tmp_path))


def test_open_dimensions_get_lengths_from_the_options(modules: Any, tmp_path: Path) -> None:
    write_dense(tmp_path / "dense.tflite", batch=-1)
    folder = modules("model_folder")
    (model,) = folder.folder_models(tmp_path)

    def shape(**options: Any) -> tuple[int, ...]:
        return tuple(model.inputs(folder.OpenShapes(**options))[0].shape)

    assert shape() == (1, 4)
    assert shape(length=7) == (7, 4)
    assert shape(shapes={"x": (5, 4)}, length=7) == (5, 4)
    with pytest.raises(folder.Unusable, match=r"\[0, 4\] \(0 is open\), not \[5, 3\]"):
        shape(shapes={"x": (5, 3)})


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int16", "int64", "bool", "S8"])
def test_values_depend_on_the_type_only(modules: Any, dtype: str) -> None:
    folder, port = modules("model_folder"), modules("model_file").Port
    spec = port(name="x", shape=(100,), dtype=dtype, is_quantized=False)
    first, second = (folder._by_type(spec, (100,), np.random.default_rng(0)) for _ in range(2))
    assert first.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(first, second)
    assert len(set(first.tolist())) > 1


class TestAgreement:
    """Defines LiteRT's result."""

    def check(self, modules: Any, tmp_path: Path, found: Any, *truths: Any, **limit: Any) -> str:
        paths = [tmp_path / f"{number}.npz" for number in range(1 + len(truths))]
        for path, array in zip(paths, (found, *truths), strict=True):
            np.savez(path, np.asarray(array))
        agreement = modules("agreement")
        return str(agreement.disagreement(paths[0], paths[1:], [agreement.Limits(**limit)]))

    def test_limits_are_absolute_relative_and_of_the_range(self, modules: Any, tmp_path: Path) -> None:
        for limit in ({"atol": 0.2}, {"rtol": 0.02}, {"share": 0.02}):
            both = {"mean_atol": 1.0, **limit}
            assert self.check(modules, tmp_path, [10.1, 1.0], [10.0, 1.0], **both) == ""
            assert "50.00% of its elements" in self.check(modules, tmp_path, [10.3, 1.0], [10.0, 1.0], **both)

    def test_the_mean_has_a_limit_of_its_own(self, modules: Any, tmp_path: Path) -> None:
        limit = {"atol": 1.0, "mean_atol": 0.3}
        assert self.check(modules, tmp_path, [1.0, 0, 0, 0], [0.0] * 4, **limit) == ""
        assert "mean 1" in self.check(modules, tmp_path, [1.0] * 4, [0.0] * 4, **limit)

    def test_either_truth_will_do_and_their_gap_widens_the_limits(self, modules: Any, tmp_path: Path) -> None:
        assert self.check(modules, tmp_path, [2.0], [1.0], [2.0]) == ""
        assert self.check(modules, tmp_path, [3.5], [1.0], [2.0]) == ""
        assert self.check(modules, tmp_path, [5.0], [1.0], [2.0]) != ""
        assert self.check(modules, tmp_path, [3.5], [1.0], [2.0], is_widened=False) != ""

    def test_shapes_must_be_equal(self, modules: Any, tmp_path: Path) -> None:
        assert "shape [2], LiteRT's [1]" in self.check(modules, tmp_path, [1.0, 1.0], [1.0], compare="shape")
        assert self.check(modules, tmp_path, [1.0], [9.0], compare="shape") == ""

    def test_values_that_are_not_finite_must_be_in_the_same_places(
        self, modules: Any, tmp_path: Path
    ) -> None:
        assert self.check(modules, tmp_path, [np.nan, 1.0], [np.nan, 1.0]) == ""
        assert "not finite" in self.check(modules, tmp_path, [np.nan, 1.0], [1.0, 1.0])

    def test_strings_and_booleans_are_exact(self, modules: Any, tmp_path: Path) -> None:
        for right, wrong in (([b"a", b"b"], [b"a", b"c"]), ([True, True], [True, False])):
            assert self.check(modules, tmp_path, right, right, atol=9.0) == ""
            assert (
                self.check(modules, tmp_path, wrong, right, atol=9.0)
                == "output 0: 1 of 2 elements are not LiteRT's"
            )

    def test_labels_may_differ_in_a_share(self, modules: Any, tmp_path: Path) -> None:
        limit = {"compare": "labels", "min_agree": 0.75}
        assert self.check(modules, tmp_path, [1, 2, 3, 9], [1, 2, 3, 4], **limit) == ""
        assert "50.000%" in self.check(modules, tmp_path, [1, 2, 9, 9], [1, 2, 3, 4], **limit)

    def test_limits_of_a_file_follow_its_precision(self, modules: Any) -> None:
        limits, port = modules("agreement").Limits, modules("model_file").Port
        quantized = port(name="", shape=(), dtype="int8", is_quantized=True)
        labels = port(name="", shape=(), dtype="int64", is_quantized=False)
        real = port(name="", shape=(), dtype="float32", is_quantized=False)
        assert limits.of_output(quantized, "int8").atol == 3
        assert limits.of_output(labels, "int8") == limits()
        assert limits.of_output(real, "hybrid").share > 100 * limits.of_output(real, "fp32").share > 0


def row(model: str, family: str, **fields: Any) -> dict[str, Any]:
    """Returns a row as `FolderSession` makes them."""
    return {
        "model": model, "family": family, "threads": 1, "times": {}, "cold": {}, "failures": {}, **fields
    }  # fmt: skip


def timed(ratio: float) -> dict[str, Any]:
    return {
        "neurald": {"p50_ms": 1.0, "cpu_ms": 1.0},
        "litert": {"p50_ms": 2.0, "cpu_ms": 2.0, "ratio": 9.0, "ratio_cpu": ratio},
    }


def test_the_tables_are_by_family(modules: Any) -> None:
    cold = {"neurald": {"cpu_ms": 7.0}, "litert": {"cpu_ms": 3.0}}
    rows = [
        row("b", "cnn", times=timed(2.0), cold=cold),
        row("a", "cnn", times=timed(0.5)),
        row("c", "dense", failures={"neurald": "wrong result: a|b"}),
    ]
    families, models, failures = modules("folder_tables").folder_tables(rows)
    assert families.rows == [
        ["cnn", 2, pytest.approx(1.0), 2.0, "b", None],
        ["dense", 1, None, None, None, 1],
        ["all", 3, pytest.approx(1.0), 2.0, "b", 1],
    ]
    assert models.rows == [
        ["a", "cnn", 1.0, 2.0, 0.5, None, None],
        ["b", "cnn", 1.0, 2.0, 2.0, 7.0, 3.0],
        ["c", "dense", None, None, None, None, None],
    ]
    assert failures.rows == [["c", "neurald", "wrong result: a/b"]]


def session(modules: Any, result: Path | None = None, **options: Any) -> Any:
    """Returns a session that only runs neurald."""
    return modules("folder_session").FolderSession(
        engines=["neurald"],
        peers=Path(sys.executable),
        cores=[0],
        rounds=3,
        burst_ms=1.0,
        shapes=modules("model_folder").OpenShapes(),
        folder_name="mine",
        result=result,
        **options,
    )


def test_models_are_measured_and_failures_are_rows(modules: Any, tmp_path: Path) -> None:
    write_dense(tmp_path / "models" / "dense.tflite", batch=-1)
    write_operators(tmp_path / "models" / "odd.tflite", "CONV_2D")
    (tmp_path / "models" / "bad.tflite").write_bytes(b"nothing")
    measured = session(modules, tmp_path / "result.json")
    for model in modules("model_folder").folder_models(tmp_path / "models"):
        measured.measure(model, [1])
    by_model = {row["model"]: row for row in measured.rows}
    assert by_model["dense"]["failures"] == {}
    assert by_model["dense"]["times"]["neurald"]["cpu_ms"] > 0
    assert by_model["dense"]["cold"]["neurald"]["cpu_ms"] > 0
    assert by_model["bad"]["failures"] == {"all": "no inputs: the file is damaged"}
    assert "CONV_2D" in by_model["odd"]["failures"]["neurald"]

    again = session(modules, tmp_path / "result.json")
    again.resume()
    assert again.rows == measured.rows
    (tmp_path / "result.json").write_text(
        (tmp_path / "result.json").read_text().replace('"folder": "mine"', '"folder": "other"')
    )
    with pytest.raises(ValueError, match="has measurements of other"):
        session(modules, tmp_path / "result.json").resume()


def test_a_measured_model_is_not_measured_again(modules: Any, tmp_path: Path) -> None:
    write_dense(tmp_path / "dense.tflite")
    (model,) = modules("model_folder").folder_models(tmp_path)
    measured = session(modules, rows=[row("dense", "dense fp32", times=timed(0.5))])
    measured.measure(model, [1])
    assert len(measured.rows) == 1


class FakeWorker:
    """Stands for an engine process: writes results that the test gives."""

    results: ClassVar[dict[str, Any]] = {}

    def __init__(self, task: Any, peers: Path) -> None:
        self.engine, self.threads = task.engine, task.threads
        np.savez(task.outputs, np.asarray(self.results[task.engine]))
        names = ("load_ms", "prepare_ms", "first_ms", "cpu_ms")
        self.report = {**dict.fromkeys(names, 1.0), "version": "1"}

    def ask(self, name: str, warm_up: int, turns: int, runs: int = 1) -> list[tuple[float, float]]:
        return [(1.0, 1.0 if self.engine == "neurald" else 2.0)] * turns

    def move(self, core: int) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_wrong_result_is_named_and_not_timed(
    modules: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dense(tmp_path / "dense.tflite")
    (model,) = modules("model_folder").folder_models(tmp_path)
    monkeypatch.setattr(modules("folder_session"), "Worker", FakeWorker)
    options = {"engines": ["neurald", "litert", "openvino"]}
    FakeWorker.results = {"neurald": [1.0], "litert": [1.0], "openvino": [2.0], "litert_reference": [1.0]}
    measured = modules("folder_session").FolderSession(
        peers=Path(), cores=[0], rounds=3, burst_ms=1.0, folder_name="mine", **options,
        shapes=modules("model_folder").OpenShapes(),
    )  # fmt: skip
    measured.measure(model, [1])
    (found,) = measured.rows
    assert set(found["times"]) == {"neurald", "litert"}
    assert found["times"]["litert"]["ratio_cpu"] == 0.5
    assert found["failures"]["openvino"].startswith("wrong result: output 0: 100.00%")
    # The reference kernels are what OpenVINO is right by.
    FakeWorker.results["litert_reference"] = [2.0]
    measured.rows.clear()
    measured.measure(model, [1])
    assert measured.rows[0]["failures"] == {}


def test_short_runs_are_timed_together_and_long_ones_have_fewer_rounds(modules: Any) -> None:
    asked = []

    class Asked:
        def __init__(self, once: float) -> None:
            self.once = once

        def ask(self, name: str, warm_up: int, turns: int, runs: int = 1) -> list[tuple[float, float]]:
            asked.append((warm_up, turns, runs))
            return [(self.once, self.once)] * turns

    take_turns = modules("bursts").take_turns
    assert len(take_turns({"fast": Asked(0.001)}, rounds=2, burst_ms=1.0)) == 2
    assert asked[1:] == [(200, 20, 50)] * 2
    asked.clear()
    assert len(take_turns({"slow": Asked(1000.0)}, rounds=9, burst_ms=1.0, limit_s=9.0)) == 3
    assert asked[1:] == [(1, 2, 1)] * 3
