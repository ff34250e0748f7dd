"""CompiledFunction: calls a compiled model with arrays, by position or by name."""

import asyncio
import os
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, overload

import numpy as np

from neurald.hal.errors import BadData, BadState
from neurald.hal.wording import counted
from neurald.runtime.compilation import Compilation
from neurald.runtime.execution.background.stream import streamed, usual_depth
from neurald.runtime.execution.background.worker_pool import Lane
from neurald.runtime.explain.explanation import Explanation
from neurald.runtime.function.conversion import as_array, converted, dequantized, require_match
from neurald.runtime.function.signature_table import SignatureTable
from neurald.runtime.function.stoppable_call import StoppableCall
from neurald.runtime.function.summary import summary, summary_html
from neurald.runtime.function.tensor_info import TensorInfo, inputs_of, outputs_of
from neurald.runtime.partitioning.overrides import Override
from neurald.runtime.plan.status import CompilationStatus

if TYPE_CHECKING:
    # Most functions keep no receipts.
    from neurald.runtime.execution.measurement.receipt import ExecutionReceipt

#: Calls that take less time end soon enough by themselves. An execution that can be stopped takes
#: tens of microseconds more.
_SHORT_S: Final = 5e-3

Array: TypeAlias = np.ndarray[Any, Any]
Outputs: TypeAlias = list[Array] | dict[str, Array]


