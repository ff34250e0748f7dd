"""Models of modern architectures from current converters, with golden outputs."""

from collections.abc import Callable
from typing import Any

import pytest
from support.devices.places import in_places
from support.files.data import FRESH_MODELS, NO_FRESH_MODELS
from support.files.goldens import Goldens
from support.tiers import one_in

import neurald as nd

if FRESH_MODELS is None:
    pytest.skip(NO_FRESH_MODELS, allow_module_level=True)

GOLDENS = Goldens(FRESH_MODELS)


# With an odd number, the cases of the tier `default` alternate between the places.
@pytest.mark.parametrize(
    ("name", "case", "device"), one_in(7, *in_places(GOLDENS.cases, GOLDENS.ids)), indirect=["device"]
)
def test_golden_outputs(
    name: str, case: Any, device: nd.Device, record_property: Callable[[str, object], None]
) -> None:
    GOLDENS.expect(name, case, device, record_property)
