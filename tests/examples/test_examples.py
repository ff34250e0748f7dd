"""Runs the programs in `examples/`, and checks their output."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
#: A part of the expected output of each.
EXPECTED = {
    "build_a_model": "5 rows: the largest difference is",
    "call_a_model": "533 of 540 digits are right",
    "chain_models": "the largest difference is 0.0e+00",
    "choose_devices": "with rules: sample-all: 2, cpu: 7",
    "classify_digits": "533 of 540 digits are right",
    "drivers_on_demand": "placed on sample-all@accelerator",
    "litert_program": "533 of 540 digits are right",
    "measure_latency": "cpu@cpu",
    "plan_by_cost": "4 more results, all as expected",
    "serve_a_model": "of 50 digits are right",
    "start_at_once": "533 of 540 digits are right, before and after",
    "survive_a_crash": "99 of 100 digits are right, and no call has failed",
    "use_another_host": "99 of 100 digits are right, and no call has failed",
}


def test_every_example_is_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(EXPECTED)
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}.py`" in readme for name in names)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_example(name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    if name == "serve_a_model":
        pytest.importorskip("uvicorn", reason="HTTP needs neurald[serve]")
    if name == "use_another_host":
        pytest.importorskip("cryptography", reason="TLS needs neurald[tls]")
    # Paths of sockets are limited, so the name is short.
    runtime = tmp_path_factory.mktemp("e")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_RUNTIME_DIR": str(runtime),
    }
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert EXPECTED[name] in done.stdout
