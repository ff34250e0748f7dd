"""Runs one engine with one model, in a separate process and environment; `process.py` starts it.

The first argument is a JSON object, see `main`. Answers go to standard output, one JSON value per
line; output of engines goes to standard error. Apart from its engine it needs NumPy only.
"""

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

#: The cache key covers the model's contents; the token only needs the right length.
_TOKEN = bytes(32)


class Engine(Protocol):
    """Way to run models.

    Attributes:
        package: the package whose version is reported.
    """

    package: str

    def load(self, path: str) -> None:
        """Reads a file, if that is a separate step; drops any prepared model."""

    def prepare(self, inputs: Sequence[Array]) -> None:
        """Prepares the model for running, with its inputs in place."""

    def run(self) -> None:
        """Runs the model once."""

    def outputs(self) -> list[Array]:
        """Returns the outputs of the last run."""


class Neurald:
    """The CPU device through the runtime, with inputs and outputs in shared memory."""

    package = "neurald"

    def __init__(self, threads: int, cache: str | None) -> None:
        self._nd: Any = import_module("neurald")
        import_module("neurald.runtime.tflite")
        self._device = next(device for device in self._nd.devices() if device.name == "cpu")
        self._threads = threads
        self._cache = cache
        self._model: Any = None
        self._execution: Any = None
        self._results: list[tuple[Any, Array]] = []
        #: Runs that bind no memory: those of strings.
        self._call: Callable[[], Sequence[Array]] | None = None
        #: Outputs of the first run if it was needed to find their shapes, else None. A later run of
        #: a model with state has others.
        self._first: list[Array] | None = None

    def load(self, path: str) -> None:
        """Maps the file and creates a model."""
        self._execution, self._results, self._call, self._first = None, [], None, None
        self._model = self._nd.load_tflite(path)

    def prepare(self, inputs: Sequence[Array]) -> None:
        """Compiles the model; runs it once if the shapes of outputs are unknown."""
        builder = self._nd.CompilationBuilder(self._model, [self._device], self._threads)
        builder.set_caching(self._cache, _TOKEN if self._cache else b"")
        compilation = builder.finish()
        model = compilation.model
        operands = [model.main.operands[position] for position in (*model.inputs, *model.outputs)]
        if any(operand.type.dtype.kind == "O" for operand in operands):
            self._call = lambda: compilation.run(*inputs)
            self._first = list(self._call())
            return
        operands = operands[len(model.inputs) :]
        if all(operand.dimensions is not None and all(operand.dimensions) for operand in operands):
            results = [np.empty(operand.dimensions, operand.type.dtype) for operand in operands]
        else:
            results = self._first = compilation.run(*inputs)
        self._results = [self._memory(result) for result in results]
        self._execution = self._nd.Execution(compilation, reusable=True)
        for position, array in enumerate(inputs):
            memory, view = self._memory(array)
            view[...] = array
            self._execution.set_input_from_memory(position, memory, 0, array.nbytes, array.shape)
        for position, (memory, view) in enumerate(self._results):
            self._execution.set_output_from_memory(position, memory, 0, view.nbytes, view.shape)

    def _memory(self, like: Array) -> tuple[Any, Array]:
        memory = self._nd.Memory.allocate(max(1, like.nbytes))
        return memory, np.frombuffer(memory.view(0, like.nbytes), like.dtype).reshape(like.shape)

    def run(self) -> None:
        """Computes the outputs."""
        if self._call is not None:
            self._call()
        else:
            self._execution.compute()

    def outputs(self) -> list[Array]:
        """Returns the outputs in the model's order."""
        if self._first is not None:
            return self._first
        return [view.copy() for _, view in self._results]


class Litert:
    """LiteRT with XNNPACK, in its default configuration."""

    package = "ai-edge-litert"
    #: LiteRT's name of its set of kernels.
    kernels = "AUTO"

    def __init__(self, threads: int, cache: str | None) -> None:
        self._module: Any = import_module("ai_edge_litert.interpreter")
        self._threads = threads
        self._interpreter: Any = None

    def load(self, path: str) -> None:
        """Creates an interpreter."""
        self._interpreter = None
        self._interpreter = self._module.Interpreter(
            model_path=path,
            num_threads=self._threads,
            experimental_op_resolver_type=self._module.OpResolverType[self.kernels],
        )

    def prepare(self, inputs: Sequence[Array]) -> None:
        """Allocates tensors, which prepares XNNPACK."""
        details = self._interpreter.get_input_details()
        for detail, array in zip(details, inputs, strict=True):
            if tuple(detail["shape"]) != array.shape:
                self._interpreter.resize_tensor_input(detail["index"], array.shape)
        self._interpreter.allocate_tensors()
        for detail, array in zip(details, inputs, strict=True):
            self._interpreter.set_tensor(detail["index"], array)

    def run(self) -> None:
        """Invokes the interpreter."""
        self._interpreter.invoke()

    def outputs(self) -> list[Array]:
        """Returns the outputs in the model's order."""
        get = self._interpreter.get_tensor
        return [get(detail["index"]) for detail in self._interpreter.get_output_details()]


