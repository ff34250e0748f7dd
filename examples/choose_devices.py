"""Shows on which devices the operations of a model run and why, and overrides the choice."""

import sys
from pathlib import Path

import neurald as nd
import neurald.service.demo


def placement(compilation: nd.Compilation) -> str:
    """Names the device of each step and how many operations it has."""
    return ", ".join(f"{step.device.name}: {len(step.operations)}" for step in compilation.plan.steps)


def main(path: str) -> None:
    """Prints the placement with and without rules.

    Args:
        path: of a `.tflite` file.
    """
    model = nd.load_tflite(path)
    for device in nd.devices():
        verdicts = nd.supported_operations(model, [device])[device.name]
        supported = sum(each.ok for each in verdicts)
        print(f"{device.name} ({device.type.name}) supports {supported} of {len(verdicts)} operations")

    compilation = nd.CompilationBuilder(model).finish()
    print("by default:", placement(compilation))
    print(compilation.explain())

    # A sample device, which runs operations on their references, represents an accelerator.
    accelerator = nd.open_device("sample-all")
    builder = nd.CompilationBuilder(model, devices=[accelerator, *nd.devices()])
    rules = (
        nd.pin(accelerator.name, range(2)),
        nd.forbid(accelerator.name, operation_type=nd.OperationType.SOFTMAX),
    )
    builder.set_partitioning(nd.Partitioning(overrides=rules))
    print("with rules:", placement(builder.finish()))


if __name__ == "__main__":
    demo = Path(neurald.service.demo.__file__).with_name("digits.tflite")
    main(sys.argv[1] if len(sys.argv) > 1 else str(demo))
