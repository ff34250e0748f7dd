"""Compares neurald.litert with LiteRT on a model file; each runs in a process of its own."""

import pickle
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: The results of two runs, or an error.
Outcome = list[list[Array]] | str

_KERNELS = ("xnnpack", "builtin")


def compare(path: Path) -> str:
    """Describes how neurald differs from LiteRT with any of its kernels; empty if it does not."""
    found = _outcome("neurald", path)
    rights = [_outcome(kernel, path) for kernel in _KERNELS]
    results = [right for right in rights if not isinstance(right, str)]
    if isinstance(found, str):
        died = found.startswith("died")
        return f"LiteRT {'runs it' if results else 'refuses it'}; {found}" if results or died else ""
    differences = [difference(found, right) for right in results]
    return "" if not differences or "" in differences else differences[0]


def _outcome(runtime: str, path: Path) -> Outcome:
    with tempfile.TemporaryDirectory() as name:
        target = Path(name) / "outcome"
        command = [sys.executable, __file__, runtime, str(path), str(target)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if not target.exists():
            return f"died with {done.returncode}: {done.stderr[-300:]}"
        outcome: Outcome = pickle.loads(target.read_bytes())
        return outcome


def difference(found: list[list[Array]], right: list[list[Array]]) -> str:
    """Describes how results differ; empty if they agree."""
    for one, other in zip(found, right, strict=True):
        for position, (a, b) in enumerate(zip(one, other, strict=True)):
            words = _difference(a, b)
            if words:
                return f"output {position} {words}"
    return ""


def _difference(a: Array, b: Array) -> str:
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"is {a.dtype}{list(a.shape)}; {b.dtype}{list(b.shape)} is expected"
    if a.dtype.kind in "fc":
        largest = float(np.nanmax(np.abs(b), initial=0))
        if np.allclose(a, b, rtol=1e-3, atol=1e-4 * max(1.0, largest), equal_nan=True):
            return ""
        return f"differs by {np.nanmax(np.abs(a - b))}; its largest number is {largest}"
    return "" if a.tolist() == b.tolist() else "differs"


def _values(details: dict[str, Any], rng: np.random.Generator) -> Array:
    dtype, shape = np.dtype(details["dtype"]), tuple(details["shape"])
    if dtype.kind == "S":
        return rng.choice(np.array([b"a", b"bc", b"word"], object), shape) if shape else np.array(b"word")
    if dtype.kind in "fc":
        return rng.uniform(-1, 1, shape).astype(dtype)
    if dtype.kind == "b" or not details["quantization_parameters"]["scales"].size:
        return rng.integers(0, 2, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(max(limits.min, -2000), min(limits.max, 2000), shape, endpoint=True).astype(dtype)


def _run(runtime: str, path: str) -> list[list[Array]]:
    if runtime == "neurald":
        from neurald.litert import Interpreter

        interpreter: Any = Interpreter(model_path=path)
    else:
        from ai_edge_litert import interpreter as litert

        kinds = litert.OpResolverType
        kind = kinds.AUTO if runtime == "xnnpack" else kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter = litert.Interpreter(model_path=path, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    runs = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        for details in interpreter.get_input_details():
            interpreter.set_tensor(details["index"], _values(details, rng))
        interpreter.invoke()
        runs.append([interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()])
    return runs


def main() -> None:
    """Writes the outcome of a runtime to a file."""
    runtime, path, target = sys.argv[1:]
    warnings.simplefilter("ignore")
    outcome: Outcome
    try:
        outcome = _run(runtime, path)
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    Path(target).write_bytes(pickle.dumps(outcome))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
    main()
