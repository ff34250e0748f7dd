"""Functions that ask devices."""

from collections.abc import Sequence

import numpy as np
import pytest
from support.models.addition import AddingDevice, addition

from neurald.hal.device import Verdict, require_supported
from neurald.hal.errors import BadData
from neurald.hal.types import Model


class Refusing(AddingDevice):
    """A device that refuses all operations."""

    def supported_operations(self, model: Model) -> Sequence[Verdict]:
        return (Verdict(ok=False, reason="ADD of ones"),) * 6


def test_a_refused_model_names_the_device_and_the_first_reasons() -> None:
    model = addition(np.ones(2))
    require_supported(AddingDevice(), model)
    reasons = "; ".join(["ADD of ones"] * 4)
    with pytest.raises(BadData, match=f"^{Refusing().name}: {reasons}; and 2 more$"):
        require_supported(Refusing(), model)
