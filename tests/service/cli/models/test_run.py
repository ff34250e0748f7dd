import json
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.daemon.command_line import error_of, invoke, invoke_json
from support.sweeps import sweep
from support.waiting import wait_until

import neurald as nd
from neurald.hal.crashes.wrong_results import WrongResults
from neurald.service.cli.models.run import _show
from neurald.service.demo.digits import MODEL, load_held_out_digits

Kind = nd.OperandType
LABELS = [f"digit {n}" for n in range(10)]


@pytest.fixture
def digit(tmp_path: Path) -> Path:
    """Returns the path of a photo of a seven, which the model recognises with certainty."""
    digits = load_held_out_digits()
    image = digits.images[int(np.flatnonzero(digits.labels == 7)[0])]
    Image.fromarray(image).save(tmp_path / "seven.png")
    return tmp_path / "seven.png"


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels.txt").write_text("\n".join(LABELS) + "\n")
    return tmp_path / "labels.txt"


@pytest.fixture
def use_model(monkeypatch: pytest.MonkeyPatch) -> Callable[[nd.Model], None]:
    """Makes the command load this model, whatever file is named."""

    def use(model: nd.Model) -> None:
        monkeypatch.setattr(nd, "load_tflite", lambda path, signature=None: model)

    return use


def relu_model(
    shape: tuple[int, ...], kind: nd.OperandType = Kind.TENSOR_FLOAT32, count: int = 1, **quantization: Any
) -> nd.Model:
    """Builds a model of `count` RELUs with inputs x0, x1, …"""
    builder = nd.ModelBuilder()
    inputs = [builder.add_operand(kind, shape, name=f"x{n}", **quantization) for n in range(count)]
    outputs = [builder.add_operand(kind, shape, name=f"y{n}", **quantization) for n in range(count)]
    for source, target in zip(inputs, outputs, strict=True):
        builder.add_operation(nd.OperationType.RELU, [source], [target])
    builder.identify_inputs_and_outputs(inputs, outputs)
    return builder.finish()


@pytest.mark.parametrize(
    ("name", "option"),
    [("a.JPG", "--image"), ("a.wav", "--audio"), ("a.npz", "--inputs"), ("a.txt", "--labels")],
)
def test_a_file_after_the_model_names_its_option(name: str, option: str) -> None:
    result = invoke("run", MODEL, name)
    assert result.exit_code == 2
    assert f"Got unexpected argument '{name}' after the model. Is {option} meant before it?" in result.stderr


