"""The optional interface of devices that can run a model before its code is compiled."""

from typing import Protocol

from neurald.hal.device import Device, PreparedModel, PrepareOptions
from neurald.hal.model.model import Model


class HasFirstTier(Protocol):
    """An optional interface of a device whose compiler takes far longer than binding ready code."""

    def prepare_first_tier(self, model: Model, options: PrepareOptions) -> PreparedModel | None:
        """Prepares a model at once, for executions until `Device.prepare_model` has compiled it.

        What it computes with integers has the same bits as in compiled code.

        Args:
            model: the device supports each of its operations.
            options: as for `Device.prepare_model`.

        Returns:
            The prepared model; None if `Device.prepare_model` is as fast.

        Raises:
            MissedDeadlinePersistent: the deadline has passed.
        """
        ...


def first_tier(device: Device, model: Model, options: PrepareOptions) -> PreparedModel | None:
    """Calls `prepare_first_tier`; returns None also for a device without it."""
    prepare = getattr(device, "prepare_first_tier", None)
    if prepare is None:
        return None
    prepared: PreparedModel | None = prepare(model, options)
    return prepared
