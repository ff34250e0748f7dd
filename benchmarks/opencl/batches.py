"""Compares transformers and CNNs in several batches on an OpenCL device with PyTorch on the same GPU.

    python benchmarks/opencl/batches.py [--networks vit_base bert_base resnet_50 mobilenet_v2]
                                        [--batches 1 8 32] [--precision relaxed] [--compile]
                                        [--runs 100] [--json FILE]

Figures are medians in microseconds: of the kernels from the first launch to the end of the last, and
of whole executions with inputs and outputs in host memory. PyTorch runs networks of the same shape as
a CUDA graph, with inputs and outputs on the GPU, and with `--compile` also as `torch.compile` with
`max-autotune` makes them, which takes minutes. "Relaxed" means float16 there.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import neurald as nd
from neurald.drivers.opencl.device import create
from neurald.hal.model.types import Model
from neurald.hal.records import replace

sys.path.insert(0, str(Path(__file__).parents[1]))

from engines import KeepingDevice, median_us
from networks import NETWORKS, sequence_tflite_file, tflite_file
from networks.sequence_architectures import bert_base, vit_base
from result_file import Cell, Column, Result, Table, circumstances, write

_TORCHVISION = {"mobilenet_v2": "mobilenet_v2", "resnet_50": "resnet50"}
_NAMES = ("vit_base", "bert_base", *_TORCHVISION)
#: Tokens of BERT, and how many of them are not padding.
_TOKENS, _KEPT = 128, 100


def model_of(name: str, batch: int) -> Model:
    """Builds a network."""
    if name in _TORCHVISION:
        data = tflite_file(NETWORKS[name](), np.float32)
        return nd.load_tflite(data, shapes={nd.load_tflite(data).input_names[0]: (batch, 224, 224, 3)})
    network = vit_base(batch) if name == "vit_base" else bert_base(batch, _TOKENS)
    return nd.load_tflite(sequence_tflite_file(network))


def inputs_of(name: str, batch: int) -> list[np.ndarray[Any, Any]]:
    """Returns random inputs."""
    generator = np.random.default_rng(0)
    if name == "bert_base":
        mask = np.zeros((batch, 1, 1, _TOKENS), np.float32)
        mask[..., _KEPT:] = -1e4
        return [generator.standard_normal((batch, _TOKENS, 768)).astype(np.float32), mask]
    return [generator.standard_normal((batch, 224, 224, 3)).astype(np.float32)]


def neurald_cells(name: str, batch: int, *, is_relaxed: bool, runs: int) -> list[Cell]:
    """Returns compute and whole times in microseconds, and the time of a cold preparation in seconds."""
    model = replace(model_of(name, batch), relaxed=is_relaxed)
    device = KeepingDevice(create().facts)
    started = time.perf_counter()
    builder = nd.CompilationBuilder(model, devices=[device])
    builder.set_caching(None)
    compilation = builder.finish()
    cold_s = time.perf_counter() - started
    execution = nd.Execution(compilation, reusable=True)
    for number, array in enumerate(inputs_of(name, batch)):
        execution.set_input(number, array)
    target = model.main.operands[model.outputs[0]]
    execution.set_output(0, np.empty(target.dimensions, target.type.dtype))
    whole = median_us(execution.compute, runs)
    compute = [device.prepared.launch() for _ in range(2 * runs)][runs:]
    return [float(np.median(compute)) / 1e3, whole, cold_s]


def _layer(torch: Any, weights: dict[str, Any], x: Any, mask: Any, *, is_first_normal: bool) -> Any:
    """A layer of a transformer, with normalisation before or after."""
    functional = torch.nn.functional

    def normal(x: Any, name: str) -> Any:
        return functional.layer_norm(x, x.shape[-1:], weights[name], weights[f"{name}_offset"])

    def dense(x: Any, name: str) -> Any:
        return functional.linear(x, weights[name], weights[f"{name}_bias"])

    def attention(x: Any) -> Any:
        batch, tokens, width = x.shape
        query, key, value = (
            dense(x, name).view(batch, tokens, 12, width // 12).transpose(1, 2) for name in "qkv"
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return dense(mixed.transpose(1, 2).reshape(batch, tokens, width), "mixed")

    def wide(x: Any) -> Any:
        return dense(functional.gelu(dense(x, "wide")), "narrow")

    if is_first_normal:
        x = x + attention(normal(x, "first"))
        return x + wide(normal(x, "second"))
    x = normal(x + attention(x), "first")
    return normal(x + wide(x), "second")


def torch_network(torch: Any, name: str, dtype: Any) -> Callable[..., Any]:
    """Returns a network of the same shape in PyTorch."""
    if name in _TORCHVISION:
        import torchvision

        module = getattr(torchvision.models, _TORCHVISION[name])(weights=None).eval()
        return module.to(device="cuda", dtype=dtype, memory_format=torch.channels_last)  # type: ignore[no-any-return]

    def random(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=dtype) / shape[-1] ** 0.5

    def layer_weights() -> dict[str, Any]:
        found = {name: random(768) for name in ("first", "first_offset", "second", "second_offset")}
        shapes = {**dict.fromkeys("qkv", (768, 768)), "mixed": (768, 768), "wide": (3072, 768)}
        for name, shape in {**shapes, "narrow": (768, 3072)}.items():
            found |= {name: random(*shape), f"{name}_bias": random(shape[0])}
        return found

    layers = [layer_weights() for _ in range(12)]
    functional = torch.nn.functional
    if name == "bert_base":

        def bert(x: Any, mask: Any) -> Any:
            for weights in layers:
                x = _layer(torch, weights, x, mask, is_first_normal=False)
            return x

        return bert
    patches, first, places, head = (
        random(768, 3, 16, 16),
        random(1, 1, 768),
        random(1, 197, 768),
        random(1000, 768),
    )

    def vit(image: Any) -> Any:
        x = functional.conv2d(image, patches, stride=16).flatten(2).transpose(1, 2)
        x = torch.cat([first.expand(x.shape[0], -1, -1), x], 1) + places
        for weights in layers:
            x = _layer(torch, weights, x, None, is_first_normal=True)
        return functional.linear(functional.layer_norm(x, (768,)), head)

    return vit


def torch_cells(name: str, batch: int, *, is_relaxed: bool, runs: int, is_compiled: bool) -> list[Cell]:
    """Returns the times of a CUDA graph and of a compiled network in microseconds.

    Raises:
        ImportError: PyTorch or a GPU is missing.
    """
    import torch

    if not torch.cuda.is_available():
        raise ImportError("PyTorch sees no GPU")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = is_relaxed
    torch.backends.cudnn.benchmark = True
    dtype = torch.float16 if is_relaxed else torch.float32
    network = torch_network(torch, name, dtype)
    given = [torch.from_numpy(each).to(device="cuda", dtype=dtype) for each in inputs_of(name, batch)]
    if name != "bert_base":
        given = [each.permute(0, 3, 1, 2) for each in given]
    cells: list[Cell] = []
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                network(*given)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            network(*given)

        def replayed() -> None:
            graph.replay()
            torch.cuda.synchronize()

        cells.append(median_us(replayed, runs))
        if not is_compiled:
            return [*cells, None]
        compiled = torch.compile(network, mode="max-autotune")
        for _ in range(3):
            compiled(*given)

        def ran() -> None:
            compiled(*given)
            torch.cuda.synchronize()

        return [*cells, median_us(ran, runs)]


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", nargs="+", choices=_NAMES, default=list(_NAMES))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8, 32])
    parser.add_argument("--precision", choices=("relaxed", "fp32"), default="relaxed")
    parser.add_argument("--compile", action="store_true", help="also measure torch.compile")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    given = parser.parse_args()
    device, is_relaxed = create(), given.precision == "relaxed"
    print(f"{device.facts}, driver {device.facts.driver_version}, {given.precision}")  # noqa: T201
    rows: list[list[Cell]] = []
    for name in given.networks:
        for batch in given.batches:
            own = neurald_cells(name, batch, is_relaxed=is_relaxed, runs=given.runs)
            try:
                peers = torch_cells(
                    name, batch, is_relaxed=is_relaxed, runs=given.runs, is_compiled=given.compile
                )
            except ImportError as error:
                print(f"PyTorch is skipped: {error}")  # noqa: T201
                peers = [None, None]
            numbers = [float(each) for each in (own[0], *peers) if isinstance(each, float)]
            ratio = numbers[0] / min(numbers[1:]) if numbers[1:] else None
            rows.append([f"{name}, batch {batch}", *own, *peers, ratio])
            print(rows[-1], flush=True)  # noqa: T201
    if given.json:
        columns = [
            Column(name="network", title=""),
            Column(name="compute", title="neurald, compute", unit="µs", format=",.0f"),
            Column(name="whole", title="neurald, with transfers", unit="µs", format=",.0f"),
            Column(name="cold_s", title="prepare, cold cache", unit="s", format=".1f"),
            Column(name="graph", title="PyTorch, CUDA graph", unit="µs", format=",.0f"),
            Column(name="compiled", title="PyTorch, max-autotune", unit="µs", format=",.0f"),
            Column(name="ratio", title="neurald / the better one", format=".2f"),
        ]
        facts = circumstances()
        facts["machine"] += f"; {device.facts}, driver {device.facts.driver_version}"
        result = Result(
            title=f"OpenCL device: batches, {given.precision}",
            description="Medians. Compute: with the data on the GPU. With transfers: with inputs and "
            "outputs in host memory. For PyTorch, relaxed means float16.",
            tables=[Table(title="Medians", columns=columns, rows=rows)],
            **facts,
        )
        write(given.json, result)


if __name__ == "__main__":
    main()
