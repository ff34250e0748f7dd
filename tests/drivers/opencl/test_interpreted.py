"""Kernels of every form in oclgrind, which sees what a device would not tell: races, and accesses outside of buffers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[2]

_PROGRAM = """
from dataclasses import replace
import numpy as np
from support import opencl_sources
from support.compiler_graphs import random_array
from support.opencl_kernels import GRAPHS, kernels
from neurald.drivers.compiler.evaluate import evaluate
from neurald.drivers.opencl.kernels import candidates
from neurald.drivers.opencl.platform import DeviceContext, choose, discover
from neurald.drivers.opencl.render import render
from neurald.drivers.opencl.storage import Storage

facts = choose(discover())
assert "Oclgrind" in facts.name, facts.name
# Its compiler makes intrinsics of `restrict` that it does not run.
whole = opencl_sources.program_of
opencl_sources.program_of = lambda source: whole(source).replace("*restrict ", "*")
bench = opencl_sources.Bench(facts.handle)
with_images = DeviceContext(replace(facts, storage=Storage.IMAGE)).facts
assert with_images.images is not None
for name, make in GRAPHS.items():
    graph = make()
    inputs = [random_array(np.random.default_rng(0), value.shape, value.type) for value in graph.inputs]
    if name == "gathered":
        inputs[1] = np.array([5, 0, -3, 2, 1], np.int32)
    arrays = dict(zip(graph.inputs, inputs, strict=True))
    (expected,) = evaluate(graph, inputs)
    for kernel in kernels(graph):
        for source in (
            *candidates(kernel, facts, relaxed=False, has_workspace=True)[:2],
            *candidates(kernel, with_images, relaxed=False)[:1],
            render(kernel),
        ):
            result, status = bench.run(source, arrays)
            assert status == 0
            if kernel.output is graph.outputs[0]:
                found = result.astype(expected.dtype)
                assert np.allclose(found, expected, rtol=2e-3, atol=2e-3), (name, source.label)
        arrays[kernel.output] = result.astype(kernel.output.type.dtype)
    print(name)
"""


@pytest.mark.skipif(shutil.which("oclgrind") is None, reason="oclgrind is not installed")
def test_there_is_nothing_to_find(tmp_path: Path) -> None:
    path = os.pathsep.join((str(_TESTS), str(_TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")))
    log = tmp_path / "log"
    run = subprocess.run(
        ["oclgrind", "--data-races", "--log", str(log), sys.executable, "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": path, "NEURALD_OPENCL_DEVICE": "Oclgrind"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert not log.exists() or not log.read_text().strip()
    assert len(run.stdout.split()) >= 12
