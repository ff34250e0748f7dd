"""Describes a compiled model in a few lines of text, or as HTML for notebooks."""

import html
from collections.abc import Sequence

from neurald.hal.wording import counted
from neurald.runtime.compilation import Compilation
from neurald.runtime.function.tensor_info import TensorInfo


def summary(
    name: str, compilation: Compilation, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]
) -> str:
    """Returns a text: the inputs and outputs, and which device runs how many operations."""
    lines = [name]
    lines += [f"  input  {info}" for info in inputs]
    lines += [f"  output {info}" for info in outputs]
    lines += [f"  {line}" for line in _steps(compilation)]
    return "\n".join(lines)


def summary_html(
    name: str, compilation: Compilation | None, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]
) -> str:
    """Returns the same as a table of HTML. Without a compilation, the function is closed."""
    rows = [("input", str(info)) for info in inputs] + [("output", str(info)) for info in outputs]
    rows += [("runs", line) for line in (["closed"] if compilation is None else _steps(compilation))]
    cells = "".join(
        f"<tr><th style='text-align:left'>{kind}</th><td style='text-align:left'>{html.escape(text)}</td></tr>"
        for kind, text in rows
    )
    return f"<table><caption>{html.escape(name)}</caption>{cells}</table>"


def _steps(compilation: Compilation) -> list[str]:
    steps, states = compilation.plan.steps, compilation.status.steps
    lines = []
    for step, state in zip(steps, states, strict=True):
        text = f"step {state.step}: {counted(len(step.operations), 'operation')} on {state.device}"
        if state.is_pending:
            text += f", for now by a first tier on {state.runs_on}"
        elif state.reason:
            text += f", but by a first tier on {state.runs_on}: {state.reason}"
        lines.append(text)
    return lines
