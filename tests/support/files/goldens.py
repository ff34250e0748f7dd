"""Models with recorded inputs and outputs; see the README of each of their folders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from support.cpu.compiled_share import tell_compiled
from support.files.data import load_module

import neurald as nd


class Goldens:
    """The models of one folder.

    Args:
        folder: with `manifest.json`, and the module that reads it.
    """

    def __init__(self, folder: Path) -> None:
        self.bundle: Any = load_module(folder / "golden_io.py").Bundle(str(folder))
        #: Model and case, for all cases of all models.
        self.cases: list[tuple[str, Any]] = [
            (name, case) for name in self.bundle.names() for case in self.bundle.cases(name)
        ]
        #: Their names in tests.
        self.ids = [f"{name}-{case.name}" for name, case in self.cases]

    def expect(
        self, name: str, case: Any, device: nd.Device, record_property: Callable[[str, object], None]
    ) -> None:
        """Runs a case on a device; asserts that all outputs match the recorded ones."""
        model = nd.load_tflite(self.bundle.model_path(name), signature=case.signature)
        compilation = nd.CompilationBuilder(model, [device]).finish()
        for step in case.steps:
            results = compilation.run(*step.inputs.values())
            for expected, result in zip(step.outputs, results, strict=True):
                ok, why = expected.check(result)
                assert ok, why
                meta = expected.meta
                if case.name.startswith("real") and "top1_ref" in meta:
                    assert int(np.argmax(result)) in (meta["top1_ref"], meta["top1_default"])
        if device is nd.devices()[0]:
            tell_compiled(compilation, record_property)
