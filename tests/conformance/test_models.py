"""Real models with golden outputs, on the CPU device in process and behind a socket."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.compiled_share import tell_compiled
from support.data import MODELS, NO_MODELS, load_module

import neurald as nd

if MODELS is None:
    pytest.skip(NO_MODELS, allow_module_level=True)

BUNDLE = load_module(MODELS / "golden_io.py").Bundle(str(MODELS))

#: What the photograph of a case shows, as ImageNet classifiers may call it.
TRUE_LABELS = {
    "cat": ("tabby", "tiger cat", "Egyptian cat"),
    "grace_hopper": ("military uniform", "suit"),
    "bird": ("chickadee",),
    "parrot": ("macaw",),
}

CASES = [(name, case) for name in BUNDLE.names() for case in BUNDLE.cases(name)]


@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{n}-{c.name}" for n, c in CASES])
def test_golden_outputs(
    name: str, case: Any, device: nd.Device, record_property: Callable[[str, object], None]
) -> None:
    model = nd.load_tflite(BUNDLE.model_path(name), signature=case.signature)
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


LABELLED = [
    (name, case, image)
    for name, case in CASES
    if "labels" in BUNDLE.models[name] and name.startswith("mobilenet")
    for image in [case.meta["steps"][0]["inputs"][0].get("image")]
    if image in TRUE_LABELS
]


@pytest.mark.parametrize(("name", "case", "image"), LABELLED, ids=[f"{n}-{i}" for n, _, i in LABELLED])
def test_photographs_get_their_true_label(name: str, case: Any, image: str) -> None:
    labels = (MODELS / BUNDLE.models[name]["labels"]).read_text().splitlines()
    model = nd.load_tflite(BUNDLE.model_path(name))
    (result,) = nd.CompilationBuilder(model).finish().run(*case.steps[0].inputs.values())
    label = labels[int(np.argmax(result))]
    assert any(word in label for word in TRUE_LABELS[image]), label