class CompiledFunction:
    """A compiled model that is called like a function. Thread-safe. `neurald.compile` creates it.

    Arrays given by position return a list. Arrays given by name, as keyword arguments or as one
    mapping, return a dictionary:

        (scores,) = classify(image)
        scores = classify(image=image)["scores"]
        scores = classify({"image": image})["scores"]

    Besides arrays, whatever NumPy can read is accepted: numbers, lists, objects with a buffer, and
    tensors of other libraries with DLPack's methods, whose memory is not copied.

    Args:
        compilation: the compiled model.
        signatures: the entry points of the model's file.
        name: the name for messages.
        converts: see `neurald.compile`.
        keeps_receipts: see `neurald.compile`.
        recipe: what pickles the function: a function and its arguments; None if it cannot be.
    """

    def __init__(
        self,
        compilation: Compilation,
        signatures: "SignatureTable[CompiledFunction]",
        name: str,
        *,
        converts: bool,
        keeps_receipts: bool,
        recipe: tuple[Any, tuple[Any, ...]] | None,
    ) -> None:
        self._compilation: Compilation | None = compilation
        self._signatures = signatures
        self._name = name
        self._converts = converts
        self._keeps_receipts = keeps_receipts
        self._last_receipt: ExecutionReceipt | None = None
        self._recipe = recipe
        self._inputs = inputs_of(compilation.model)
        self._outputs = outputs_of(compilation.model)
        self._positions = {info.name: position for position, info in enumerate(self._inputs)}
        self._lane = Lane()
        #: Whether the latest call in another thread was too short to be worth stopping.
        self._is_short = False

    # Calls.

    @overload
    def __call__(self, named: Mapping[str, Any], /) -> dict[str, Array]: ...

    @overload
    def __call__(self, *arrays: Any) -> list[Array]: ...

    @overload
    def __call__(self, **named: Any) -> dict[str, Array]: ...

    def __call__(self, *arrays: Any, **named: Any) -> Outputs:
        """Computes the outputs.

        Args:
            arrays: one for each input, in order; or one mapping from names to arrays.
            named: one array for each input, by name.

        Returns:
            A list of arrays; of named inputs a dictionary.

        Raises:
            BadData: inputs are missing, unknown, or of a wrong type or shape.
            BadState: the function is closed.
            Error: the execution failed.
        """
        return self._call(self.compilation, arrays, named)

    def _call(
        self,
        compilation: Compilation,
        arrays: tuple[Any, ...],
        named: dict[str, Any],
        call: StoppableCall | None = None,
    ) -> Outputs:
        is_named = bool(named) or (len(arrays) == 1 and isinstance(arrays[0], Mapping))
        values = self._by_name(arrays, named) if is_named else arrays
        if self._converts:
            self._require_count(values)
            inputs = [converted(each, info) for each, info in zip(values, self._inputs, strict=True)]
            computed = self._compute(compilation, inputs, call)
            results = [dequantized(each, info) for each, info in zip(computed, self._outputs, strict=True)]
        else:
            results = self._compute(compilation, [as_array(each) for each in values], call)
        if is_named:
            return {info.name: array for info, array in zip(self._outputs, results, strict=True)}
        return results

    def _by_name(self, arrays: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        given: Mapping[str, Any] = named or arrays[0]
        for name in given:
            if name not in self._positions:
                raise BadData(f"{self._name} has no input {name!r}; {self._names()}{self._remedy(name)}")
        if named and arrays:
            raise BadData("inputs are given by position and by name; give all of them one way")
        missing = [name for name in self._positions if name not in given]
        if missing:
            raise BadData(f"{self._name}: the inputs {missing} are not given; {self._names()}")
        return [given[info.name] for info in self._inputs]

    def _remedy(self, name: str) -> str:
        """Says which signature of the file has an input of this name, if one has."""
        found = [key for key, each in self.compilation.model.signatures.items() if name in each.inputs]
        return f". It is one of signature {found[0]!r}: compile with signature={found[0]!r}" if found else ""

    def _names(self) -> str:
        if not self._inputs:
            return "it has no inputs"
        are = "its input is" if len(self._inputs) == 1 else "its inputs are"
        return f"{are} {', '.join(repr(info.name) for info in self._inputs)}"

    def _compute(
        self, compilation: Compilation, inputs: Sequence[Any], call: StoppableCall | None
    ) -> list[Array]:
        try:
            if call is not None:
                return self._compute_stoppable(compilation, inputs, call)
            if not self._keeps_receipts:
                return compilation.run(*inputs)
            outputs, self._last_receipt = compilation.run_with_receipt(*inputs)
        except BadData as error:
            # The compilation knows numbers of inputs only, and callers their names.
            self._require_count(inputs)
            for value, info in zip(inputs, self._inputs, strict=True):
                require_match(value, info, error)
            raise
        return outputs

    def _compute_stoppable(
        self, compilation: Compilation, inputs: Sequence[Any], call: StoppableCall
    ) -> list[Array]:
        begun = time.perf_counter()
        if self._is_short and not self._keeps_receipts:
            outputs = compilation.run(*inputs)
        else:
            try:
                outputs, execution = compilation.run_stoppable(
                    inputs, call.begin, wants_receipt=self._keeps_receipts
                )
            finally:
                call.end()
            if self._keeps_receipts:
                self._last_receipt = execution.receipt
        self._is_short = time.perf_counter() - begun < _SHORT_S
        return outputs

    def _require_count(self, arrays: Sequence[Any]) -> None:
        if len(arrays) != len(self._inputs):
            raise BadData(
                f"{counted(len(arrays), 'input')} given; {self._name} has {len(self._inputs)}: {self._names()}"
            )

    @overload
    def submit(self, named: Mapping[str, Any], /) -> "Future[dict[str, Array]]": ...

    @overload
    def submit(self, *arrays: Any) -> "Future[list[Array]]": ...

    @overload
    def submit(self, **named: Any) -> "Future[dict[str, Array]]": ...

    def submit(self, *arrays: Any, **named: Any) -> "Future[Any]":
        """Begins a call in another thread, and returns its future. Arguments are as for a call.

        The call ends also if the function is closed meanwhile. `cancel` of the future also stops a
        call that runs, which then ends with `Cancelled`, unless calls take a few milliseconds.

        Args:
            arrays, named: the inputs, as for a call.

        Raises:
            BadState: the function is closed. Other errors are those of the future.
        """
        call = StoppableCall()
        return self._lane.submit(partial(self._call, self.compilation, arrays, named, call), call)

    @overload
    async def run_async(self, named: Mapping[str, Any], /) -> dict[str, Array]: ...

    @overload
    async def run_async(self, *arrays: Any) -> list[Array]: ...

    @overload
    async def run_async(self, **named: Any) -> dict[str, Array]: ...

    async def run_async(self, *arrays: Any, **named: Any) -> Any:
        """Computes the outputs without blocking the event loop. Arguments are as for a call.

        A coroutine that is cancelled, as by `asyncio.wait_for`, stops the call.

        Args:
            arrays, named: the inputs, as for a call.
        """
        return await asyncio.wrap_future(self.submit(*arrays, **named))

    @overload
    def stream(
        self, inputs: Iterable[Array | tuple[Any, ...]], depth: int | None = None
    ) -> Generator[list[Array], None, None]: ...

    @overload
    def stream(
        self, inputs: Iterable[Mapping[str, Any]], depth: int | None = None
    ) -> Generator[dict[str, Array], None, None]: ...

    @overload
    def stream(self, inputs: Iterable[Any], depth: int | None = None) -> Generator[Any, None, None]: ...

    def stream(self, inputs: Iterable[Any], depth: int | None = None) -> Generator[Any, None, None]:
        """Yields the outputs for a sequence of inputs, in order, with several calls at once.

        Inputs are taken from the iterable only as results are taken from the iterator.

        Args:
            inputs: for each call its arguments: a tuple of arrays, a mapping, or the only array.
            depth: number of calls at once, by default two for each device of the plan, and four at
                least; those of a model with variables run one after another.

        Raises:
            BadData: the depth is not in 1 to 1024. Errors of a call are raised where its outputs
                would be returned.
        """
        return streamed(
            lambda given: self(*(given if isinstance(given, tuple) else (given,))),
            inputs,
            usual_depth(self.compilation.plan) if depth is None else depth,
            is_ordered=bool(self.compilation.model.state),
        )

    # Descriptions.

    @property
    def compilation(self) -> Compilation:
        """The compilation, for what has no method here.

        Raises:
            BadState: the function is closed.
        """
        if self._compilation is None:
            raise BadState(f"{self._name} is closed; compile the model again")
        return self._compilation

    @property
    def inputs_info(self) -> tuple[TensorInfo, ...]:
        """The inputs, in order."""
        return self._inputs

    @property
    def outputs_info(self) -> tuple[TensorInfo, ...]:
        """The outputs, in order."""
        return self._outputs

    @property
    def signatures(self) -> Mapping[str, "CompiledFunction"]:
        """The functions of the file's signatures by name, each compiled when it is first used.

        They share the values of variables with this function. Empty for a model that does not come
        from a file.
        """
        return self._signatures

    @property
    def status(self) -> CompilationStatus:
        """The code that the steps run, and what is still compiled."""
        return self.compilation.status

    def wait_until_optimized(self, timeout: float | None = None) -> bool:
        """Waits until every step runs optimised code; see `Compilation.wait_until_optimized`.

        Args:
            timeout: how long to wait, in seconds; None for no limit.
        """
        return self.compilation.wait_until_optimized(timeout)

    @property
    def last_receipt(self) -> "ExecutionReceipt | None":
        """The receipt of the latest call: devices, drivers, kinds of code, durations, fallbacks.

        See `Execution.receipt`. None before the first call, and unless the function was compiled
        with `receipts=True`, since calls then take some microseconds more.
        """
        return self._last_receipt

    def explain(self, pin: Override | Sequence[Override] | None = None) -> Explanation:
        """Explains the device choice for every operation; see `Compilation.explain`.

        Args:
            pin: overrides to try, see `Compilation.explain`.
        """
        return self.compilation.explain(pin)

    def summary(self) -> str:
        """Describes inputs, outputs and steps in a few lines."""
        return summary(self._name, self.compilation, self._inputs, self._outputs)

    def __repr__(self) -> str:
        inputs = ", ".join(info.name for info in self._inputs)
        outputs = ", ".join(info.name for info in self._outputs)
        closed = ", closed" if self._compilation is None else ""
        return f"<{self._name}: ({inputs}) → ({outputs}){closed}>"

    def _repr_html_(self) -> str:
        return summary_html(self._name, self._compilation, self._inputs, self._outputs)

    # Lifetime.

    def close(self) -> None:
        """Releases the compiled model, also of the signatures; further calls fail."""
        self._compilation = None
        self._signatures.close()

    def __enter__(self) -> "CompiledFunction":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        if self._recipe is None:
            raise TypeError(
                f"{self._name} cannot be pickled: it was compiled for nd.Device objects, which belong to "
                "this process. Compile it for names of devices"
            )
        return self._recipe


def function_name(source: Any) -> str:
    """Returns what messages call the function of a model."""
    if isinstance(source, str | os.PathLike):
        return os.path.basename(os.fspath(source))  # noqa: PTH119 - of text, which need not be a path
    return "model"
