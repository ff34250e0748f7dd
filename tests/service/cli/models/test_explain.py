from pathlib import Path

import pytest
from support.daemon.command_line import error_of, invoke, invoke_json
from support.devices.misbehaving import SampleDevice

import neurald as nd
from neurald.hal.model.operation_type import OperationType
from neurald.service.demo.digits import MODEL


@pytest.fixture(autouse=True)
def devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Returns the CPU device, and a device that is better at convolutions."""
    convolution = SampleDevice("conv", performance=0.5, supports=lambda kind: kind is OperationType.CONV_2D)
    both = (nd.devices()[0], convolution)
    monkeypatch.setattr(nd, "devices", lambda: both)


def test_json() -> None:
    document = invoke_json("explain", MODEL)
    assert document["model"] == str(MODEL)
    assert document["policy"] == "android"
    operations = document["operations"]
    assert [o["operation"] for o in operations] == list(range(len(operations)))
    for operation in operations:
        assert operation["device"] == ("conv" if operation["type"] == "CONV_2D" else "cpu")
        (other,) = operation["rejected"]
        assert other["reason"]
    shares = {share["device"]: share["operations"] for share in document["shares"]}
    assert shares["conv"] + shares["cpu"] == len(operations)
    assert shares["conv"] > 0


def test_tables_and_reasons() -> None:
    result = invoke("explain", MODEL)
    assert result.exit_code == 0, result.stderr
    for words in (
        "share",
        "conv",
        "cpu",
        "bytes, move between devices",
        "Not on conv:",
        "not on this device",
    ):
        assert words in result.stdout
    assert result.stderr == ""


def test_policy() -> None:
    android = invoke_json("explain", MODEL, "--policy", "android")
    tengine = invoke_json("explain", MODEL, "--policy", "tengine")
    assert tengine["policy"] == "tengine"
    assert android["steps"] != tengine["steps"]
    assert invoke("explain", MODEL, "--policy", "magic").exit_code == 2


def test_device() -> None:
    document = invoke_json("explain", MODEL, "--device", "cpu")
    assert [share["device"] for share in document["shares"]] == ["cpu"]
    assert "no device can run operation" in error_of("explain", MODEL, "--device", "conv")


def test_html(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = invoke("explain", MODEL, "--html", page)
    assert result.exit_code == 0, result.stderr
    assert str(page) in result.stderr
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "CONV_2D" in text
    assert invoke_json("explain", MODEL, "--html", page)["html_file"] == str(page)


def test_kernels() -> None:
    document = invoke_json("explain", MODEL, "--device", "cpu", "--profile")
    assert {each["device"] for each in document["kernels"]} == {"cpu"}
    assert max(each["duration_ns"] for each in document["kernels"]) > 0
    assert invoke_json("explain", MODEL)["kernels"] == []


def test_what_if(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    document = invoke_json("explain", MODEL, "--what-if", "cpu=0-1,3", "--html", page)
    (what_if,) = document["what_ifs"]
    assert what_if["notes"]
    assert {each["after"] for each in what_if["changes"]} == {"cpu"}
    assert "what if" in page.read_text(encoding="utf-8")
    assert "would move from conv to cpu" in invoke("explain", MODEL, "--what-if", "cpu=0-1,3").stdout
    for wrong in ("cpu", "cpu=", "cpu=x", "cpu=5-3", "cpu=1--2", "cpu=0-" + "9" * 5000):
        assert invoke("explain", MODEL, "--what-if", wrong).exit_code == 2


def test_html_without_a_place_to_write_to(tmp_path: Path) -> None:
    assert "no such folder" in error_of("explain", MODEL, "--html", tmp_path / "none" / "page.html")
    assert "folder" in error_of("explain", MODEL, "--html", tmp_path)


def test_no_model(tmp_path: Path) -> None:
    assert "absent" in error_of("explain", tmp_path / "absent.tflite")
