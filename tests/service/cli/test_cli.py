"""Behaviour that all commands have in common."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from support.daemon.command_line import INTERRUPTED, error_of, invoke, start
from support.sweeps import sweep
from typer.main import get_command

import neurald as nd
from neurald.service import cli
from neurald.service.demo.digits import MODEL

COMMANDS = ["run", "benchmark", "devices", "driver", "demo"]


def test_help_lists_the_commands() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f"  {command} " in result.stdout
    lines = result.stdout.splitlines()
    assert not _cut(lines)
    titles = [line.rstrip(":") for line in lines if line.endswith(":")]
    assert titles == ["Options", "Models", "Devices and drivers", "Service manager", "This machine"]


def _cut(lines: list[str]) -> list[str]:
    """Returns the lines of a help that were too long for the terminal."""
    return [line for line in lines if line.startswith("  ") and line.endswith("...")]


def _all_commands() -> Iterator[tuple[str, ...]]:
    """Yields the words of all commands and of the commands in them."""
    for name, command in get_command(cli.app).commands.items():  # type: ignore[attr-defined]
        yield (name,)
        yield from ((name, inner) for inner in getattr(command, "commands", {}))


@sweep("command", list(_all_commands()), ids=" ".join)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    result = invoke(*command, "-h")
    assert result.exit_code == 0
    assert f"Usage: neurald {' '.join(command)}" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert not _cut(result.stdout.splitlines())
    # The help of an option names what its value is, such as S or FILE, not the type in Python.
    assert not re.findall(r"--[\w-]+ <[\w ]+>", result.stdout)


def test_version() -> None:
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout == f"neurald {nd.__version__}\n"


def test_a_checkout_that_is_not_installed_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert invoke("--version").stdout == f"neurald {nd.__version__}\n"


@sweep(
    "arguments",
    [
        [],
        ["bogus"],
        ["--bogus"],
        ["run"],
        ["run", "a", "b"],
        ["run", "a", "--top", "0"],
        ["run", "a", "--top", "x"],
        ["run", "a", "--threads", "0"],
        ["run", "a", "--image", "x", "--inputs", "y"],
        ["run", "a", "--mean", "3"],
        ["benchmark", "a", "--runs", "0"],
        ["benchmark", "a", "--max-secs", "-1"],
        ["driver"],
        ["devices", "cpu"],
    ],
    ids=" ".join,
)
def test_bad_usage_is_status_2(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage: neurald" in result.stderr
    assert "Traceback" not in result.stderr


@sweep(
    ("option", "value"),
    [("--threads", "many"), ("--threads", "0"), ("--rate", "1e9"), ("--top", "-1")],
)
def test_errors_name_the_value_of_an_option(option: str, value: str) -> None:
    result = invoke("run", "a", option, value)
    assert result.exit_code == 2
    assert option in result.stderr
    assert re.search(rf"(?<![\w-]){value}(?!\w)", result.stderr)


def test_errors_of_values_have_no_words_of_the_library_that_checks_them() -> None:
    for arguments in (["run", "a", "--threads", "many"], ["driver", "cpu", "--sandbox", "many"]):
        message = invoke(*arguments).stderr.rpartition("Error:")[2]
        assert message.count("'many'") == 1
        assert not re.search(r"parse|Value error|\.;", message)


def damaged_models() -> Iterator[bytes]:
    good = MODEL.read_bytes()
    rng = np.random.default_rng(0)
    yield b""
    yield b"TFL3"
    yield b"This is not a model, but a text about one.\n"
    yield bytes(4096)
    yield rng.bytes(4096)
    yield good[:4] + b"TFL3" + rng.bytes(4096)
    yield from (good[: len(good) * part // 8] for part in range(1, 8))
    yield good[:8] + rng.bytes(len(good) - 8)


@sweep("command", ["run", "benchmark"])
@sweep("number", range(len(list(damaged_models()))))
def test_damaged_models(tmp_path: Path, command: str, number: int) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(list(damaged_models())[number])
    assert str(path) in error_of(command, path)


@sweep("command", ["run", "benchmark"])
@sweep("name", ["", "absent.tflite"])
def test_models_that_are_not_there(tmp_path: Path, command: str, name: str) -> None:
    assert str(tmp_path / name) in error_of(command, tmp_path / name, "--json")


@pytest.mark.parametrize("command", ["run", "benchmark"])
class TestDevices:
    def test_unknown_name(self, command: str) -> None:
        message = error_of(command, MODEL, "--device", "tpu")
        assert "'tpu'" in message
        assert "cpu" in message

    def test_a_socket_that_is_not_there(self, tmp_path: Path, command: str) -> None:
        address = f"unix://{tmp_path}/nobody.sock"
        assert "nobody.sock" in error_of(command, MODEL, "--device", address)

    def test_a_file_that_is_no_socket(self, tmp_path: Path, command: str) -> None:
        (tmp_path / "file.sock").write_text("hello")
        assert "file.sock" in error_of(command, MODEL, "--device", f"unix://{tmp_path}/file.sock")

    def test_a_port_without_a_daemon(self, command: str) -> None:
        assert "localhost:1" in error_of(command, MODEL, "--device", "localhost:1")

    def test_an_address_that_is_none(self, command: str) -> None:
        assert "99999" in error_of(command, MODEL, "--device", "localhost:99999")

    def test_one_device_twice(self, command: str) -> None:
        assert "cpu" in error_of(command, MODEL, "--device", "cpu", "--device", "cpu")


def test_no_such_signature() -> None:
    message = error_of("run", MODEL, "--signature", "other")
    assert "other" in message
    assert "serving_default" in message


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(nd, "load_tflite", fail)


@sweep(
    ("error", "sentence"),
    [
        (nd.Error("bad\x1b[2J luck"), r"bad\x1b[2J luck"),
        (nd.Error("not supported:\n  one\n  two"), "not supported: one; two"),
        (FileNotFoundError(2, "No such file", "model.tflite"), "model.tflite: No such file"),
        (OSError(28, "No space left"), "standard output cannot be written: No space left"),
        (OSError(9, "Bad file descriptor"), "standard output cannot be written: Bad file descriptor"),
        (OSError(28, "No space left", "a.npz"), "a.npz: No space left"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (MemoryError("Unable to allocate 8.00 PiB"), "out of memory: Unable to allocate 8.00 PiB"),
        (MemoryError(), "out of memory"),
        (ZeroDivisionError("oops"), "unexpected ZeroDivisionError: oops (set NEURALD_DEBUG=1 to see where)"),
    ],
    ids=range(10),
)
def test_every_error_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    raising(monkeypatch, error)
    result = invoke("run", "model.tflite")
    assert result.exit_code == 1
    assert result.stderr == f"error: {sentence}\n"


def test_endless_sentences_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, nd.Error("x" * 10**6))
    assert len(error_of("run", "model.tflite")) < 3000


def test_unexpected_errors_show_where_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, ZeroDivisionError("oops"))
    monkeypatch.setenv(cli.DEBUG_VARIABLE, "1")
    assert isinstance(invoke("run", "model.tflite").exception, ZeroDivisionError)


def test_interrupt_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, KeyboardInterrupt())
    result = invoke("run", "model.tflite")
    assert result.exit_code == 130
    assert result.stdout == result.stderr == ""


def test_ctrl_c_ends_a_command() -> None:
    process = start("benchmark", MODEL, "--min-secs", "100")
    while str(MODEL) not in Path(f"/proc/{process.pid}/maps").read_text():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode in INTERRUPTED
    assert out == ""
    assert "Traceback" not in err


def test_a_reader_that_leaves_is_no_error() -> None:
    process = start("devices", "--json")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(30) == 141


@pytest.mark.parametrize("arguments", [("devices", "--json"), ("--help",), ("run", "--help"), ("--version",)])
def test_a_full_disk_is_one_sentence(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "neurald", *arguments],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert process.returncode == 1
    assert process.stderr == "error: standard output cannot be written: No space left on device\n"


def test_starting_imports_nothing_heavy() -> None:
    heavy = [
        "numpy",
        "grpc",
        "google.protobuf",
        "PIL",
        "rich",
        "msgspec",
        "llvmlite",
        "tflite",
        "flatbuffers",
    ]
    code = (
        "import sys\n"
        "from neurald.service import cli\n"
        "try:\n"
        "    sys.argv = ['neurald', '--help']\n"
        "    cli.main()\n"
        "except SystemExit:\n"
        f"    print([name for name in {heavy} if name in sys.modules], file=sys.stderr)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "Usage: neurald" in process.stdout
    assert process.stderr == "[]\n"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "command",
    [["explain", str(MODEL)], ["devices"], ["run", str(MODEL)], ["cache", "ls"]],
    ids=lambda command: command[0],
)
def test_a_reader_of_a_table_that_leaves_is_no_error(command: list[str]) -> None:
    process = start(*command)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert "error" not in process.stderr.read()
    assert process.wait(30) == 141


@pytest.mark.parametrize(
    ("closed", "status"), [("<&-", 0), (">&-", 1), ("2>&-", 0), ("<&- >&- 2>&-", 1)], ids=str
)
@pytest.mark.parametrize("output", ["", "--json"])
@pytest.mark.sampled(2)
def test_closed_streams(closed: str, status: int, output: str) -> None:
    command = f"exec {sys.executable} -m neurald explain {MODEL} {output} {closed}"
    process = subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True, text=True)
    assert process.returncode == status
    found = "error: standard output cannot be written: Bad file descriptor\n"
    assert process.stderr == (found if closed == ">&-" else "")
