"""Kernels of every form in Oclgrind, which detects races and accesses outside of buffers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.sweeps import sweep

_TESTS = Path(__file__).parents[2]

_PROGRAM = """
import numpy as np
from support.opencl import sources
from support.compiler.graphs import random_array
from support.opencl.kernels import GRAPHS, kernels
from neurald.hal.records import replace
from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.opencl.kernels.select import candidates
from neurald.drivers.opencl.platform.discovery import DeviceContext, choose, discover
from neurald.drivers.opencl.codegen.render import render
from neurald.drivers.opencl.platform.storage import Storage

facts = choose(discover())
assert "Oclgrind" in facts.name, facts.name
# Its compiler makes intrinsics of `restrict` that it does not run.
whole = sources.program_of
sources.program_of = lambda source: whole(source).replace("*restrict ", "*")
bench = sources.Bench(facts.handle)
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


#: Blocks of layers as one kernel on tensor cores, whose instructions C stands for; those whose
#: groups take no part in the same sums, since oclgrind does not see that one counts the others
#: before it reads theirs.
_BLOCKS = """
import numpy as np
import neurald as nd
from support.opencl.blocks import FLOAT, INT8, UINT8, Block, precision_of, sources_of, taken
from support.opencl.models import prepared_from, random_inputs, run
from support.opencl.warps import with_tensor_cores, without_warps
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.platform.discovery import DeviceContext, choose, discover
from neurald.hal.device import PrepareOptions

opencl = DeviceContext(choose(discover()))
facts = with_tensor_cores(opencl.facts)
for block in (
    Block(height=4, width=3, wide=12, outputs=20, type=INT8),
    Block(height=4, width=4, channels=16, wide=32, stride=2, type=UINT8),
    Block(height=3, width=3, channels=32, has_expand=False, type=INT8, per_channel=True),
    Block(height=4, width=3, wide=12, outputs=20, relaxed=True),
    Block(height=4, width=3, wide=12, outputs=20),
):
    model = block.model()
    number = next(
        number for number, source in enumerate(sources_of(block, facts))
        if "tensor cores" in source.label and not source.workspace_bytes
    )
    compiled = compile_model(
        model, {}, facts, precision=precision_of(block),
        choose=lambda kernels, chains: taken(block, kernels, chains, number),
    )
    # Its compiler makes intrinsics of `restrict` that it does not run.
    text = without_warps(compiled.executable.text).replace("*restrict ", "*")
    inputs = random_inputs(model)
    (expected,) = run(nd.devices()[0].prepare_model(model, PrepareOptions()), model, inputs)
    (found,) = run(prepared_from(opencl, compiled, text), model, inputs)
    assert np.allclose(found, expected, atol=4e-3 * np.abs(expected).max() if block.type is FLOAT else 0)
    print(block.type.name)
"""


@pytest.mark.skipif(shutil.which("oclgrind") is None, reason="oclgrind is not installed")
@sweep(("program", "count"), [(_PROGRAM, 12), (_BLOCKS, 5)], ids=["kernels", "blocks"])
def test_no_races_or_invalid_accesses(tmp_path: Path, program: str, count: int) -> None:
    path = os.pathsep.join((str(_TESTS), str(_TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")))
    log = tmp_path / "log"
    run = subprocess.run(
        [
            "oclgrind",
            "--data-races",
            "--local-mem-size",
            "65536",
            "--log",
            str(log),
            sys.executable,
            "-c",
            program,
        ],
        env={**os.environ, "PYTHONPATH": path, "NEURALD_OPENCL_DEVICE": "Oclgrind"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert not log.exists() or not log.read_text().strip()
    assert len(run.stdout.split()) >= count