class TestClassification:
    def test_top_five_with_labels(self, digit: Path, labels: Path) -> None:
        result = invoke("run", MODEL, "--image", digit, "--labels", labels)
        assert result.exit_code == 0, result.stderr
        lines = result.stdout.splitlines()
        rows = [line for line in lines if "digit" in line]
        assert len(rows) == 5
        assert rows[0].split() == [rows[0].split()[0], "%", "7", "digit", "7"]
        shares = [float(row.split()[0]) for row in rows]
        assert shares == sorted(shares, reverse=True)
        assert 50 < shares[0] <= 100
        assert result.stderr == ""

    def test_json(self, digit: Path, labels: Path) -> None:
        document = invoke_json("run", MODEL, "--image", digit, "--labels", labels, "--top", "3")
        assert document["inputs"] == str(digit)
        assert document["remarks"] == []
        assert document["steps"][0]["device"] == "cpu"
        assert document["top"][0]["label"] == "digit 7"
        assert len(document["top"]) == 3
        assert 0.5 < document["top"][0]["probability"] <= 1

    def test_without_labels(self, digit: Path) -> None:
        result = invoke("run", MODEL, "--image", digit, "--top", "2")
        assert "label" not in result.stdout
        assert len([line for line in result.stdout.splitlines() if "%" in line]) == 2

    def test_more_than_there_are(self, digit: Path) -> None:
        assert len(invoke_json("run", MODEL, "--image", digit, "--top", "99")["top"]) == 10

    def test_labels_without_background(self, digit: Path, labels: Path) -> None:
        labels.write_text("\n".join(LABELS[1:]))
        document = invoke_json("run", MODEL, "--image", digit, "--labels", labels)
        assert document["top"][0]["label"] == "digit 7"
        assert "background" in document["remarks"][0]
        assert "background" in invoke("run", MODEL, "--image", digit, "--labels", labels).stderr

    def test_too_few_labels(self, digit: Path, labels: Path) -> None:
        labels.write_text("one\ntwo\n")
        assert "2 labels; the model has 10" in error_of("run", MODEL, "--image", digit, "--labels", labels)

    @pytest.mark.parametrize("content", [b"", bytes(range(256))])
    def test_no_labels(self, digit: Path, labels: Path, content: bytes) -> None:
        labels.write_bytes(content)
        assert str(labels) in error_of("run", MODEL, "--image", digit, "--labels", labels)

    def test_labels_of_any_language_without_control_sequences(self, digit: Path, labels: Path) -> None:
        labels.write_text("\n".join(["ä"] * 7 + ["\x1b[31mrød"] + ["數"] * 2))
        result = invoke("run", MODEL, "--image", digit, "--labels", labels)
        assert r"\x1b[31mrød" in result.stdout
        assert "\x1b" not in result.stdout

    def test_logits(self, use_model: Callable[[nd.Model], None], digit: Path) -> None:
        builder = nd.ModelBuilder()
        image = builder.add_operand(Kind.TENSOR_FLOAT32, (1, 8, 8, 1))
        shape = builder.add_operand(Kind.TENSOR_INT32, (2,))
        builder.set_operand_value(shape, np.array([1, 64], np.int32))
        flat = builder.add_operand(Kind.TENSOR_FLOAT32, (1, 64))
        builder.add_operation(nd.OperationType.RESHAPE, [image, shape], [flat])
        builder.identify_inputs_and_outputs([image], [flat])
        use_model(builder.finish())
        document = invoke_json(
            "run", "any.tflite", "--image", digit, "--top", "64", "--mean", "0", "--std", "64"
        )
        assert sum(guess["probability"] for guess in document["top"]) == pytest.approx(1)
        assert "softmax" in document["remarks"][0]

    def test_a_sound(self, use_model: Callable[[nd.Model], None], tmp_path: Path) -> None:
        builder = nd.ModelBuilder()
        samples = builder.add_operand(Kind.TENSOR_FLOAT32, (1, 8))
        result = builder.add_operand(Kind.TENSOR_FLOAT32, (1, 8))
        builder.add_operation(nd.OperationType.ABS, [samples], [result])
        builder.identify_inputs_and_outputs([samples], [result])
        use_model(builder.finish())
        path = tmp_path / "a.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 8_000, 0, "NONE", ""))
            file.writeframes(np.array([0, 0, 30_000, 0] * 4, "<i2").tobytes())
        document = invoke_json("run", "any.tflite", "--audio", path, "--rate", "8000", "--top", "2")
        assert [each["index"] for each in document["top"]] == [2, 6]
        assert "first of 0.00 s of sound" in document["remarks"][0]
        for wrong, words in (
            (("--rate", "8000"), "--rate needs --audio"),
            (("--top", "3"), "--top needs --image, --audio or --labels"),
            (("--audio", path, "--image", path), "exclude each other"),
        ):
            assert words in " ".join(invoke("run", MODEL, *wrong).stderr.split())

    def test_no_classifier(self, use_model: Callable[[nd.Model], None], digit: Path, labels: Path) -> None:
        use_model(relu_model((1, 8, 8, 3)))
        result = invoke("run", "any.tflite", "--image", digit)
        assert result.exit_code == 0
        assert "y0" in result.stdout
        assert "the model is not a classifier" in result.stderr
        assert "the model is not a classifier" in error_of(
            "run", "any.tflite", "--image", digit, "--labels", labels
        )

    def test_detectors_without_their_last_steps(
        self, use_model: Callable[[nd.Model], None], digit: Path
    ) -> None:
        # An image of 32 x 32 pixels has 21 cells of three sizes.
        for cells, words in ((21, "YOLO without anchors"), (85, "detector of an unknown kind; known are ")):
            builder = nd.ModelBuilder()
            image = builder.add_operand(Kind.TENSOR_FLOAT32, (1, 32, 32, 3))
            shape = builder.add_operand(Kind.TENSOR_INT32, (3,))
            builder.set_operand_value(shape, np.array([1, 6, 512], np.int32))
            flat = builder.add_operand(Kind.TENSOR_FLOAT32, (1, 6, 512))
            starts, sizes = (builder.add_operand(Kind.TENSOR_INT32, (3,)) for _ in range(2))
            builder.set_operand_value(starts, np.array([0, 0, 0], np.int32))
            builder.set_operand_value(sizes, np.array([1, 6, cells], np.int32))
            result = builder.add_operand(Kind.TENSOR_FLOAT32, (1, 6, cells))
            builder.add_operation(nd.OperationType.RESHAPE, [image, shape], [flat])
            builder.add_operation(nd.OperationType.SLICE, [flat, starts, sizes], [result])
            builder.identify_inputs_and_outputs([image], [result])
            use_model(builder.finish())
            document = invoke_json("run", "any.tflite", "--image", digit)
            assert words in " ".join(document["remarks"])
            assert ("detections" in document) == (cells == 21)
            if cells == 21:
                best = max(each["score"] for each in document["detections"])
                is_said = any("no box has a score of 10 %" in each for each in document["remarks"])
                assert is_said == (best < 0.1)

    def test_detectors_that_end_with_their_heads(
        self, use_model: Callable[[nd.Model], None], digit: Path, labels: Path
    ) -> None:
        """Cells of YOLO's finest grid say: a four is at left 8, top 16, right 40, bottom 56."""
        builder = nd.ModelBuilder()
        image = builder.add_operand(Kind.TENSOR_FLOAT32, (1, 64, 64, 3))
        starts, sizes, zero = (
            builder.add_operand(*each)
            for each in ((Kind.TENSOR_INT32, (4,)), (Kind.TENSOR_INT32, (4,)), (Kind.TENSOR_FLOAT32, (1,)))
        )
        builder.set_operand_value(starts, np.zeros(4, np.int32))
        builder.set_operand_value(sizes, np.ones(4, np.int32))
        builder.set_operand_value(zero, np.zeros(1, np.float32))
        pixel, nothing = (builder.add_operand(Kind.TENSOR_FLOAT32, (1, 1, 1, 1)) for _ in range(2))
        builder.add_operation(nd.OperationType.SLICE, [image, starts, sizes], [pixel])
        none = builder.add_operand(Kind.INT32)
        builder.set_operand_value(none, 0)
        builder.add_operation(nd.OperationType.MUL, [pixel, zero, none], [nothing])
        heads = []
        for cells in (8, 4, 2):
            head = np.full((1, cells, cells, 64 + 10), -8, np.float32)
            if cells == 8:
                for row, column in ((3, 2), (3, 3), (4, 2), (4, 3)):
                    y, x = row + 0.5, column + 0.5
                    for side, distance in enumerate((x - 1, y - 2, 5 - x, 7 - y)):
                        # Distances end with a half, which is the mean of two bins.
                        head[0, row, column, 16 * side + int(distance)] = 20
                        head[0, row, column, 16 * side + int(distance) + 1] = 20
                    head[0, row, column, 64 + 4] = 2
            constant = builder.add_operand(Kind.TENSOR_FLOAT32, head.shape)
            builder.set_operand_value(constant, head)
            heads.append(builder.add_operand(Kind.TENSOR_FLOAT32, head.shape))
            builder.add_operation(nd.OperationType.ADD, [constant, nothing, none], [heads[-1]])
        builder.identify_inputs_and_outputs([image], heads)
        use_model(builder.finish())
        document = invoke_json("run", "any.tflite", "--image", digit, "--labels", labels)
        assert "the boxes are decoded as those of YOLO 8 to 11 with heads" in document["remarks"]
        assert not any("no box has a score" in each for each in document["remarks"])
        first = document["detections"][0]
        assert (first["label"], round(first["score"], 3)) == ("digit 4", 0.881)
        box = [first[side] for side in ("top", "left", "bottom", "right")]
        np.testing.assert_allclose(box, np.array([16, 8, 56, 40]) / 64, atol=1e-5)


