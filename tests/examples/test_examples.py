"""Runs the programs in `examples/`, and checks their output."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 200
#: A part of the expected output of each.
EXPECTED = {
    "build_a_model": "5 rows: the largest difference is",
    "call_a_model": "533 of 540 digits are right",
    "chain_models": "the largest difference is 0.0e+00",
    "choose_devices": "with rules: sample-all: 2, cpu: 7",
    "classify_digits": "533 of 540 digits are right",
    "decode_with_a_cache": "24 steps; the largest difference is",
    "drivers_on_demand": "placed on sample-all@accelerator",
    "litert_program": "533 of 540 digits are right",
    "measure_latency": "cpu@cpu",
    "plan_by_cost": "4 more results, all as expected",
    "serve_a_model": "of 50 digits are right",
    "start_at_once": "533 of 540 digits are right, before and after",
    "survive_a_crash": "99 of 100 digits are right, and no call has failed",
    "verify_a_device": "operation 1 TANH, found among 3 operations in 4 trials",
    "use_another_host": "99 of 100 digits are right, and no call has failed",
}


def test_every_example_is_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(EXPECTED)
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.py`" in readme for name in names)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_example(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    if name == "serve_a_model":
        pytest.importorskip("uvicorn", reason="HTTP needs neurald[serve]")
    if name == "use_another_host":
        pytest.importorskip("cryptography", reason="TLS needs neurald[tls]")
    # Paths of sockets are limited, so the name is short.
    runtime = tmp_path_factory.mktemp("e")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "XDG_RUNTIME_DIR": str(runtime),
    }
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / f"{name}.py"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        output, errors = ended(process)
        pytest.fail(f"{name}.py has not ended after {LIMIT_S} s:\n{output}\n{errors}")
    assert process.returncode == 0, errors
    assert EXPECTED[name] in output


def ended(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Ends a program and the processes that it has started; returns their output."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        return process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()
