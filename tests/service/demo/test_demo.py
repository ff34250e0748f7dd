import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tflite
from support.daemon.command_line import INTERRUPTED, invoke_json, start

import neurald as nd
from neurald.hal.errors import UnavailableDevice
from neurald.service.demo.daemon import driver_daemon
from neurald.service.demo.demo import draw, run
from neurald.service.demo.digits import DIGITS, MODEL, load_held_out_digits

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def test_digits_are_plain_arrays() -> None:
    digits = load_held_out_digits()
    assert digits.images.shape == (540, 8, 8)
    assert digits.images.dtype == digits.labels.dtype == np.uint8
    assert digits.images.max() == 255
    assert sorted(set(digits.labels.tolist())) == list(range(10))
    with zipfile.ZipFile(DIGITS) as archive:
        assert sorted(archive.namelist()) == ["images.npy", "labels.npy"]


def test_the_model_is_a_quantised_tflite_file() -> None:
    content = MODEL.read_bytes()
    assert tflite.Model.ModelBufferHasIdentifier(content, 0)
    model = tflite.Model.GetRootAsModel(content, 0)
    assert model.Version() == 3
    assert model.SignatureDefs(0).SignatureKey() == b"serving_default"
    graph = model.Subgraphs(0)
    kinds = {graph.Tensors(n).Type() for n in range(graph.TensorsLength())}
    assert kinds == {tflite.TensorType.UINT8, tflite.TensorType.INT8, tflite.TensorType.INT32}
    weights = [
        graph.Tensors(n)
        for n in range(graph.TensorsLength())
        if graph.Tensors(n).Name().endswith(b"/weights")
    ]
    assert sorted(w.Quantization().ScaleLength() for w in weights) == [1, 16, 32]


def test_the_model_is_as_accurate_as_it_says() -> None:
    digits = load_held_out_digits()
    compilation = nd.CompilationBuilder(nd.load_tflite(MODEL)).finish()
    guesses = [compilation.run(image.reshape(1, 8, 8, 1))[0].argmax() for image in digits.images]
    accuracy = np.mean(np.array(guesses) == digits.labels)
    assert accuracy >= 0.97
    description = tflite.Model.GetRootAsModel(MODEL.read_bytes(), 0).Description().decode()
    assert f"accuracy {accuracy:.4f} on the 540 held back" in description


def test_drawing() -> None:
    images = np.zeros((2, 2, 3), np.uint8)
    images[0, 0] = (0, 128, 255)
    images[1, 1] = (60, 180, 255)
    assert draw(images, "utf-8") == ["  ▒▒██        ", "        ░░▓▓██"]
    assert draw(images, "ascii") == ["  ++##        ", "        ..**##"]
    assert draw(images, "no such encoding") == draw(images, "ascii")


def test_a_daemon_is_served_and_stopped() -> None:
    with driver_daemon("cpu") as address:
        socket = Path(address.removeprefix("unix://"))
        assert socket.is_socket()
        assert nd.connect(address).type is nd.DeviceType.CPU
    assert not socket.parent.exists()


def test_a_daemon_is_stopped_whatever_happens() -> None:
    def fail() -> None:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"), driver_daemon("cpu") as address:
        fail()
    assert not Path(address.removeprefix("unix://")).exists()


def test_a_daemon_that_does_not_start_says_why() -> None:
    with pytest.raises(UnavailableDevice, match="no_such_driver"), driver_daemon("no_such_driver"):
        pass


@pytest.mark.full
def test_both_ways_give_the_same_answers() -> None:
    document = invoke_json("demo")
    assert document["digits"] == 540
    here, there, *served = document["devices"]
    assert here["address"] is None
    assert there["address"].startswith("unix:///")
    assert here["accuracy"] == there["accuracy"] >= 0.97
    for device in served:
        assert device["address"].startswith("grpc://127.0.0.1:")
        assert device["accuracy"] == here["accuracy"]
    for device in (here, there, *served):
        assert device["latency"]["runs"] >= 200
        assert device["latency"]["median_ms"] > 0


@pytest.mark.full
def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, short_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
    monkeypatch.setenv("TMPDIR", str(short_path))
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "tritonclient.grpc", None)
    found = run(quiet=True)
    assert found.http is not None
    assert (found.http.command, found.http.guess) == ("", 1)
    assert len(found.results) == 2
    (note,) = found.notes
    assert "tritonclient" in note
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = run(quiet=True)
    assert (found.http, len(found.results)) == (None, 2)
    (note,) = found.notes
    assert "neurald[serve]" in note


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8", **more}


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Yields a new folder with a path that is short enough for a socket, unlike that of pytest."""
    with tempfile.TemporaryDirectory(prefix="nd") as folder:
        yield Path(folder)


@pytest.mark.slow
def test_what_people_see(short_path: Path) -> None:
    process = start("demo", env=environment(short_path))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert err == ""
    assert "█" in out
    assert "in process" in out
    assert f"unix://{short_path}" in out
    pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
    pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
    assert out.count("98.70 %") == 3
    assert "grpc://127.0.0.1:" in out
    assert re.search(r"curl .*/v2/models/digits/infer", out)
    assert "The first digit is a 1; it ran on " in out
    assert "agree on every digit" in out
    assert list(short_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_stays_behind_when_it_is_stopped(short_path: Path, number: signal.Signals) -> None:
    process = start("demo", "--json", env=environment(short_path))
    while process.poll() is None and not list(short_path.glob("*/*.sock")):
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode in INTERRUPTED, err
    assert out == err == ""
    assert list(short_path.iterdir()) == []


@pytest.mark.slow
def test_the_daemon_ends_when_the_demo_is_killed(short_path: Path) -> None:
    process = start("demo", "--json", env=environment(short_path))
    while process.poll() is None and not list(short_path.glob("*/*.sock")):
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=60)
    end = time.monotonic() + 30
    while list(short_path.glob("*/*.sock*")) and time.monotonic() < end:
        time.sleep(0.05)
    assert list(short_path.glob("*/*.sock*")) == []


@pytest.mark.slow
def test_the_training_script(tmp_path: Path) -> None:
    if importlib.util.find_spec("sklearn") is None:
        pytest.skip("scikit-learn is not installed (dependency group train)")
    command = [sys.executable, str(SCRIPTS / "train_digits.py"), "--output", str(tmp_path)]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "accuracy of the quantised model" in process.stdout
    with (
        np.load(tmp_path / "digits.npz", allow_pickle=False) as new,
        np.load(DIGITS, allow_pickle=False) as old,
    ):
        np.testing.assert_array_equal(new["images"], old["images"])
        np.testing.assert_array_equal(new["labels"], old["labels"])
    # Another machine may round differently, but it trains the same network.
    assert abs((tmp_path / "digits.tflite").stat().st_size - MODEL.stat().st_size) < 64
