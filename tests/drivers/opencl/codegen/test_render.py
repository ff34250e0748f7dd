"""The text of kernels does not change unintentionally, and computes what the graph says.

NEURALD_UPDATE_GOLDEN=1 rewrites the golden files instead of comparing with them.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.compiler.graphs import random_array
from support.opencl.kernels import GRAPHS, kernels
from support.opencl.sources import Bench
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import RequirementFailed, evaluate
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.codegen.render import arguments_of, render
from neurald.drivers.opencl.platform.discovery import DeviceContext

GOLDEN = Path(__file__).parents[1] / "golden"
UPDATE_VARIABLE = "NEURALD_UPDATE_GOLDEN"
_TESTS = Path(__file__).parents[3]

#: Renders everything in an order of its own, among other objects, and prints digests.
_PROGRAM = """
import hashlib, json, random, sys
from support.opencl.kernels import GRAPHS, kernels
from neurald.drivers.opencl.codegen.render import render
names, generator, kept = list(GRAPHS), random.Random(int(sys.argv[1])), []
generator.shuffle(names)
found = {}
for name in names:
    kept.append([object() for _ in range(generator.randrange(5000))][:: generator.randrange(1, 4)])
    text = "".join(render(kernel).text for kernel in kernels(GRAPHS[name]()))
    found[name] = hashlib.sha256(text.encode()).hexdigest()
print(json.dumps(found))
"""


def texts(name: str) -> str:
    return "".join(render(kernel).text for kernel in kernels(GRAPHS[name]()))


@sweep("name", GRAPHS)
def test_golden_texts(name: str) -> None:
    path = GOLDEN / f"{name}.cl"
    if os.environ.get(UPDATE_VARIABLE):
        path.write_text(texts(name))
    assert texts(name) == path.read_text(), f"{UPDATE_VARIABLE}=1 accepts the change"


def test_every_golden_file_has_a_kernel() -> None:
    assert {path.stem for path in GOLDEN.glob("*.cl")} == set(GRAPHS)


@sweep("seed", ["1", "2"])
def test_the_text_does_not_depend_on_process_or_order(seed: str) -> None:
    path = os.pathsep.join((str(_TESTS), str(_TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")))
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM, seed],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert json.loads(run.stdout) == {
        name: hashlib.sha256(texts(name).encode()).hexdigest() for name in GRAPHS
    }


@pytest.fixture(scope="session")
def bench(opencl: DeviceContext) -> Bench:
    return Bench(opencl.facts.handle)


def on_device(bench: Bench, graph: Graph, arrays: dict[Value, np.ndarray]) -> tuple[np.ndarray, int]:
    """Runs the kernels of a graph in order; returns its only output, and the last status that is
    not 0.
    """
    status = 0
    for kernel in kernels(graph):
        result, found = bench.run(render(kernel), arrays)
        arrays[kernel.output] = result.astype(kernel.output.type.dtype)
        status = found or status
    return arrays[graph.outputs[0]], status


@pytest.mark.parametrize("name", GRAPHS)
def test_kernels_compute_the_graph(bench: Bench, name: str) -> None:
    graph = GRAPHS[name]()
    generator = np.random.default_rng(0)
    inputs = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    arrays = dict(zip(graph.inputs, inputs, strict=True))
    if name == "gathered":
        wrong = {**arrays, graph.inputs[1]: np.full(5, 6, np.int32)}
        _, status = on_device(bench, graph, wrong)
        assert status == 1
        arrays[graph.inputs[1]] = inputs[1] = np.array([5, 0, -3, 2, 1], np.int32)
    result, status = on_device(bench, graph, arrays)
    assert status == 0
    (expected,) = evaluate(graph, inputs)
    if expected.dtype.kind == "f":
        tolerance = 2e-3 if expected.dtype == np.float16 else 1e-5
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(result, expected)


def test_the_interpreter_checks_requirements_too() -> None:
    graph = GRAPHS["gathered"]()
    with pytest.raises(RequirementFailed, match="not one of 6"):
        evaluate(graph, [np.zeros((6, 3), np.float32), np.full(5, 6, np.int32)])


def test_reductions_determine_the_shape_of_kernels() -> None:
    def of(name: str) -> Source:
        return render(kernels(GRAPHS[name]())[-1])

    assert (of("elementwise").label, of("elementwise").groups) == ("a work-item for each element", 1)
    assert (of("reduced").label, of("reduced").groups) == ("a work-group for each reduction", 3)
    assert (of("softmax").label, of("softmax").groups) == ("a work-group for each row", 3)
    assert (of("many_rows").label, of("many_rows").groups) == ("a work-item for each row", -(-2100 // 64))
    assert of("reduced").has_barriers
    assert of("reduced").scratch_bytes >= 4 * of("reduced").local_size
    assert not of("pooled").has_barriers


def test_parameters_name_the_stored_types() -> None:
    (kernel,) = kernels(GRAPHS["float16"]())
    assert [value.type.name for value in arguments_of(kernel)] == ["FLOAT16", "BOOL", "FLOAT16"]
    assert (
        "__global half *restrict a0, __global const uchar *restrict a1"
        in KernelArguments(arguments_of(kernel)).parameters
    )
