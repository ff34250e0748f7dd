"""Compares networks on an OpenCL device with PyTorch and LiteRT on the same GPU.

    python benchmarks/opencl/run.py [--networks mobilenet_v2 resnet_50]
                                    [--precisions fp32 relaxed int8] [--runs 200] [--json FILE]

The networks are those of `benchmarks/networks`, batch 1. neurald prepares each one twice, with a
cold and a warm cache; then its kernels run alone, and whole executions with inputs and outputs in
host memory. Figures are medians in microseconds: of the kernels from the first launch to the end of
the last, and of the whole call. PyTorch runs torchvision's networks of the same shape, launch by
launch and as a CUDA graph, with inputs and outputs on the GPU; "relaxed" means float16 there.
LiteRT runs the same file on its GPU accelerator, with and without transfers of inputs and outputs.
Peers that are not installed are reported and skipped.
"""

import argparse
import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.drivers.opencl.device import create
from neurald.hal.records import replace

sys.path.insert(0, str(Path(__file__).parents[1]))

from engines import KeepingDevice, median_us
from networks import NETWORKS, Network, tflite_file
from result_file import Cell, Column, Result, Table, circumstances, write

#: Types of the files; relaxed ones are float32 files whose model allows float16.
_TYPES = {"fp32": np.float32, "relaxed": np.float32, "int8": np.int8}
_TORCHVISION = {"mobilenet_v2": "mobilenet_v2", "resnet_50": "resnet50"}
_TOKEN = bytes(32)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Preparation:
    """neurald's preparation of a network.

    Attributes:
        cold_s: the time with an empty cache.
        warm_s: the time with a full one.
        kernels: the kernels, or the phases of the single kernel.
        error: the largest error, relative to the largest output.
    """

    cold_s: float
    warm_s: float
    kernels: int
    error: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """Result of one measurement.

    Attributes:
        compute_us: the time without transfers.
        whole_us: the time with transfers to and from host memory; None if not measured.
        note: what else to print.
        preparation: for neurald only.
    """

    engine: str
    compute_us: float
    whole_us: float | None = None
    note: str = ""
    preparation: Preparation | None = None


def neurald_figures(path: Path, network: Network, precision: str, runs: int) -> Iterator[Figure]:
    """Measures the OpenCL driver, from a cold and a warm cache."""
    model = nd.load_tflite(path)
    if precision == "relaxed":
        model = replace(model, relaxed=True)
    with tempfile.TemporaryDirectory() as cache:
        prepared = []
        for _ in range(2):
            device = KeepingDevice(create().facts)
            builder = nd.CompilationBuilder(model, devices=[device])
            builder.set_caching(cache, _TOKEN)
            started = time.perf_counter()
            compilation = builder.finish()
            prepared.append(time.perf_counter() - started)
            device.prepared.wait_until_improved()
    execution = nd.Execution(compilation, reusable=True)
    image = network.image.value
    operands = model.main.operands
    source, target = (operands[each[0]] for each in (model.inputs, model.outputs))
    if source.scale:
        stored = np.round(image / source.scale) + source.zero_point
        image = np.clip(stored, -128, 127).astype(np.int8)
    result = np.empty(network.output.value.shape, target.type.dtype)
    execution.set_input(0, image)
    execution.set_output(0, result)
    whole = median_us(execution.compute, runs)
    compute = [device.prepared.launch() for _ in range(2 * runs)][runs:]
    real = (result.astype(np.float64) - target.zero_point) * target.scale if target.scale else result
    expected = network.output.value
    error = float(np.abs(real - expected).max() / np.abs(expected).max())
    executable = device.prepared.executable
    one = executable.persistent
    kernels = f"{len(executable.calls)} kernels"
    if one is not None:
        kernels = f"one kernel of {one.groups} groups for {len(executable.calls)} phases"
    times = f"{prepared[0]:.2f} s cold and {prepared[1]:.3f} s warm"
    note = f"{kernels}, error {error:.1e}, prepared in {times}"
    yield Figure(
        engine="neurald",
        compute_us=float(np.median(compute)) / 1e3,
        whole_us=whole,
        note=note,
        preparation=Preparation(
            cold_s=prepared[0], warm_s=prepared[1], kernels=len(executable.calls), error=error
        ),
    )


def pytorch_figures(name: str, precision: str, runs: int) -> Iterator[Figure]:
    """Measures PyTorch on CUDA.

    Raises:
        ImportError: it is not installed.
    """
    import torch
    import torchvision

    if not torch.cuda.is_available():
        raise ImportError("PyTorch sees no GPU")
    if precision == "int8":
        return
    is_relaxed = precision == "relaxed"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = is_relaxed
    torch.backends.cudnn.benchmark = True
    dtype = torch.float16 if is_relaxed else torch.float32
    module = getattr(torchvision.models, _TORCHVISION[name])(weights=None).eval()
    module = module.to(device="cuda", dtype=dtype, memory_format=torch.channels_last)
    image = torch.randn(1, 3, 224, 224, device="cuda", dtype=dtype)
    image = image.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():

        def eager() -> None:
            module(image)
            torch.cuda.synchronize()

        yield Figure(engine="PyTorch", compute_us=median_us(eager, runs))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                module(image)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            module(image)

        def replayed() -> None:
            graph.replay()
            torch.cuda.synchronize()

        yield Figure(engine="PyTorch, CUDA graph", compute_us=median_us(replayed, runs))


