"""Compares transformers and CNNs in several batches in OpenCL with PyTorch on the same GPU.

    python benchmarks/opencl/batches.py [--networks vit_base bert_base ...] [--batches 1 8 32]
                                        [--precisions relaxed fp32 int8] [--runs 60] [--minutes 10]
                                        [--compile-cache FOLDER] [--json FILE] [--choices FILE]

Without networks, all are measured in the batches and precisions of `_CASES`. Figures are medians in
microseconds: of the kernels from the first launch to the end of the last, and of whole executions
with inputs and outputs in host memory, once no faster program is being built. Cold preparations end
when executions can begin. PyTorch runs networks of the same shape as a CUDA graph,
with inputs and outputs on the GPU, and then as `torch.compile` with `max-autotune` makes them.
"Relaxed" means float16 there.

No measurement begins after `--minutes`, and compiling with PyTorch ends then. It takes longer the
first time, but the results are kept in a folder, and later runs continue from there. What was not
measured in time is reported. A result file that exists keeps the lines of other cases, so that
several runs can measure the whole table.

`--choices` measures the candidates for kernels, also on a known GPU, and adds what was fastest to a
file. Such a file belongs into `drivers/opencl/tuning`, from where it saves these measurements.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.drivers.opencl.device import create
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.tuning.choices import Choices, decoded, encoded, known_as
from neurald.hal.model.model import Model
from neurald.hal.records import replace

sys.path.insert(0, str(Path(__file__).parents[1]))

from engines import KeepingDevice, median_us
from networks import NETWORKS, sequence_tflite_file, tflite_file
from networks.sequence_architectures import bert_base, gpt_step, vit_base, whisper_encoder
from result_file import Cell, Column, Result, Table, circumstances, read, write
from torch_networks import TORCHVISION, compiled_us, graph_us

#: Batches that are measured by default, by network and precision.
_CASES: dict[tuple[str, str], tuple[int, ...]] = {
    ("vit_base", "relaxed"): (1, 8, 32),
    ("bert_base", "relaxed"): (1, 8, 32),
    ("whisper_small_encoder", "relaxed"): (1,),
    ("gpt_step", "relaxed"): (1,),
    ("resnet_50", "relaxed"): (1, 8, 32, 128),
    ("mobilenet_v2", "relaxed"): (1, 8, 32, 128),
    ("resnet_50", "int8"): (1, 8, 32),
    ("mobilenet_v2", "int8"): (1, 8, 32),
    ("vit_base", "fp32"): (1, 8),
    ("bert_base", "fp32"): (1, 8),
    ("resnet_50", "fp32"): (1, 8, 32),
    ("mobilenet_v2", "fp32"): (1, 8, 32),
}
#: How the note about lines of another run begins, and where a result has how they were measured.
_OTHERS, _MEASURED = "Measured by", "measured"
#: Time that is needed to compile a network with PyTorch if it is in the cache.
_MIN_COMPILE_S = 20
_NAMES = tuple(dict.fromkeys(name for name, _ in _CASES))
_PRECISIONS = ("relaxed", "fp32", "int8")
#: Tokens of BERT, and how many of them are not padding.
_TOKENS, _KEPT = 128, 100


def model_of(name: str, batch: int, precision: str) -> Model:
    """Builds a network. Whisper's and GPT's have batch 1, and transformers have no int8."""
    if name in TORCHVISION:
        data = tflite_file(NETWORKS[name](), np.int8 if precision == "int8" else np.float32)
        model = nd.load_tflite(data, shapes={nd.load_tflite(data).input_names[0]: (batch, 224, 224, 3)})
    else:
        network = {
            "vit_base": lambda: vit_base(batch),
            "bert_base": lambda: bert_base(batch, _TOKENS),
            "whisper_small_encoder": lambda: whisper_encoder(768, layers=12),
            "gpt_step": lambda: gpt_step(1024, layers=14),
        }[name]()
        model = nd.load_tflite(sequence_tflite_file(network))
    return replace(model, relaxed=precision == "relaxed")


def inputs_of(model: Model) -> list[np.ndarray[Any, Any]]:
    """Returns random inputs; masks hide some of the last tokens."""
    generator = np.random.default_rng(0)
    found: list[np.ndarray[Any, Any]] = []
    for number in model.inputs:
        operand = model.main.operands[number]
        shape, dtype = operand.dimensions, operand.type.dtype
        if np.issubdtype(dtype, np.integer):
            array = generator.integers(0, 100, shape).astype(dtype)
        else:
            array = generator.standard_normal(shape).astype(dtype)
        if shape[1:3] == (1, 1):
            array[:] = 0
            array[..., _KEPT:] = -1e4
        found.append(array)
    return found


def neurald_cells(model: Model, runs: int, choices: Choices | None) -> tuple[float, float, float]:
    """Returns compute and whole times in microseconds, and of a cold preparation in seconds.

    Args:
        model: the network.
        runs: the number of runs.
        choices: replaces those of the device.
    """
    device = KeepingDevice(create().facts)
    if choices is not None:
        device.choices = choices
    started = time.perf_counter()
    builder = nd.CompilationBuilder(model, devices=[device])
    builder.set_caching(None)
    compilation = builder.finish()
    cold_s = time.perf_counter() - started
    device.prepared.wait_until_improved()
    execution = nd.Execution(compilation, reusable=True)
    for number, array in enumerate(inputs_of(model)):
        execution.set_input(number, array)
    for number, output in enumerate(model.outputs):
        target = model.main.operands[output]
        execution.set_output(number, np.empty(target.dimensions, target.type.dtype))
    whole = median_us(execution.compute, runs)
    compute = [device.prepared.launch() for _ in range(2 * runs)][runs:]
    return float(np.median(compute)) / 1e3, whole, cold_s


def cases(given: argparse.Namespace) -> Iterator[tuple[str, int, str]]:
    """Yields the networks, batches and precisions to measure."""
    for (name, precision), batches in _CASES.items():
        if name not in (given.networks or _NAMES) or precision not in given.precisions:
            continue
        for batch in given.batches or batches:
            yield name, batch, precision


def label_of(name: str, batch: int, precision: str) -> str:
    """Returns the first cell of the row of a case."""
    return f"{name}, {precision}, batch {batch}"


class KnownResult:
    """The lines that a result file has of earlier runs, and what is to be said of them.

    Attributes:
        rows: the lines by their labels.
        notes: the notes that do not depend on who measured a line.
        measured: how and when each line was measured, by its label.
    """

    def __init__(self, path: Path | None) -> None:
        """Reads the file, if there is one.

        Raises:
            ValueError: it is not a result file.
        """
        self.rows: dict[str, list[Cell]] = {}
        self.notes: list[str] = []
        self.measured: dict[str, str] = {}
        if path is None or not path.exists():
            return
        known = read(path)
        self.rows = {str(row[0]): [*row] for row in known.tables[0].rows}
        earlier: dict[str, str] = known.details.get(_MEASURED, {})
        this = f"`{known.command}` at {known.commit} on {known.date} ({known.machine})"
        self.measured = {label: earlier.get(label, this) for label in self.rows}
        self.notes = [each for each in known.notes if not each.startswith(_OTHERS)]

    def replace(self, label: str) -> None:
        """Drops what is said of a line that is measured again."""
        self.measured.pop(label, None)
        self.notes = [each for each in self.notes if not each.startswith(f"{label}:")]

    def all_notes(self) -> list[str]:
        """Returns the notes, with one for each earlier run that has lines left."""
        runs: dict[str, list[str]] = {}
        for label, run in self.measured.items():
            runs.setdefault(run, []).append(label)
        return [*self.notes, *(f"{_OTHERS} {run}: {'; '.join(labels)}." for run, labels in runs.items())]


def record(path: Path, facts: DeviceFacts, rows: list[list[Cell]], known: KnownResult) -> None:
    """Writes a result file with the rows that are known so far."""
    columns = [
        Column(name="network", title=""),
        Column(name="compute", title="neurald, compute", unit="µs", format=",.0f"),
        Column(name="whole", title="neurald, with transfers", unit="µs", format=",.0f"),
        Column(name="cold_s", title="prepare, cold cache", unit="s", format=".1f"),
        Column(name="graph", title="PyTorch, CUDA graph", unit="µs", format=",.0f"),
        Column(name="compiled", title="PyTorch, max-autotune", unit="µs", format=",.0f"),
        Column(name="ratio", title="neurald / the better one", format=".2f"),
    ]
    about = circumstances()
    about["machine"] += f"; {facts}, driver {facts.driver_version}"
    result = Result(
        title="OpenCL device: batches",
        description="Medians. Compute: with the data on the GPU. With transfers: with inputs and "
        "outputs in host memory. Prepare: until executions can begin; persistent kernels may replace "
        "separate ones later. For PyTorch, relaxed means float16.",
        tables=[Table(title="Medians", columns=columns, rows=rows)],
        notes=known.all_notes(),
        details={_MEASURED: known.measured} if known.measured else {},
        **about,
    )
    write(path, result)


class Comparison:
    """Measurements of all cases, within a limit of time.

    Args:
        given: the arguments of the program.
        facts: the device.
    """

    def __init__(self, given: argparse.Namespace, facts: DeviceFacts) -> None:
        self._given, self._facts = given, facts
        self._end = time.monotonic() + 60 * given.minutes
        self._known = KnownResult(given.json)
        self._rows = self._known.rows

    def _remaining_s(self) -> float:
        return self._end - time.monotonic()

    def _note(self, text: str) -> None:
        print(text, flush=True)  # noqa: T201
        self._known.notes.append(text)

    def _record(self, row: list[Cell]) -> None:
        times = [each for each in row[4:6] if isinstance(each, float)]
        own = row[1]
        assert isinstance(own, float)  # noqa: S101 - it was measured
        row[6] = own / min(times) if times else None
        self._rows[str(row[0])] = row
        self._known.replace(str(row[0]))
        print(row, flush=True)  # noqa: T201
        self._write()

    def _write(self) -> None:
        if self._given.json:
            order = [
                label_of(name, each, kind) for (name, kind), batches in _CASES.items() for each in batches
            ]
            labels = sorted(
                self._rows, key=lambda label: order.index(label) if label in order else len(order)
            )
            record(self._given.json, self._facts, [self._rows[each] for each in labels], self._known)

    def measure(self) -> None:
        """Measures neurald and CUDA graphs, then compiled networks."""
        given = self._given
        choices = Choices({}) if given.choices else None
        gpu = known_as(self._facts.name)
        before = decoded(given.choices.read_text(), gpu) if choices and given.choices.exists() else {}
        has_peers = not given.no_peers
        measured: dict[tuple[str, int, str], list[Cell]] = {}
        for case in cases(given):
            name, batch, precision = case
            if self._remaining_s() < 0:
                self._note(f"{label_of(*case)}: there was no time")
                continue
            model = model_of(name, batch, precision)
            own = neurald_cells(model, given.runs, choices)
            if choices is not None:
                given.choices.write_text(encoded(gpu, {**before, **choices.measured}))
            graph: float | None = None
            if precision != "int8" and has_peers:
                try:
                    graph = graph_us(
                        name, inputs_of(model), is_relaxed=precision == "relaxed", runs=given.runs
                    )
                except ImportError as error:
                    self._note(f"PyTorch is skipped: {error}")
                    has_peers = False
            self._record([label_of(*case), *own, graph, None, None])
            measured[case] = self._rows[label_of(*case)]
        if has_peers and not given.no_compile:
            for case, row in measured.items():
                if case[2] != "int8":
                    self._compile(case, row)
        self._write()

    def _compile(self, case: tuple[str, int, str], row: list[Cell]) -> None:
        name, batch, precision = case
        found = None
        if self._remaining_s() > _MIN_COMPILE_S:
            try:
                found = compiled_us(
                    name,
                    inputs_of(model_of(name, batch, precision)),
                    is_relaxed=precision == "relaxed",
                    runs=self._given.runs,
                    cache=self._given.compile_cache,
                    limit_s=self._remaining_s(),
                )
            except RuntimeError as error:
                self._note(f"{row[0]}: {error}")
                return
        if found is None:
            self._note(f"{row[0]}: there was no time to compile it with PyTorch")
            return
        self._record([*row[:5], found, None])


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", nargs="+", choices=_NAMES)
    parser.add_argument("--batches", nargs="+", type=int)
    parser.add_argument("--precisions", nargs="+", choices=_PRECISIONS, default=list(_PRECISIONS))
    parser.add_argument("--no-compile", action="store_true", help="measure without torch.compile")
    parser.add_argument("--no-peers", action="store_true", help="measure without PyTorch")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--minutes", type=float, default=10, help="limit on the time of the program")
    parser.add_argument(
        "--compile-cache",
        type=Path,
        metavar="FOLDER",
        default=Path.home() / ".cache" / "neurald-benchmarks" / "torch",
        help="where PyTorch keeps what it compiled (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    parser.add_argument("--choices", type=Path, metavar="FILE", help="add what was measured to be fastest")
    given = parser.parse_args()
    facts = create().facts
    print(f"{facts}, driver {facts.driver_version}")  # noqa: T201
    Comparison(given, facts).measure()


if __name__ == "__main__":
    main()
