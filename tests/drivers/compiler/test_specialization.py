"""Models with unspecified dimensions, compiled for each set of shapes that comes."""

import numpy as np
from support.addition import addition, request
from support.interpreted import InterpretedDevice, InterpretedModel

from neurald.drivers.compiler.specialization import SpecializingModel
from neurald.hal.device import ExecuteOptions, KernelTime, PrepareOptions


def test_the_profile_is_that_of_the_shapes_that_came_last() -> None:
    profiles: list[InterpretedModel] = []

    class Device(InterpretedDevice):
        def _interpreted(self, model, shapes):  # type: ignore[no-untyped-def]
            profiles.append(super()._interpreted(model, shapes))
            number = len(profiles)
            told = (KernelTime(name=f"variant {number}", duration_ns=number, operations=(0,)),)
            profiles[-1].profile = lambda: told  # type: ignore[method-assign]
            return profiles[-1]

    constant = np.ones((1, 3), np.float32)
    prepared = Device().prepare_model(addition(constant, dynamic=True), PrepareOptions())
    assert isinstance(prepared, SpecializingModel)
    assert prepared.profile() == ()
    for rows, variant in ((2, 1), (4, 2), (2, 1)):
        values = np.zeros((rows, 3), np.float32)
        prepared.execute(request(values, values.copy()), ExecuteOptions())
        assert [kernel.name for kernel in prepared.profile()] == [f"variant {variant}"]