class LitertReference(Litert):
    """LiteRT's reference kernels, which only check results."""

    kernels = "BUILTIN_REF"


class Openvino:
    """OpenVINO's CPU device, set to minimal latency.

    It must use float32, because it would use bfloat16 on processors that have it. The images of an
    `.onnx` file may be NCHW.
    """

    package = "openvino"

    def __init__(self, threads: int, cache: str | None) -> None:
        self._core: Any = import_module("openvino").Core()
        self._options: dict[str, Any] = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
        }
        if cache:
            self._options["CACHE_DIR"] = cache
        self._path = ""
        self._request: Any = None
        self._is_channels_first = False

    def load(self, path: str) -> None:
        """Stores the path, no more: compiling reads the file."""
        self._path, self._request = path, None

    def prepare(self, inputs: Sequence[Array]) -> None:
        """Reads and compiles the file."""
        self._request = self._core.compile_model(self._path, "CPU", self._options).create_infer_request()
        ports = self._request.model_inputs
        self._is_channels_first = any(
            port.partial_shape.is_static and _is_channels_first(port.shape, array)
            for port, array in zip(ports, inputs, strict=True)
        )
        for position, array in enumerate(inputs):
            values = _channels_first(array) if self._is_channels_first else array
            tensor = self._request.get_input_tensor(position)
            if tuple(tensor.shape) != values.shape:
                tensor.shape = values.shape
            tensor.data[...] = values

    def run(self) -> None:
        """Runs inference."""
        self._request.infer()

    def outputs(self) -> list[Array]:
        """Returns the outputs in the model's order."""
        results = [np.array(tensor.data) for tensor in self._request.output_tensors]
        return [_channels_last(each) for each in results] if self._is_channels_first else results


class OnnxRuntime:
    """ONNX Runtime's CPU provider on an `.onnx` file.

    Its images may be NCHW, and its bytes unsigned where those of the `.tflite` file are signed.
    """

    package = "onnxruntime"

    def __init__(self, threads: int, cache: str | None) -> None:
        self._module: Any = import_module("onnxruntime")
        self._options: Any = self._module.SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.inter_op_num_threads = 1
        self._session: Any = None
        self._binding: Any = None
        self._is_flipped = False
        self._is_channels_first = False

    def load(self, path: str) -> None:
        """Creates a session, which reads and optimises the file."""
        self._binding = None
        self._session = self._module.InferenceSession(path, self._options, providers=["CPUExecutionProvider"])

    def prepare(self, inputs: Sequence[Array]) -> None:
        """Binds inputs and outputs."""
        self._binding = self._session.io_binding()
        slots = list(zip(self._session.get_inputs(), inputs, strict=True))
        self._is_flipped = any(slot.type == "tensor(uint8)" and x.dtype == np.int8 for slot, x in slots)
        self._is_channels_first = any(_is_channels_first(slot.shape, array) for slot, array in slots)
        for slot, array in slots:
            values = self._flipped(_channels_first(array) if self._is_channels_first else array)
            value = self._module.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(values))
            self._binding.bind_ortvalue_input(slot.name, value)
        for slot in self._session.get_outputs():
            self._binding.bind_output(slot.name)

    def _flipped(self, array: Array) -> Array:
        """Converts signed bytes to unsigned ones or back."""
        if not self._is_flipped:
            return array
        return (array.view(np.uint8) ^ 0x80).view(np.uint8 if array.dtype == np.int8 else np.int8)

    def run(self) -> None:
        """Runs with the bound inputs and outputs."""
        self._session.run_with_iobinding(self._binding)

    def outputs(self) -> list[Array]:
        """Returns the outputs in the form of the `.tflite` file."""
        results = [self._flipped(each) for each in self._binding.copy_outputs_to_cpu()]
        return [_channels_last(each) for each in results] if self._is_channels_first else results


def _is_channels_first(shape: Sequence[Any], array: Array) -> bool:
    """Returns True if images that a file declares are those of an array in another order."""
    return array.ndim == 4 and tuple(shape) != array.shape and tuple(shape) == _channels_first(array).shape


def _channels_first(array: Array) -> Array:
    return array.transpose(0, 3, 1, 2) if array.ndim == 4 else array


def _channels_last(array: Array) -> Array:
    return array.transpose(0, 2, 3, 1) if array.ndim == 4 else array


