"""The command `neurald inspect`."""

from pathlib import Path

from support.daemon.command_line import invoke, invoke_json

from neurald.service import demo

DIGITS = Path(demo.__file__).parent / "digits.tflite"


def test_text() -> None:
    result = invoke("inspect", str(DIGITS))
    assert result.exit_code == 0, result.stderr
    first, *lines = result.stdout.splitlines()
    assert first.startswith("digits.tflite: ")
    assert "9 operations, 1 graph" in first
    (given,) = [line for line in lines if line.startswith("input ")]
    assert "[1,8,8,1]" in given
    assert not any(line.startswith("1 constants ") for line in lines)
    assert "zero point 0" in given
    assert "signature serving_default: image -> probabilities" in lines
    assert not any(line.startswith("  0 ") for line in lines)


def test_operations() -> None:
    result = invoke("inspect", str(DIGITS), "--operations")
    *_, listed = result.stdout.split("\n\n")
    lines = [line.split() for line in listed.splitlines()]
    assert [line[:2] for line in lines][:3] == [
        ["0", "TFLITE_QUANTIZE:"],
        ["1", "CONV_2D:"],
        ["2", "MAX_POOL_2D:"],
    ]


def test_json() -> None:
    found = invoke_json("inspect", str(DIGITS), "--signature", "serving_default")
    assert found["size_bytes"] == DIGITS.stat().st_size
    assert found["inputs"][0]["name"] == "image"
    assert found["operations"]["CONV_2D"] == 2
    assert found["findings"] == []
    assert len(found["graphs"][0]["operations"]) == 9


def test_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "a.tflite"
    path.write_bytes(b"nothing")
    result = invoke("inspect", str(path))
    assert result.exit_code == 1
    assert "a.tflite" in result.stderr
