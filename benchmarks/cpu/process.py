"""Processes of the engines, which are stopped while others are measured."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_WORKER = Path(__file__).with_name("worker.py")
#: A process that takes longer is given up.
_TIMEOUT_S = 300.0
#: Time to exit after the last output.
_EXIT_S = 10.0


class Failed(Exception):
    """An engine cannot run a model; the message is its last output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """Task of a worker, see `worker.main`."""

    engine: str
    model: Path
    threads: int
    inputs: Path
    outputs: Path
    cores: Sequence[int]
    cache: Path | None = None
    again: bool = False

    def text(self) -> str:
        """Encodes the task for the command line."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({k: str(v) if isinstance(v, Path) else v for k, v in fields.items()})


class Worker:
    """Engine process with one prepared model.

    Between requests it is stopped with all its threads.

    Args:
        task: the task.
        peers: the interpreter of the other engines.

    Raises:
        Failed: the engine cannot prepare the model.
    """

    def __init__(self, task: Task, peers: Path | None) -> None:
        python = sys.executable if task.engine == "neurald" else str(peers)
        threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(task.threads))
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(  # noqa: S603
            [python, str(_WORKER), task.text()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Other devices are not part of the measurement.
            env={**os.environ, **threads, "NEURALD_AUTOSTART": "0"},
            text=True,
        )
        self.threads = task.threads
        self.report: Mapping[str, Any] = self._answer()
        self._signal(signal.SIGSTOP)

    def ask(self, *command: Any) -> Any:
        """Sends a command to the process and returns its answer.

        Raises:
            Failed: the process ended, or takes too long.
        """
        self._signal(signal.SIGCONT)
        if self._process.stdin is None:
            raise Failed("no standard input")
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        answer = self._answer()
        self._signal(signal.SIGSTOP)
        return answer

    def move(self, core: int) -> None:
        """Moves all its threads to one core."""
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            # Ignore threads that end meanwhile.
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), (core,))

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def _answer(self) -> Any:
        stream = self._process.stdout
        is_there = stream is not None and select.select([stream], [], [], _TIMEOUT_S)[0]
        line = stream.readline() if stream is not None and is_there else ""
        if line:
            return json.loads(line)
        self._errors.seek(0)
        lines = [text.strip() for text in self._errors.read().splitlines() if text.strip()]
        why = lines[-1] if lines else "it ended without output"
        if not is_there:
            why = f"no answer within {_TIMEOUT_S:.0f} s"
        with suppress(subprocess.TimeoutExpired):
            if is_there and (status := self._process.wait(_EXIT_S)) < 0:
                why = f"it was ended by {signal.Signals(-status).name}; its last output: {why}"
        self.close()
        raise Failed(why)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)


def readable_files(engine: str, tflite: Path, onnx: Path | None) -> list[Path]:
    """Returns the files of a model that an engine may be able to read, the preferred one first."""
    others = [onnx] if onnx is not None else []
    if engine == "onnxruntime":
        return others
    return [tflite, *others] if engine == "openvino" else [tflite]


def can_import(python: Path, package: str) -> bool:
    """Returns True if an interpreter has a package."""
    code = f"import importlib.metadata as m; m.version({package!r})"
    return subprocess.run([str(python), "-c", code], capture_output=True, check=False).returncode == 0  # noqa: S603