def test_numbers_of_what_was_found_are_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    box = {"class": 1, "label": None, "top": 0.1, "left": -0.1, "bottom": 0.5, "right": 1.0}
    for document, name in (
        ({"detections": [{**box, "score": 0.8945}, {**box, "score": 0.0884, "class": 16}]}, "score"),
        ({"segments": [{"class": 2, "label": "cat", "share": share} for share in (0.9, 0.05)]}, "share"),
        ({"keypoints": [{"name": "nose", "score": share, "y": 0, "x": -share} for share in (0.9, 1)]}, "x"),
    ):
        _show(document)
        title, _, *rows = capsys.readouterr().out.splitlines()
        end = title.index(name) + len(name)
        assert all(row[end - 1] != " " and row[end : end + 1] in ("", " ") for row in rows)


class TestImages:
    @sweep("content", [b"", b"Dear reader,\nthis is a letter.\n", b"\x89PNG\r\n\x1a\n"])
    def test_a_file_that_is_not_an_image(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "image.png"
        path.write_bytes(content)
        assert str(path) in error_of("run", MODEL, "--image", path)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        assert "absent.png" in error_of("run", MODEL, "--image", tmp_path / "absent.png")
        assert str(tmp_path) in error_of("run", MODEL, "--image", tmp_path)

    def test_models_that_take_none(self, use_model: Callable[[nd.Model], None], digit: Path) -> None:
        use_model(relu_model((4, 4)))
        assert "float32 [4, 4]" in error_of("run", "any.tflite", "--image", digit)
        use_model(relu_model((1, 8, 8, 3), count=2))
        words = "the model has 2 inputs; an image needs a model with exactly one. --inputs FILE.npz gives"
        assert words in error_of("run", "any.tflite", "--image", digit)


class TestArrays:
    def test_random_inputs_are_said_to_be(self) -> None:
        result = invoke("run", MODEL)
        assert result.exit_code == 0, result.stderr
        assert result.stderr == "note: inputs are random (seed 0)\n"
        assert "probabilities" in result.stdout
        assert "1x10" in result.stdout

    def test_json_of_random_inputs(self) -> None:
        document = invoke_json("run", MODEL)
        assert document["inputs"] == "random (seed 0)"
        (output,) = document["outputs"]
        assert output["name"] == "probabilities"
        assert output["shape"] == [1, 10]
        assert output["type"] == "uint8"
        assert 0 <= output["min"] <= output["mean"] <= output["max"] <= 1
        assert "top" not in document
        again = invoke_json("run", MODEL)
        assert document["outputs"] == again["outputs"]

    def test_inputs_and_outputs_in_files(self, tmp_path: Path) -> None:
        digits = load_held_out_digits()
        np.savez(tmp_path / "in.npz", image=digits.images[3].reshape(1, 8, 8, 1))
        document = invoke_json(
            "run", MODEL, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"
        )
        assert document["outputs_file"] == str(tmp_path / "out.npz")
        with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
            assert file.files == ["probabilities"]
            assert file["probabilities"].dtype == np.uint8
            assert file["probabilities"].argmax() == digits.labels[3]

    def test_signature_names(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "in.npz", image=np.zeros((1, 8, 8, 1), np.uint8))
        document = invoke_json(
            "run", MODEL, "--inputs", tmp_path / "in.npz", "--signature", "serving_default"
        )
        assert document["outputs"][0]["name"] == "probabilities"

    @sweep(
        ("arrays", "words"),
        [
            ({"picture": np.zeros((1, 8, 8, 1), np.uint8)}, ["lacks input 'image'", "'picture'"]),
            ({"image": np.zeros((1, 8, 8, 1), np.float32)}, ["float32", "uint8 [1, 8, 8, 1]"]),
            ({"image": np.zeros((1, 8, 8), np.uint8)}, ["uint8 [1, 8, 8]", "uint8 [1, 8, 8, 1]"]),
            ({"image": np.zeros((1, 8, 8, 1), np.uint8), "more": np.zeros(1)}, ["'more'"]),
            ({"image": np.array([None])}, ["object"]),
        ],
        ids=range(5),
    )
    def test_inputs_that_do_not_fit(self, tmp_path: Path, arrays: dict[str, Any], words: list[str]) -> None:
        np.savez(tmp_path / "in.npz", **arrays)
        message = error_of("run", MODEL, "--inputs", tmp_path / "in.npz", "--json")
        for word in [str(tmp_path / "in.npz"), *words]:
            assert word in message

    def test_inputs_that_are_no_npz_file(self, tmp_path: Path) -> None:
        (tmp_path / "in.npz").write_text("1 2 3\n")
        message = error_of("run", MODEL, "--inputs", tmp_path / "in.npz")
        assert "in.npz is not an .npz file; numpy.savez writes one" in message
        assert message.rstrip().endswith("by name: image")
        assert "absent.npz" in error_of("run", MODEL, "--inputs", tmp_path / "absent.npz")

    def test_outputs_where_nothing_can_be_written(self, tmp_path: Path) -> None:
        assert "absent" in error_of("run", MODEL, "--outputs", tmp_path / "absent" / "out.npz")
        assert str(tmp_path) in error_of("run", MODEL, "--outputs", tmp_path)

    def test_unspecified_dimensions(self, tmp_path: Path, use_model: Callable[[nd.Model], None]) -> None:
        use_model(relu_model((0, 3)))
        assert invoke_json("run", "any.tflite")["outputs"][0]["shape"] == [1, 3]
        np.savez(tmp_path / "in.npz", x0=np.ones((5, 3), np.float32))
        document = invoke_json("run", "any.tflite", "--inputs", tmp_path / "in.npz")
        assert document["outputs"][0]["shape"] == [5, 3]

    def test_several_inputs_and_outputs(self, tmp_path: Path, use_model: Callable[[nd.Model], None]) -> None:
        use_model(relu_model((2, 2), count=3))
        values = np.random.default_rng(0).normal(size=(3, 2, 2)).astype(np.float32)
        np.savez(tmp_path / "in.npz", x2=values[2], input_0=values[0], x1=values[1])
        invoke_json("run", "any.tflite", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
        with np.load(tmp_path / "out.npz", allow_pickle=False) as file:
            for n in range(3):
                np.testing.assert_array_equal(file[f"y{n}"], np.maximum(values[n], 0))

    def test_figures_are_real_values(self, tmp_path: Path, use_model: Callable[[nd.Model], None]) -> None:
        use_model(relu_model((4,), Kind.TENSOR_QUANT8_ASYMM, scale=0.5, zero_point=10))
        np.savez(tmp_path / "in.npz", x0=np.array([0, 10, 12, 20], np.uint8))
        (output,) = invoke_json("run", "any.tflite", "--inputs", tmp_path / "in.npz")["outputs"]
        assert (output["min"], output["max"], output["mean"]) == (0, 5, 1.5)
        assert (output["scale"], output["zero_point"]) == (0.5, 10)

    def test_outputs_that_are_no_numbers(self, tmp_path: Path, use_model: Callable[[nd.Model], None]) -> None:
        use_model(relu_model((2,)))
        np.savez(tmp_path / "in.npz", x0=np.array([np.inf, 1], np.float32))
        (output,) = invoke_json("run", "any.tflite", "--inputs", tmp_path / "in.npz")["outputs"]
        assert output["max"] is None
        assert output["min"] == 1

    @sweep("options", [[], ["--device", "cpu"], ["--threads", "1"]], ids=" ".join)
    def test_devices_and_threads(self, options: list[str]) -> None:
        assert invoke_json("run", MODEL, *options)["steps"][0]["device"] == "cpu"


def test_strings_go_in_and_out(tmp_path: Path, use_model: Callable[[nd.Model], None]) -> None:
    builder = nd.ModelBuilder()
    source = builder.add_operand(Kind.TENSOR_STRING, (0,), name="words")
    multiples = builder.add_operand(Kind.TENSOR_INT32, (1,))
    builder.set_operand_value(multiples, [2])
    result = builder.add_operand(Kind.TENSOR_STRING, (0,), name="twice")
    builder.add_operation(nd.OperationType.TFLITE_TILE, [source, multiples], [result])
    builder.identify_inputs_and_outputs([source], [result])
    use_model(builder.finish())
    np.savez(tmp_path / "in.npz", words=np.array(["a\0b", "", "\u00e9"]))
    arguments = "run", "m.tflite", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"
    (output,) = invoke_json(*arguments)["outputs"]
    assert output == {
        "name": "twice",
        "type": "strings",
        "shape": [6],
        "min": None,
        "max": None,
        "mean": None,
    }
    with np.load(tmp_path / "out.npz") as archive:
        assert archive["twice"].tolist() == [b"a\0b", b"", b"\xc3\xa9"] * 2
    assert "strings" in invoke("run", "m.tflite").stdout


class TestRequirements:
    def test_what_ran_elsewhere_fails_with_the_reason(self) -> None:
        assert invoke("run", MODEL, "--require", "cpu").exit_code == 0
        reference = ("--device", "reference")
        assert invoke("run", MODEL, *reference, "--require", "cpu=0", "--require", "reference").exit_code == 0
        result = invoke("run", MODEL, *reference, "--require", "cpu=80")
        assert result.exit_code == 1
        assert "80 % of the operations must run on cpu" in result.stderr
        assert "operation 0" in result.stderr

    @pytest.mark.parametrize("share", ["", "=0", "=0%", "=80"])
    def test_a_device_that_the_run_does_not_have_is_refused(self, share: str) -> None:
        """Before anything is loaded, since a misspelt name would make every share hold or fail."""
        found = error_of("run", "missing.tflite", "--require", "cpu=50", "--require", f"nosuch{share}")
        assert "--require names 'nosuch'" in found
        assert "the devices of the run are cpu" in found
        assert "'reference'" in error_of("run", MODEL, "--device", "cpu", "--require", f"reference{share}")

    def test_other_forms_of_requirements_are_refused(self) -> None:
        assert "DEVICE=PERCENT" in error_of("run", MODEL, "--require", "cpu=much")


class TestVerification:
    def test_right_results_pass(self) -> None:
        document = invoke_json("run", MODEL, "--device", "reference", "--verify")
        (found,) = document["verification"]
        assert (found["runs"], found["verified"], found["is_wrong"]) == (1, 1, False)
        assert invoke_json("run", MODEL, "--verify")["verification"] == []

    def test_wrong_results_fail_and_are_shown_until_they_are_forgiven(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        expected = invoke_json("run", MODEL)["outputs"]
        lying = "support.devices.lying:create"
        result = invoke("run", MODEL, "--device", lying, "--verify", "--json")
        assert result.exit_code == 1
        assert "it computed wrong values" in result.stderr
        # The outputs are those of the CPU device.
        assert json.loads(result.stdout)["outputs"] == expected
        records = WrongResults.of_user()
        assert records is not None
        wait_until(lambda: len(records.entries()) == 1)
        (entry,) = records.entries()
        assert "TFLITE_FULLY_CONNECTED" in entry.pattern.text
        assert "forgive lying" in error_of("run", MODEL, "--device", lying)
        shown = invoke("status")
        assert f"lying: {entry.pattern.digest} refused" in shown.stdout
        assert "found among" in shown.stdout
        assert f"computed wrong were: lying {entry.pattern.digest}" in error_of("forgive", "none")
        forgiven = invoke("forgive", "lying")
        assert (forgiven.exit_code, entry.pattern.digest in forgiven.stdout) == (0, True)
        assert invoke("run", MODEL, "--device", lying).exit_code == 0
        assert invoke("forgive", "lying").exit_code == 1
