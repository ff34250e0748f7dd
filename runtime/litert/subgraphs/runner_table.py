"""The runners of a file's subgraphs, which share variables and devices."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from neurald.hal.device import MAX_THREADS, Device
from neurald.hal.model.model import Model
from neurald.hal.records import replace
from neurald.runtime.compilation import Compilation
from neurald.runtime.compilation_builder import CompilationBuilder
from neurald.runtime.litert.subgraphs.initialization import Initialization
from neurald.runtime.litert.subgraphs.model_source import ModelSource
from neurald.runtime.litert.subgraphs.subgraph_runner import SubgraphRunner
from neurald.runtime.plan.startup import default_startup
from neurald.runtime.tflite.graph.state import shown_key, tensor_key
from neurald.runtime.tflite.kept.stored_entry import Entry


class RunnerTable:
    """Creates the runner of each subgraph when it is first needed.

    Args:
        source: the file.
        devices: returns the devices to use, when the first subgraph is compiled.
        threads: number of CPU threads; None to let the driver choose.
        keeps_all: keeps the results of all operators.
        starts_at_once: runs the first tier until there is optimised code, unless the environment
            says otherwise.
    """

    def __init__(
        self,
        source: ModelSource,
        devices: Callable[[], Sequence[Device]],
        threads: int | None,
        *,
        keeps_all: bool = False,
        starts_at_once: bool = False,
    ) -> None:
        self._starts_at_once = starts_at_once
        self._source = source
        self._get_devices = devices
        self._devices: Sequence[Device] = ()
        self._threads = threads
        self._keeps_all = keeps_all
        self._initialization = Initialization(source.subgraphs)
        self._runners: dict[int, SubgraphRunner] = {}
        self._keeping: RunnerTable | None = None
        #: The runs that were repeated to get the results inside of the model, by subgraph.
        self._repeated: dict[int, int] = {}

    def runner(self, subgraph: int) -> SubgraphRunner:
        """Returns the runner of a subgraph."""
        if subgraph not in self._runners:
            self._runners[subgraph] = SubgraphRunner(
                self._source.subgraphs[subgraph],
                self._source.data,
                partial(self._load, subgraph, keeps_all=self._keeps_all),
                partial(self._load, subgraph, keeps_all=True),
                self._compiled,
                lambda other, tensor: self._source.subgraphs[other].tensors[tensor].name,
                partial(self._initialization.begin, subgraph),
            )
        return self._runners[subgraph]

    def _load(
        self, subgraph: int, shapes: Mapping[int, Sequence[int]], trusts_file: bool, *, keeps_all: bool
    ) -> Entry:
        return self._source.load(subgraph, shapes, keeps_all=keeps_all, trusts_file=trusts_file)

    def view(self, subgraph: int, tensor: int) -> np.ndarray[Any, Any]:
        """Returns a view of a tensor's memory; see `SubgraphRunner.view` and `value`.

        Raises:
            ValueError: there is no such tensor, or it has no value.
            RuntimeError: the run cannot be repeated.
        """
        runner = self.runner(subgraph)
        if not self._keeps_all and runner.can_recompute(tensor):
            runner.keep(tensor, np.asarray(self.value(subgraph, tensor)))
        return runner.view(tensor)

    def value(self, subgraph: int, tensor: int) -> np.ndarray[Any, Any]:
        """Returns a copy of the value of a tensor, also of one inside of a composite operator.

        The last run is repeated for results inside of the model that were not kept.

        Raises:
            ValueError: there is no such tensor, or it has no value.
            RuntimeError: the run cannot be repeated.
        """
        for each in self._runners.values():
            found = each.inserted(subgraph, tensor)
            if found is not None:
                return found
        runner = self.runner(subgraph)
        if self._keeps_all or not runner.can_recompute(tensor):
            return runner.get(tensor)
        keeping = self.keeping_all().runner(subgraph)
        if self._repeated.get(subgraph) != runner.run_count:
            keeping.repeat(runner)
            self._repeated[subgraph] = runner.run_count
        return keeping.get(tensor)

    def keeping_all(self) -> "RunnerTable":
        """Returns a table of the same file that keeps the results of all operators.

        Its variables are its own.
        """
        if self._keeps_all:
            return self
        if self._keeping is None:
            self._keeping = RunnerTable(
                self._source,
                self._get_devices,
                self._threads,
                keeps_all=True,
                starts_at_once=self._starts_at_once,
            )
        return self._keeping

    def set_threads(self, count: int) -> None:
        """Sets the number of threads of what is prepared from now on: one for less than one.

        More than a device can have are as many as it can have.
        """
        self._threads = min(max(count, 1), MAX_THREADS)
        if self._keeping is not None:
            self._keeping.set_threads(count)

    @property
    def has_views(self) -> bool:
        """True if something holds a view of a tensor's memory."""
        return any(runner.has_views for runner in self._runners.values())

    def reset_variables(self) -> None:
        """Gives variable tensors their initial values; resources keep theirs, as in LiteRT."""
        names = {
            shown_key(tensor_key(subgraph.index, tensor.index))
            for subgraph in self._source.subgraphs
            for tensor in subgraph.tensors
            if tensor.is_variable
        }
        for runner in self._runners.values():
            runner.reset_variables(names)

    def _compiled(self, model: Model, earlier: Compilation | None) -> Compilation:
        self._devices = self._devices or self._get_devices()
        others = (runner.compilation for runner in self._runners.values())
        shared = earlier or next((each for each in others if each is not None), None)
        if shared is not None and model.state:
            # The first run gives variables the values of this model, if they are others.
            model = replace(model, state=shared.state.as_declared(model.state))
        builder = CompilationBuilder(model, self._devices, self._threads)
        if self._starts_at_once:
            builder.set_startup(default_startup(has_explicit_devices=False))
        if shared is not None and model.state:
            builder.share_state(shared)
        return builder.finish()
