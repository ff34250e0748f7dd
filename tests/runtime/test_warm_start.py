"""A start from the cache imports neither NumPy, the compiler, nor the conversion of files."""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from support.tflite.builder import TfliteModel

_PROGRAM = """
import sys
import neurald as nd

builder = nd.CompilationBuilder(nd.load_tflite(sys.argv[1]))
builder.set_startup(nd.Startup.OPTIMIZED)
compilation = builder.finish()
print(compilation.report.steps[0].cache.name)
print(*sorted(sys.modules))
"""

_UNUSED = (
    "concurrent.futures",
    "copy",
    "dataclasses",
    "google.protobuf",
    "grpc",
    "asyncio",
    "hashlib",
    "hmac",
    "numpy",
    "secrets",
    "socket",
    "subprocess",
    "tempfile",
    "typer",
    "rich",
    "llvmlite.binding",
    "neurald.drivers.compiler.frontend",
    "neurald.drivers.compiler.ir.extents.extent",
    "neurald.drivers.compiler.lowering",
    "neurald.drivers.cpu.compiler",
    "neurald.hal.compiling.pool",
    "neurald.hal.operations.convolution",
    "neurald.hal.operations.elementwise",
    "neurald.hal.operations.machinery",
    "neurald.hal.validation.model_rules",
    "neurald.runtime.execution.program.compound_executor",
    "neurald.runtime.execution.execution",
    "neurald.runtime.plan.program_builder",
    "neurald.runtime.tflite.conversion.importer",
    "neurald.runtime.tflite.file.schema",
)


#: What a program that only uses the CPU device in its process needs none of.
_UNUSED_BY_LITERT = (
    "neurald.runtime.devices.daemons",
    "neurald.runtime.litert.compiled_model.compiled_model",
    "neurald.runtime.litert.custom_device",
    "statistics",
)

#: A start without a cache, on the first tier.
_COLD_PROGRAM = """
import sys
import neurald as nd

builder = nd.CompilationBuilder(nd.load_tflite(sys.argv[1]))
builder.set_startup(nd.Startup.INSTANT)
compilation = builder.finish()
print(compilation.report.steps[0].cache.name)
print(*sorted(sys.modules))
"""
#: What it needs none of if Android's operations accept the operands, and nothing is quantised.
_UNUSED_BY_COLD = (
    "asyncio",
    "pkgutil",
    "socket",
    "subprocess",
    "neurald.drivers.compiler.frontend",
    "neurald.drivers.compiler.lowering",
    "neurald.hal.compiling.pool",
    "neurald.hal.operations.arithmetic.farmhash",
    "neurald.hal.operations.arithmetic.gemmlowp",
    "neurald.hal.operations.tflite",
    "neurald.runtime.execution.program.compound_executor",
)

#: A start without a cache, until compiled code runs.
_OPTIMIZED_PROGRAM = """
import sys
import neurald as nd

builder = nd.CompilationBuilder(nd.load_tflite(sys.argv[1]))
builder.set_startup(nd.Startup.INSTANT)
compilation = builder.finish()
compilation.wait_until_optimized(60)
print(compilation.status.steps[0].tier.name)
print(*sorted(sys.modules))
"""
#: What an application needs none of whose models are compiled by another process: it would take
#: memory from then on.
_UNUSED_BY_OPTIMIZED = (
    "asyncio",
    "llvmlite.binding",
    "selectors",
    "socket",
    "subprocess",
    "neurald.drivers.compiler.lowering",
    "neurald.drivers.cpu.compiler",
)

#: What a model with open lengths needs none of until it is executed.
_UNUSED_BY_OPEN = (
    "numpy",
    "socket",
    "zlib",
    "llvmlite.binding",
    "neurald.drivers.compiler.lowering",
    "neurald.drivers.cpu.first_tier.first_tier",
    "neurald.drivers.cpu.first_tier.library",
    "neurald.drivers.cpu.native.objects.unit_queue",
    "neurald.hal.operations",
    "neurald.runtime.tflite.conversion.importer",
)

#: What a loop needs none of either.
_UNUSED_BY_LOOPS = (
    "neurald.drivers.compiler.frontend.graph_builder",
    "neurald.drivers.compiler.ir.builder",
    "neurald.drivers.compiler.ir.expression",
    "neurald.drivers.compiler.ir.extents.polynomial_extent",
    "neurald.drivers.compiler.ir.extents.scope",
    "neurald.drivers.compiler.ir.op",
    "neurald.drivers.compiler.lowering",
)

#: What a process that compiles does, before it answers.
_COMPILING_PROGRAM = """
import sys
from neurald.drivers.cpu.device import CpuDevice
from neurald.hal.compiling.spared_imports import spare_imports
from neurald.hal.device import PrepareOptions
from neurald.runtime.tflite import load_tflite

spare_imports()
device = CpuDevice()
device.get_ready_to_compile(lasts=False)
result = device.compile(load_tflite(sys.argv[1]), None, PrepareOptions())
print("COMPILED" if result.artifact else result.note)
print(*sorted(sys.modules))
"""
#: What small models without attention need none of.
_UNUSED_BY_COMPILING = (
    "concurrent.futures",
    "copy",
    "dataclasses",
    "neurald.drivers.compiler.passes.contraction.attention_merging",
)

#: A program of LiteRT, which uses NumPy itself.
_LITERT_PROGRAM = """
import sys
import numpy as np
known = set(sys.modules)
from neurald.litert import Interpreter

interpreter = Interpreter(sys.argv[1])
interpreter.allocate_tensors()
print(interpreter._main.compilation.report.steps[0].cache.name)
(details,) = interpreter.get_input_details()
interpreter.set_tensor(details["index"], np.ones((2, 3), np.float32))
interpreter.invoke()
print(*sorted(set(sys.modules) - known))
"""