def litert_figures(path: Path, network: Network, precision: str, runs: int) -> Iterator[Figure]:
    """Measures LiteRT on its GPU accelerator.

    Raises:
        ImportError: it is not installed.
    """
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator
    from ai_edge_litert.options import GpuOptions, Options

    if precision == "int8":
        return
    gpu = GpuOptions(enforce_f32=precision == "fp32", hint_waiting_for_completion=True)
    options = Options(hardware_accelerators=HardwareAccelerator.GPU, gpu_options=gpu)
    model: Any = CompiledModel.from_file(str(path), options=options)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(network.image.value)

    def compute() -> None:
        model.run_by_index(0, inputs, outputs)

    def whole() -> None:
        inputs[0].write(network.image.value)
        compute()
        outputs[0].read(network.output.value.size, np.float32)

    yield Figure(engine="LiteRT GPU", compute_us=median_us(compute, runs), whole_us=median_us(whole, runs))


def measure_network(name: str, precision: str, runs: int, folder: Path) -> dict[str, Figure]:
    """Measures one network with all engines, and prints the figures and ratios.

    Returns:
        The figures by engine.
    """
    network = NETWORKS[name]()
    path = folder / f"{name}_{precision}.tflite"
    path.write_bytes(tflite_file(network, _TYPES[precision]))
    measurements: list[tuple[str, Callable[[], Iterator[Figure]]]] = [
        ("neurald", lambda: neurald_figures(path, network, precision, runs)),
        ("PyTorch", lambda: pytorch_figures(name, precision, runs)),
        ("LiteRT", lambda: litert_figures(path, network, precision, runs)),
    ]
    print(f"{name}, {precision}")  # noqa: T201
    own: Figure | None = None
    figures: dict[str, Figure] = {}
    for engine, measure in measurements:
        try:
            for figure in measure():
                own = own or figure
                figures[figure.engine] = figure
                _print(figure, own)
        except ImportError as error:
            print(f"  {engine} is skipped: {error}")  # noqa: T201
        except Exception as error:
            # A failure of one engine must not stop the others.
            print(f"  {engine} failed: {type(error).__name__}: {str(error)[:300]}")  # noqa: T201
    return figures


def result_table(networks: dict[str, dict[str, Figure]]) -> Table:
    """Returns the table of all networks for a result file."""
    engines = dict.fromkeys(engine for figures in networks.values() for engine in figures)
    columns = [Column(name="network", title="")]
    for engine in engines:
        columns.append(
            Column(name=f"{engine}, compute", title=f"{engine}, compute", unit="µs", format=",.0f")
        )
        columns.append(
            Column(name=f"{engine}, whole", title=f"{engine}, with transfers", unit="µs", format=",.0f")
        )
        if engine != "neurald":
            columns.append(
                Column(name=f"{engine}, ratio", title=f"neurald / {engine}, compute", format=".2f")
            )
    columns += [
        Column(name="kernels", title="kernels, or phases of one kernel", format=".0f"),
        Column(name="cold_s", title="prepare, cold cache", unit="s", format=".2f"),
        Column(name="warm_s", title="prepare, warm cache", unit="s", format=".3f"),
        Column(name="error", title="largest error / largest output", format=".1e"),
    ]
    rows = []
    for network, figures in networks.items():
        own = figures.get("neurald")
        cells: list[Cell] = [network]
        for engine in engines:
            figure = figures.get(engine)
            cells += [figure.compute_us, figure.whole_us] if figure else [None, None]
            if engine != "neurald":
                cells.append(own.compute_us / figure.compute_us if own and figure else None)
        preparation = own.preparation if own else None
        for name in ("kernels", "cold_s", "warm_s", "error"):
            cells.append(getattr(preparation, name) if preparation else None)
        rows.append(cells)
    return Table(title="Medians", columns=columns, rows=rows, transpose=True)


def _print(figure: Figure, own: Figure) -> None:
    whole = "" if figure.whole_us is None else f", {figure.whole_us:.0f} with transfers"
    ratio = "" if figure is own else f"; neurald / {figure.engine}: {own.compute_us / figure.compute_us:.2f}"
    note = f"; {figure.note}" if figure.note else ""
    print(f"  {figure.engine}: {figure.compute_us:.0f} us{whole}{ratio}{note}", flush=True)  # noqa: T201


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", nargs="+", choices=sorted(_TORCHVISION), default=sorted(_TORCHVISION))
    parser.add_argument("--precisions", nargs="+", choices=sorted(_TYPES), default=list(_TYPES))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    given = parser.parse_args()
    device = create()
    networks: dict[str, dict[str, Figure]] = {}
    print(f"{device.facts}; {device.facts.platform_version}, driver {device.facts.driver_version}")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        for name in given.networks:
            for precision in given.precisions:
                figures = measure_network(name, precision, given.runs, Path(folder))
                networks[f"{name} {precision}"] = figures
    if given.json:
        facts = circumstances()
        facts["machine"] += (
            f"; {device.facts}, {device.facts.platform_version}, driver {device.facts.driver_version}"
        )
        result = Result(
            title="OpenCL device: networks",
            description=(
                "Batch 1. Compute: from the first launch to the end of the last, with the data on the GPU. "
                "With transfers: a whole execution with input and output in host memory. For PyTorch, "
                "relaxed means float16. Ratios are neurald's time divided by the other's."
            ),
            tables=[result_table(networks)],
            **facts,
        )
        write(given.json, result)


if __name__ == "__main__":
    main()
