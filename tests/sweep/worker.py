"""Runs forms with LiteRT and neurald, and judges them."""

import json
import select
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
from sweep.form import Case, Form
from sweep.judge import Outcome, Verdict, judge

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import Device

KERNELS = ("reference", "builtin", "default")
#: A form that takes LiteRT longer hangs.
LIMIT_S = 20.0


class LiteRt:
    """LiteRT in a separate process, which is restarted when it dies.

    Args:
        python: an interpreter with ai-edge-litert.
        folder: for files.
    """

    def __init__(self, python: str, folder: Path) -> None:
        self._command = [python, str(Path(__file__).with_name("litert.py"))]
        self._paths = {name: str(folder / name) for name in ("model", "inputs.npz", "outputs.npz")}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "LiteRt":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def run(self, case: Case) -> Mapping[str, Outcome]:
        """Returns the outcome of a case with each set of kernels."""
        Path(self._paths["model"]).write_bytes(case.content)
        np.savez(self._paths["inputs.npz"], *case.feeds)
        return {kernels: self._run(kernels) for kernels in KERNELS}

    def _run(self, kernels: str) -> Outcome:
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        request = {key.removesuffix(".npz"): path for key, path in self._paths.items()}
        try:
            process.stdin.write(json.dumps({**request, "kernels": kernels}) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._lost("it cannot be started")
        if not select.select([process.stdout], [], [], LIMIT_S)[0]:
            return self._lost("it hangs")
        line = process.stdout.readline()
        if not line:
            return self._lost("it crashes")
        if line.strip():
            return Outcome(error=line.strip())
        with np.load(self._paths["outputs.npz"], allow_pickle=True) as found:
            return Outcome(outputs=tuple(found[f"arr_{n}"] for n in range(len(found.files))))

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _lost(self, why: str) -> Outcome:
        self._stop()
        return Outcome(error=why)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def run_neurald(case: Case, device: Device, path: Path) -> Outcome:
    """Returns the outcome of a case on a device of neurald."""
    path.write_bytes(case.content)
    try:
        with np.errstate(all="ignore"):
            model = nd.load_tflite(path)
            compilation = nd.CompilationBuilder(model, [device]).finish()
            return Outcome(outputs=tuple(compilation.run(*case.feeds)))
    except nd.Error as error:
        return Outcome(error=shortened(str(error), path))
    except Exception as error:
        return Outcome(error=f"{type(error).__name__}: {error}", is_broken=True)


def refusal(case: Case, path: Path) -> str:
    """Returns the reason why neurald does not load a case; empty if it does."""
    path.write_bytes(case.content)
    try:
        nd.load_tflite(path)
    except nd.Error as error:
        return shortened(str(error), path)
    return ""


def shortened(message: str, path: Path) -> str:
    """Returns a message on one line, without the path of the file."""
    return " ".join(message.replace(f"{path}: ", "").split())


def sweep(forms: Sequence[Form], python: str, seed: int, *, compiles: bool) -> Iterator[tuple[Form, Verdict]]:
    """Yields the verdict on each form."""
    reference, compiled = ReferenceDevice(), CpuDevice()
    with tempfile.TemporaryDirectory() as name, LiteRt(python, Path(name)) as litert:
        path = Path(name) / "case.tflite"
        for form in forms:
            case = form.case(seed)
            expected = litert.run(case)
            found = run_neurald(case, reference, path)
            native = run_neurald(case, compiled, path) if compiles and found.outputs is not None else None
            yield form, judge(expected, found, native, form.tolerance)
