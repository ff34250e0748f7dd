"""A plan with its report, and the plan of a model that one device runs as a whole."""

from msgspec import Struct

from neurald.hal.device import Device
from neurald.hal.model.model import Model
from neurald.runtime.plan.plan import ExecutionPlan, ExecutionStep, SimpleBody
from neurald.runtime.plan.prepared_step import PreparedStep
from neurald.runtime.plan.report import CompilationReport


class PlanningResult(Struct, frozen=True, kw_only=True):
    """A plan and its report."""

    plan: ExecutionPlan
    report: CompilationReport


def whole_plan(
    model: Model, device: Device, prepared: PreparedStep, fallback: str = "", *, given: Model | None = None
) -> PlanningResult:
    """Returns the plan of a single step on one device.

    Args:
        model: a valid model.
        device: the device.
        prepared: what it has prepared.
        fallback: why the CPU device runs it, if it took over.
        given: what it has prepared it from, with the same main graph; by default the model itself.
    """
    outline = model.outline
    step = ExecutionStep(
        device=device,
        operations=outline.operations,
        model=model if given is None else given,
        prepared_model=prepared.prepared_model,
        is_first_tier=prepared.is_first_tier,
        inputs=outline.inputs,
        outputs=outline.outputs,
    )
    report = CompilationReport(steps=(prepared.report,), fallback=fallback)
    return PlanningResult(plan=ExecutionPlan(model, SimpleBody(step=step)), report=report)
