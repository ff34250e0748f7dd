"""Public objects in pickles, in copies and in consoles.

What belongs to a process is neither copied nor pickled, and says what to do instead.
"""

import copy
import os
import pickle
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.models.small import add_model
from support.tflite.litert_files import counter, sums, two_signatures

import neurald as nd
from neurald.hal.wording import counted
from neurald.runtime.plan.prepared_step import PreparationReport
from neurald.runtime.plan.report import CompilationReport

pytestmark = pytest.mark.quick

#: Longer texts fill a console.
MAX_SHOWN = 1000
#: Classes of which no object is made here, since they need a driver or a service in another
#: process.
ELSEWHERE = {"Device", "ServedModel", "Service"}
PROGRESS = nd.StepProgress(step=0, steps=1, device="cpu", share=0.5, elapsed_s=1.0)
X = np.ones((2, 3), np.float32)


@cache
def results() -> list[Any]:
    """Returns what public calls return: of each kind of object, one or a few."""
    builder = nd.CompilationBuilder(nd.load_tflite(sums().build()), nd.devices()[:1])
    builder.set_startup(nd.Startup.OPTIMIZED)
    open_shapes = builder.finish()
    open_shapes.run(X, X)
    fixed = nd.CompilationBuilder(add_model((2,)), nd.devices()[:1]).finish()
    function = nd.compile(sums().build(), receipts=True)
    with nd.trace() as trace:
        function(X, X)
    assert function.last_receipt is not None
    return [
        *(part for each in (open_shapes, fixed) for part in (each.report, each.status, each.explain())),
        *(open_shapes.explain(kernels=True), open_shapes.profile()),
        *(fixed.status.steps[0], fixed.model, nd.supported_operations(fixed.model, nd.devices()[:1])),
        *(function, function.last_receipt, function.inputs_info[0], function.summary()),
        *(trace.spans, nd.metrics(), nd.ModelBuilder(), nd.pin("cpu", [1]), nd.Partitioning()),
        *(nd.Verdict(ok=False, reason="why"), PROGRESS),
        *(member for kind in enumerations() for member in kind),
    ]


@cache
def processes_own() -> list[Any]:
    """Returns objects that own something of this process."""
    compilation = nd.CompilationBuilder(add_model((2,)), nd.devices()[:1]).finish()
    execution = nd.Execution(compilation)
    with nd.Burst(compilation) as burst, nd.trace() as trace:
        pass
    return [
        *(nd.CompilationBuilder(add_model((2,))), compilation, execution, burst, trace),
        *(compilation.state, compilation.plan, nd.compile(counter().build(), signature="add").signatures),
        *(
            nd.Memory.allocate(8),
            nd.MemoryDesc(),
            nd.Event(),
            nd.compile(two_signatures().build()).signatures,
        ),
        *(nd.open_device(name) for name in ("cpu", "reference")),
    ]


def kept(each: Any) -> Any:
    """Returns what of an object is the same in another process."""
    if isinstance(each, CompilationReport):
        return [
            getattr(step, name)
            for step in each.steps
            for name in PreparationReport.__struct_fields__
            if name != "variants"
        ]
    # Models, functions and builders are equal only to themselves.
    return repr(each) if isinstance(each, nd.Model | nd.CompiledFunction | nd.ModelBuilder) else each


def classes() -> list[type]:
    return [each for name in nd.__all__ if isinstance(each := getattr(nd, name), type)]


def enumerations() -> list[Any]:
    return [each for each in classes() if hasattr(each, "__members__")]


def errors() -> list[type[nd.Error]]:
    return [each for each in classes() if issubclass(each, nd.Error)]


def test_every_public_class_is_among_these() -> None:
    made = (*results(), *processes_own())
    missing = {
        each.__name__
        for each in classes()
        if each not in errors() and (each is nd.Device or not any(isinstance(one, each) for one in made))
    }
    assert missing == ELSEWHERE


@pytest.mark.parametrize("again", [lambda each: pickle.loads(pickle.dumps(each)), copy.copy, copy.deepcopy])
def test_results_can_be_pickled_and_copied(again: Callable[[Any], Any]) -> None:
    for each in results():
        found = again(each)
        assert type(found) is type(each)
        assert kept(found) == kept(each)
    for kind in errors():
        error = kind("what failed")
        found = again(error)
        assert (type(found), str(found), vars(found)) == (kind, "what failed", vars(error))


def test_pickled_reports_of_open_shapes_leave_out_what_belongs_to_the_process() -> None:
    (report,) = results()[0].steps
    assert report.variants is not None
    assert pickle.loads(pickle.dumps(report)).variants is None


def test_consoles_show_objects_in_a_few_lines() -> None:
    for each in (*results(), *processes_own()):
        if isinstance(each, str):
            continue
        shown = repr(each)
        assert len(shown) <= MAX_SHOWN * (len(each) if isinstance(each, tuple | dict) else 1), shown
        assert " at 0x" not in shown
        if hasattr(each, "_repr_html_"):
            assert each._repr_html_().startswith("<")


def test_every_public_object_that_owns_something_refuses() -> None:
    for each in processes_own():
        for refused in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=rf"of {type(each).__name__} can be neither copied nor "):
                refused(each)


def test_a_copied_builder_is_built_on_by_itself() -> None:
    builder = nd.ModelBuilder()
    builder.add_operand(nd.OperandType.INT32)
    copied = copy.copy(builder)
    copied.add_operand(nd.OperandType.INT32)
    for each, count in ((builder, 1), (copied, 2)):
        assert repr(each).startswith(f"<ModelBuilder of {counted(count, 'operand')} ")


def test_a_refused_copy_of_memory_closes_no_descriptor() -> None:
    memory = nd.Memory.allocate(8)
    with pytest.raises(TypeError, match=r"Memory\.copy copies its bytes"):
        copy.copy(memory)
    assert os.fstat(memory.fd).st_size == 8
    content = pickle.loads(pickle.dumps(bytes(memory.view())))
    assert np.frombuffer(content, np.uint8).tolist() == [0] * 8
