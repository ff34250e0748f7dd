"""Traces show the kernels of steps."""

from support.traces.tracing import IMAGE, compiled, execution_of, names

import neurald as nd
from neurald.hal.device import COPY_IN, KernelTime
from neurald.runtime.tracing.kernel_spans import kernel_name


def test_kernels_are_inside_of_their_steps() -> None:
    device = nd.open_device("cpu")
    compilation = compiled(device)
    with nd.trace() as trace:
        compilation.run(IMAGE)
        compilation.run(IMAGE)
    kernels = [span for span in trace.spans if span.category == "kernel"]
    expected = sum(len(step.kernels) for step in compilation.profile())
    calls = {span.call for span in kernels}
    assert calls
    assert len(kernels) == expected * len(calls)
    for kernel in kernels:
        inside = [
            span
            for span in trace.spans
            if span.call == kernel.call and span.name == "step on cpu" and span.start_ns <= kernel.start_ns
        ]
        assert any(kernel.end_ns <= span.end_ns for span in inside)
        assert kernel.details["us_when_timed_alone"] > 0


def test_kernels_are_named_by_their_operations() -> None:
    compilation = compiled(nd.open_device("cpu"))
    operations = compilation.model.main.operations
    with nd.trace() as trace:
        compilation.run(IMAGE)
    kernels = [span for span in trace.spans if span.category == "kernel"]
    assert kernels
    for kernel in kernels:
        types = [operations[each].type.name for each in kernel.details["operations"]]
        assert kernel.name == ", ".join(dict.fromkeys(types))
        assert kernel.details["kernel"] != kernel.name


def test_names_of_kernels_are_short() -> None:
    types = ["CONV_2D", "RELU", "CONV_2D", "ADD", "MUL", "TANH", "EXP"]
    computes = KernelTime(name="k1", duration_ns=1, operations=tuple(range(7)))
    copies = KernelTime(name="k2", duration_ns=1, operations=(), label=COPY_IN)
    other = KernelTime(name="wait", duration_ns=1, operations=())
    assert kernel_name(computes, types) == "CONV_2D, RELU, ADD, MUL, 2 more"
    assert kernel_name(copies, []) == COPY_IN
    assert kernel_name(other, []) == "wait"


def test_kernels_of_executions_in_the_background() -> None:
    compilation = compiled(nd.open_device("cpu"))
    expected = sum(len(step.kernels) for step in compilation.profile())
    with nd.trace() as trace:
        for _ in range(10):
            execution_of(compilation, reusable=False).start_compute().wait()
    # A device may also have ended one before it returned from being asked to begin.
    stepped = {span.call for span in trace.spans if span.name == "step on cpu"}
    assert stepped
    for call in stepped:
        assert names((span for span in trace.spans if span.call == call), "kernel").total() == expected