def started(path: Path, folder: Path, program: str = _PROGRAM) -> tuple[str, set[str]]:
    """Returns what the cache did for a new process, and the modules that it has imported."""
    environment = {
        **os.environ,
        "PYTHONPATH": ":".join(sys.path),
        "XDG_CACHE_HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "NEURALD_AUTOSTART": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome, modules = done.stdout.splitlines()
    return outcome, set(modules.split())


def test_what_a_start_from_the_cache_imports(tmp_path: Path) -> None:
    model = TfliteModel()
    graph = model.subgraph()
    x, y, z = (graph.tensor((2, 3), name=name) for name in "xyz")
    graph.operator("TANH", (x,), (y,))
    graph.operator("ADD", (x, y), (z,), "AddOptions")
    graph.inputs, graph.outputs = (x,), (z,)
    path = model.write(tmp_path / "model.tflite")
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    time.sleep(3)  # Until the file is at rest.
    assert started(path, folder)[0] == "MISS"
    outcome, modules = started(path, folder)
    assert outcome == "HIT"
    assert modules.isdisjoint(_UNUSED), modules.intersection(_UNUSED)
    outcome, modules = started(path, folder, _LITERT_PROGRAM)
    assert outcome == "MISS", "the interpreter uses one thread"
    outcome, modules = started(path, folder, _LITERT_PROGRAM)
    assert outcome == "HIT"
    unused = {*_UNUSED, *_UNUSED_BY_LITERT} - {"neurald.runtime.tflite.file.schema"}
    assert modules.isdisjoint(unused), modules.intersection(unused)


def test_what_a_start_of_a_model_with_open_lengths_imports(tmp_path: Path) -> None:
    model = TfliteModel()
    graph = model.subgraph()
    x = graph.tensor((1, 3), name="x", shape_signature=(-1, 3))
    y = graph.tensor((1, 3), name="y", shape_signature=(-1, 3))
    graph.operator("TANH", (x,), (y,))
    graph.inputs, graph.outputs = (x,), (y,)
    path = model.write(tmp_path / "model.tflite")
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    time.sleep(3)  # Until the file is at rest.
    started(path, folder)
    _, modules = started(path, folder, _COLD_PROGRAM)
    assert "neurald.drivers.compiler.frontend.variants.shape_specialization" in modules
    assert modules.isdisjoint(_UNUSED_BY_OPEN), modules.intersection(_UNUSED_BY_OPEN)


def test_what_a_start_without_a_cache_imports(tmp_path: Path) -> None:
    model = TfliteModel()
    graph = model.subgraph()
    x, y, z = (graph.tensor((2, 3), name=name) for name in "xyz")
    shape, output = graph.tensor((1,), "INT32", data=[6]), graph.tensor((6,), name="output")
    graph.operator("TANH", (x,), (y,))
    graph.operator("ADD", (x, y), (z,), "AddOptions")
    graph.operator("RESHAPE", (z, shape), (output,))
    graph.inputs, graph.outputs = (x,), (output,)
    path = model.write(tmp_path / "model.tflite")
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    outcome, modules = started(path, folder, _COLD_PROGRAM)
    assert outcome != "HIT"
    assert modules.isdisjoint(_UNUSED_BY_COLD), modules.intersection(_UNUSED_BY_COLD)
    outcome, modules = started(path, folder, _OPTIMIZED_PROGRAM)
    assert outcome == "OPTIMIZED"
    assert modules.isdisjoint(_UNUSED_BY_OPTIMIZED), modules.intersection(_UNUSED_BY_OPTIMIZED)


def test_what_compiling_products_imports(tmp_path: Path) -> None:
    model = TfliteModel()
    graph = model.subgraph()
    values = [graph.tensor((2, 8), name=name) for name in "xyz"]
    for source, target in itertools.pairwise(values):
        weights = graph.tensor((8, 8), data=np.eye(8, dtype=np.float32))
        graph.operator("FULLY_CONNECTED", (source, weights, -1), (target,), "FullyConnectedOptions")
    graph.inputs, graph.outputs = values[:1], values[-1:]
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    outcome, modules = started(model.write(tmp_path / "model.tflite"), folder, _COMPILING_PROGRAM)
    assert outcome == "COMPILED"
    assert "neurald.drivers.cpu.kernels.gemm.gemm" in modules
    assert modules.isdisjoint(_UNUSED_BY_COMPILING), modules.intersection(_UNUSED_BY_COMPILING)


def test_what_a_start_with_a_loop_imports(tmp_path: Path) -> None:
    model = TfliteModel()
    graph, condition, body = (model.subgraph() for _ in range(3))
    source, result = graph.tensor((), name="x"), graph.tensor((), name="y")
    graph.operator("WHILE", (source,), (result,), "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    graph.inputs, graph.outputs = (source,), (result,)
    value, truth = condition.tensor(()), condition.tensor((), "BOOL")
    condition.operator("LESS", (value, condition.tensor((), data=9)), (truth,))
    condition.inputs, condition.outputs = (value,), (truth,)
    value, following = body.tensor(()), body.tensor(())
    body.operator("ADD", (value, body.tensor((), data=2)), (following,), "AddOptions")
    body.inputs, body.outputs = (value,), (following,)
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    outcome, modules = started(model.write(tmp_path / "model.tflite"), folder, _COLD_PROGRAM)
    assert outcome != "HIT"
    assert "neurald.drivers.compiler.frontend.control_flow.structuring" in modules
    assert modules.isdisjoint(_UNUSED_BY_LOOPS), modules.intersection(_UNUSED_BY_LOOPS)
