"""The sample driver and a faulty one that keep no record of the models that they prepare."""

from support.devices import faulty, misbehaving

from neurald.hal.device import PreparedModel, PrepareOptions
from neurald.hal.model.model import Model


class SampleDevice(misbehaving.SampleDevice):
    """The sample driver, without a record of prepared models."""

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        prepared = super().prepare_model(model, options)
        self.prepared.clear()
        return prepared


class Faulty(faulty.Faulty):
    """The same with faulty executions."""

    def prepare_model(self, model: Model, options: PrepareOptions) -> PreparedModel:  # type: ignore[override]
        prepared = super().prepare_model(model, options)
        self.prepared.clear()
        return prepared
