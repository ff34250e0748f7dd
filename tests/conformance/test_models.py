"""Real models with golden outputs, on the CPU device in this process and behind a socket."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.devices.places import in_places
from support.files.data import MODELS, NO_MODELS
from support.files.goldens import Goldens
from support.sweeps import sweep
from support.tiers import one_in

import neurald as nd

if MODELS is None:
    pytest.skip(NO_MODELS, allow_module_level=True)

GOLDENS = Goldens(MODELS)
BUNDLE = GOLDENS.bundle

#: ImageNet labels that are correct for the photograph of a case.
TRUE_LABELS = {
    "cat": ("tabby", "tiger cat", "Egyptian cat"),
    "grace_hopper": ("military uniform", "suit"),
    "bird": ("chickadee",),
    "parrot": ("macaw",),
}


# With an odd number, the cases of the tier `default` alternate between the places.
@pytest.mark.parametrize(
    ("name", "case", "device"), one_in(7, *in_places(GOLDENS.cases, GOLDENS.ids)), indirect=["device"]
)
def test_golden_outputs(
    name: str, case: Any, device: nd.Device, record_property: Callable[[str, object], None]
) -> None:
    GOLDENS.expect(name, case, device, record_property)


LABELLED = [
    (name, case, image)
    for name, case in GOLDENS.cases
    if "labels" in BUNDLE.models[name] and name.startswith("mobilenet")
    for image in [case.meta["steps"][0]["inputs"][0].get("image")]
    if image in TRUE_LABELS
]


@sweep(("name", "case", "image"), LABELLED, ids=[f"{n}-{i}" for n, _, i in LABELLED])
def test_photographs_get_their_true_label(name: str, case: Any, image: str) -> None:
    labels = (MODELS / BUNDLE.models[name]["labels"]).read_text().splitlines()
    model = nd.load_tflite(BUNDLE.model_path(name))
    (result,) = nd.CompilationBuilder(model).finish().run(*case.steps[0].inputs.values())
    label = labels[int(np.argmax(result))]
    assert any(word in label for word in TRUE_LABELS[image]), label
