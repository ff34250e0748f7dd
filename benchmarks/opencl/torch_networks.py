"""The networks of `batches.py` in PyTorch, as CUDA graphs and compiled."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from engines import median_us

Array = np.ndarray[Any, np.dtype[Any]]

#: Names of the networks of torchvision.
TORCHVISION = {"mobilenet_v2": "mobilenet_v2", "resnet_50": "resnet50"}


def _layer(
    torch: Any,
    weights: dict[str, Any],
    x: Any,
    mask: Any = None,
    *,
    is_first_normal: bool = True,
    cache: Any = None,
    kept: list[Any] | None = None,
) -> Any:
    """Computes a transformer's layer, normalised before or after; `kept` gets keys and values."""
    functional = torch.nn.functional

    def normal(x: Any, name: str) -> Any:
        return functional.layer_norm(x, x.shape[-1:], weights[name], weights[f"{name}_offset"])

    def dense(x: Any, name: str) -> Any:
        return functional.linear(x, weights[name], weights[f"{name}_bias"])

    def attention(x: Any) -> Any:
        batch, tokens, width = x.shape
        query, key, value = (
            dense(x, name).view(batch, tokens, width // 64, 64).transpose(1, 2) for name in "qkv"
        )
        if cache is not None and kept is not None:
            key, value = (torch.cat(pair, 2) for pair in zip(cache, (key, value), strict=True))
            kept.extend((key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return dense(mixed.transpose(1, 2).reshape(batch, tokens, width), "mixed")

    def wide(x: Any) -> Any:
        return dense(functional.gelu(dense(x, "wide")), "narrow")

    if is_first_normal:
        x = x + attention(normal(x, "first"))
        return x + wide(normal(x, "second"))
    x = normal(x + attention(x), "first")
    return normal(x + wide(x), "second")


def _network(torch: Any, name: str, dtype: Any) -> Callable[..., Any]:
    """Returns a network of the same shape."""
    if name in TORCHVISION:
        import torchvision

        module = getattr(torchvision.models, TORCHVISION[name])(weights=None).eval()
        return module.to(device="cuda", dtype=dtype, memory_format=torch.channels_last)  # type: ignore[no-any-return]
    functional = torch.nn.functional

    def random(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=dtype) / shape[-1] ** 0.5

    def layers_of(width: int, count: int) -> list[dict[str, Any]]:
        shapes = {**dict.fromkeys([*"qkv", "mixed"], (width, width)), "wide": (4 * width, width)}
        shapes["narrow"] = (width, 4 * width)
        found = []
        for _ in range(count):
            normals = ("first", "first_offset", "second", "second_offset")
            weights = {each: random(width) for each in normals}
            for each, shape in shapes.items():
                weights |= {each: random(*shape), f"{each}_bias": random(shape[0])}
            found.append(weights)
        return found

    if name == "bert_base":
        layers = layers_of(768, 12)

        def bert(x: Any, mask: Any) -> Any:
            for weights in layers:
                x = _layer(torch, weights, x, mask, is_first_normal=False)
            return x

        return bert
    if name == "whisper_small_encoder":
        layers, places = layers_of(768, 12), random(1, 1500, 768)
        windows = random(768, 80, 3), random(768, 768, 3)

        def whisper(sound: Any) -> Any:
            x = sound
            for stride, window in zip((1, 2), windows, strict=True):
                x = functional.gelu(functional.conv1d(x, window, stride=stride, padding=1))
            x = x.transpose(1, 2) + places
            for weights in layers:
                x = _layer(torch, weights, x)
            return functional.layer_norm(x, (768,))

        return whisper
    if name == "gpt_step":
        layers, words, places, head = (
            layers_of(1024, 14),
            random(8192, 1024),
            random(1024, 1024),
            random(8192, 1024),
        )

        def step(token: Any, position: Any, *caches: Any) -> Any:
            x, kept = functional.embedding(token, words) + functional.embedding(position, places), []
            for number, weights in enumerate(layers):
                x = _layer(torch, weights, x, cache=caches[2 * number : 2 * number + 2], kept=kept)
            return functional.linear(functional.layer_norm(x, (1024,)), head), kept

        return step
    layers = layers_of(768, 12)
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
            x = _layer(torch, weights, x)
        return functional.linear(functional.layer_norm(x, (768,)), head)

    return vit


def _given(torch: Any, name: str, array: Array, dtype: Any) -> Any:
    """Returns an input as PyTorch's network takes it."""
    if array.dtype == np.int32:
        return torch.from_numpy(array).to(device="cuda", dtype=torch.int64)
    value = torch.from_numpy(array).to(device="cuda", dtype=dtype)
    if name == "whisper_small_encoder":
        return value[:, 0].transpose(1, 2).contiguous()
    return value.permute(0, 3, 1, 2) if name in TORCHVISION or name == "vit_base" else value


def _prepared(
    torch: Any, name: str, inputs: list[Array], *, is_relaxed: bool
) -> tuple[Callable[..., Any], list[Any]]:
    """Returns a network and its inputs on the GPU.

    Raises:
        ImportError: there is no GPU.
    """
    if not torch.cuda.is_available():
        raise ImportError("PyTorch sees no GPU")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = is_relaxed
    torch.backends.cudnn.benchmark = True
    dtype = torch.float16 if is_relaxed else torch.float32
    return _network(torch, name, dtype), [_given(torch, name, each, dtype) for each in inputs]


def graph_us(name: str, inputs: list[Array], *, is_relaxed: bool, runs: int) -> float:
    """Returns the time of a network as a CUDA graph in microseconds.

    Raises:
        ImportError: PyTorch or a GPU is missing.
    """
    import torch

    network, given = _prepared(torch, name, inputs, is_relaxed=is_relaxed)
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

        return median_us(replayed, runs)


def _compiled_us(name: str, inputs: list[Array], *, is_relaxed: bool, runs: int) -> float:
    """Returns the time of a network that `torch.compile` has tuned, in microseconds."""
    import torch

    network, given = _prepared(torch, name, inputs, is_relaxed=is_relaxed)
    with torch.no_grad():
        compiled = torch.compile(network, mode="max-autotune")
        for _ in range(3):
            compiled(*given)

        def ran() -> None:
            compiled(*given)
            torch.cuda.synchronize()

        return median_us(ran, runs)


def compiled_us(
    name: str, inputs: list[Array], *, is_relaxed: bool, runs: int, cache: Path, limit_s: float
) -> float | None:
    """Returns the time of a network that `torch.compile` has tuned, in microseconds.

    A process of its own compiles it, which takes minutes unless `cache` has the result.

    Args:
        name, inputs: the network.
        is_relaxed: whether to compute in float16.
        runs: the number of runs.
        cache: the folder for what was compiled and tuned.
        limit_s: limit on the time. What is finished by then is in the cache.

    Returns:
        None if the time did not suffice.

    Raises:
        RuntimeError: the process failed.
    """
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "inputs.npz"
        np.savez(file, *inputs)
        command = [sys.executable, __file__, name, str(file), str(runs), "relaxed" if is_relaxed else "fp32"]
        # Its compilers are processes, too, which end with the group.
        with subprocess.Popen(  # noqa: S603 - this file
            command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            try:
                output, _ = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            raise RuntimeError(f"compiling {name} failed with status {process.returncode}")
        return float(output.split()[-1])


def main() -> None:
    """Measures a compiled network for `compiled_us`, and prints the time."""
    name, file, runs, precision = sys.argv[1:]
    with np.load(file) as arrays:
        inputs = [arrays[each] for each in arrays.files]
    print(_compiled_us(name, inputs, is_relaxed=precision == "relaxed", runs=int(runs)))  # noqa: T201


if __name__ == "__main__":
    main()