ENGINES: dict[str, Any] = {
    "neurald": Neurald,
    "litert": Litert,
    "litert_reference": LitertReference,
    "openvino": Openvino,
    "onnxruntime": OnnxRuntime,
}


def memory_kib(kind: str) -> int:
    """Returns current (VmRSS) or peak (VmHWM) resident memory.

    `getrusage` would include the parent's.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1])
    return 0


def burst(engine: Engine, warm_up: int, turns: int, runs: int = 1) -> list[tuple[float, float]]:
    """Returns the duration of a run and the processor time of all threads, in milliseconds.

    There is one pair for each turn: the means of its runs.
    """
    run, now, used = engine.run, time.perf_counter_ns, time.process_time_ns
    for _ in range(warm_up):
        run()
    times = []
    for _ in range(turns):
        used_before, before = used(), now()
        for _ in range(runs):
            run()
        after, used_after = now(), used()
        times.append(((after - before) / 1e6 / runs, (used_after - used_before) / 1e6 / runs))
    return times


def cycles(engine: Engine, path: str, inputs: Sequence[Array], count: int) -> list[int]:
    """Prepares, runs and drops repeatedly; returns resident KiB before, and after each tenth."""
    sizes = [memory_kib("VmRSS")]
    for number in range(1, count + 1):
        engine.load(path)
        engine.prepare(inputs)
        engine.run()
        if number % max(1, count // 10) == 0:
            gc.collect()
            sizes.append(memory_kib("VmRSS"))
    return sizes


def processor_ms() -> float:
    """Returns the processor time of this process and of its children, the running ones included."""
    used = time.process_time() * 1e3
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used += (ended.ru_utime + ended.ru_stime) * 1e3
    for path in Path("/proc").glob("[0-9]*/stat"):
        # Processes may end meanwhile.
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                used += (int(fields[11]) + int(fields[12])) * 1e3 / os.sysconf("SC_CLK_TCK")
    return used


def prepared(engine: Engine, path: str, inputs: Sequence[Array]) -> dict[str, float]:
    """Prepares a model and runs it; returns milliseconds, and those of all processors in all."""
    used = processor_ms()
    times = [time.perf_counter_ns()]
    steps: tuple[Callable[[], None], ...] = (
        lambda: engine.load(path),
        lambda: engine.prepare(inputs),
        engine.run,
    )
    for step in steps:
        step()
        times.append(time.perf_counter_ns())
    names = ("load_ms", "prepare_ms", "first_ms")
    figures = {name: (end - start) / 1e6 for name, (start, end) in zip(names, pairwise(times), strict=True)}
    return {**figures, "cpu_ms": processor_ms() - used}


def _in_order(array: Array) -> Array:
    """Returns an input with its elements in order; strings are objects, as engines take them."""
    # `ascontiguousarray` would give a scalar a dimension.
    ordered = np.asarray(array, order="C")
    return ordered.astype(object) if array.dtype.kind == "S" else ordered


def _plain(array: Array) -> Array:
    """Returns an output that can be written without pickling it."""
    return np.asarray(array).astype(np.bytes_) if np.asarray(array).dtype.kind == "O" else np.asarray(array)


def main() -> None:
    """Reports the preparation, then executes one command per line until standard input ends.

    The argument has `engine`, `model` (a file), `threads`, `inputs` (`.npz`), `outputs` (a file to
    write), `cores`, `cache` (a folder or None) and `again` (whether to prepare a second time).
    Commands are `["burst", warm-up, turns, runs of a turn]`, `["cycles", count]` and `["memory"]`.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    task = json.loads(sys.argv[1])
    os.sched_setaffinity(0, task["cores"])
    with np.load(task["inputs"]) as archive:
        inputs = [_in_order(archive[name]) for name in archive.files]
    start = time.perf_counter_ns()
    engine = ENGINES[task["engine"]](task["threads"], task["cache"])
    import_ms = (time.perf_counter_ns() - start) / 1e6
    imported = memory_kib("VmRSS")
    report = prepared(engine, task["model"], inputs)
    np.savez(task["outputs"], *(_plain(array) for array in engine.outputs()))
    again = prepared(engine, task["model"], inputs) if task["again"] else None
    about = {
        "import_ms": import_ms,
        "imported_kib": imported,
        "again": again,
        "version": version(engine.package),
    }
    print(json.dumps({**report, **about}), file=answers)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        if name == "burst":
            answer: Any = burst(engine, *arguments)
        elif name == "cycles":
            answer = cycles(engine, task["model"], inputs, *arguments)
        else:
            answer = {"peak_kib": memory_kib("VmHWM"), "resident_kib": memory_kib("VmRSS")}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
