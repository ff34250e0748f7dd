"""The runners of a file's subgraphs, which share variables and devices."""

from collections.abc import Callable, Sequence

from neurald.hal.device import Device
from neurald.hal.model.types import Model
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.litert.model_source import ModelSource
from neurald.runtime.litert.subgraph_runner import SubgraphRunner


class RunnerTable:
    """Creates the runner of each subgraph when it is first needed.

    Args:
        source: the file.
        devices: returns the devices to use, when the first subgraph is compiled.
        threads: number of CPU threads; None to let the driver choose.
        keeps_all: keeps the results of all operators.
    """

    def __init__(
        self,
        source: ModelSource,
        devices: Callable[[], Sequence[Device]],
        threads: int | None,
        *,
        keeps_all: bool = False,
    ) -> None:
        self._source = source
        self._get_devices = devices
        self._devices: Sequence[Device] = ()
        self._threads = threads
        self._keeps_all = keeps_all
        self._runners: dict[int, SubgraphRunner] = {}

    def runner(self, subgraph: int) -> SubgraphRunner:
        """Returns the runner of a subgraph."""
        if subgraph not in self._runners:
            self._runners[subgraph] = SubgraphRunner(
                self._source.subgraphs[subgraph],
                self._source.data,
                lambda shapes: self._source.load(subgraph, shapes, keeps_all=self._keeps_all),
                self._compiled,
            )
        return self._runners[subgraph]

    @property
    def has_views(self) -> bool:
        """True if somebody holds a view of a tensor's memory."""
        return any(runner.has_views for runner in self._runners.values())

    def reset_variables(self) -> None:
        """Gives all variables their initial values."""
        for runner in self._runners.values():
            runner.reset_variables()

    def _compiled(self, model: Model, earlier: Compilation | None) -> Compilation:
        self._devices = self._devices or self._get_devices()
        builder = CompilationBuilder(model, self._devices, self._threads)
        others = (runner.compilation for runner in self._runners.values())
        shared = earlier or next((each for each in others if each is not None), None)
        if shared is not None and model.state:
            builder.share_state(shared)
        return builder.finish()
