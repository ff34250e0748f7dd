"""Models with unspecified shapes are compiled once for each set of shapes, with a bounded cache."""

import gc
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from support.opencl.models import FLOAT, Models, request_of
from support.waiting import wait_until

import neurald as nd
from neurald.drivers.compiler.frontend.variants import variant_uses
from neurald.drivers.compiler.frontend.variants.kept_variants import MAX_OPEN, OpenVariant
from neurald.drivers.compiler.frontend.variants.open_dimensions import with_shapes
from neurald.drivers.compiler.frontend.variants.shape_specialization import (
    FirstTierVariants,
    SpecializingModel,
)
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.compiling import leaving
from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.errors import BadData, Cancelled, MissedDeadlineTransient, OpFailed
from neurald.hal.model.model import Model
from neurald.hal.sync.cancellation import Cancellation

_Op = nd.OperationType


def open_model(rows: int = 0) -> Model:
    models = Models()
    source = models.input(FLOAT, (rows, 3))
    middle = models.add(_Op.ABS, [source], shape=(rows, 3))
    total = models.add(_Op.REDUCE_SUM, [middle, models.constant([0]), models.number(False)], shape=(0,))
    return models.finish(total)


class Compiler:
    """Prepares models on the CPU device, and counts them."""

    def __init__(self) -> None:
        self.shapes: list[Mapping[int, Shape]] = []
        self.cpu = nd.devices()[0]

    def __call__(self, model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions) -> Any:
        self.shapes.append(shapes)
        if any(13 in shape for shape in shapes.values()):
            raise BadData("13 rows are no good")
        return self.cpu.prepare_model(with_shapes(model, shapes), PrepareOptions())


def executed(prepared: SpecializingModel, rows: int) -> None:
    array = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3) - 4
    request, (result,) = request_of(open_model(), [array], [(3,)])
    assert prepared.execute(request, ExecuteOptions()).is_sufficient
    np.testing.assert_allclose(result, np.abs(array).sum(0))


def test_each_set_of_shapes_is_compiled_once_while_cached() -> None:
    compiler = Compiler()
    prepared = SpecializingModel(open_model(), compiler, owner=None, tolerant=False)
    for rows in (2, 5, 2, 5):
        executed(prepared, rows)
    (index,) = open_model().main.inputs
    assert compiler.shapes == [{index: (2, 3)}, {index: (5, 3)}]
    # Other shapes evict the least recently used variant.
    for rows in range(20, 27):
        executed(prepared, rows)
    executed(prepared, 5)
    assert len(compiler.shapes) == 9
    executed(prepared, 2)
    assert len(compiler.shapes) == 10


def test_the_first_tier_runs_until_the_model_is_compiled() -> None:
    compiler, first, may_compile = Compiler(), Compiler(), threading.Event()

    def compile_later(model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions) -> Any:
        assert may_compile.wait(60)
        return compiler(model, shapes, limits)

    prepared = SpecializingModel(
        open_model(), compile_later, owner=None, tolerant=False, first_tier=FirstTierVariants(bind=first)
    )
    for rows in (2, 5, 2, 5):
        executed(prepared, rows)
    (index,) = open_model().main.inputs
    assert first.shapes == [{index: (2, 3)}, {index: (5, 3)}]
    firsts = [prepared._variants.get(((rows, 3),))[0] for rows in (2, 5)]
    may_compile.set()
    end = time.monotonic() + 60
    while any(prepared._variants.get(((rows, 3),))[0] in firsts for rows in (2, 5)):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert compiler.shapes == first.shapes
    for rows in (2, 5):
        executed(prepared, rows)
    assert len(first.shapes) == 2
    with pytest.raises(OpFailed, match="13 rows are no good"):
        executed(prepared, 13)


def test_the_first_tier_stays_where_the_model_is_not_compiled() -> None:
    first, failed = Compiler(), threading.Event()

    def fail(model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions) -> Any:
        failed.set()
        raise BadData("there is no code")

    prepared = SpecializingModel(
        open_model(), fail, owner=None, tolerant=False, first_tier=FirstTierVariants(bind=first)
    )
    executed(prepared, 2)
    assert failed.wait(60)
    executed(prepared, 2)
    assert len(first.shapes) == 1


def test_shapes_that_are_not_compiled_yet_are_left_at_the_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest ones, once; what is compiled keeps nothing alive until then."""
    actions: list[Callable[[], None]] = []
    monkeypatch.setattr(leaving, "_actions", actions)
    monkeypatch.setenv(leaving.AFTER_EXIT_VARIABLE, "1")
    may_compile, compiler = threading.Semaphore(0), Compiler()
    left: list[Sequence[Mapping[int, Shape]]] = []

    def compile_later(model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions) -> Any:
        assert may_compile.acquire(timeout=60)
        return compiler(model, shapes, limits)

    def wait_until_nothing_is_left() -> None:
        end = time.monotonic() + 60
        while actions:
            assert time.monotonic() < end
            time.sleep(0.01)

    prepared = SpecializingModel(
        open_model(),
        compile_later,
        owner=None,
        tolerant=False,
        first_tier=FirstTierVariants(bind=Compiler(), leave=left.append),
    )
    for rows in range(2, 8):
        executed(prepared, rows)
    (leave,) = actions
    leave()
    (index,) = open_model().main.inputs
    assert left == [[{index: (rows, 3)} for rows in range(4, 8)]]
    may_compile.release(6)
    wait_until_nothing_is_left()
    executed(prepared, 8)
    assert len(actions) == 1
    may_compile.release()
    wait_until_nothing_is_left()
    assert len(compiler.shapes) == 7


@pytest.mark.parametrize(("limit_bytes", "kept"), [(1 << 20, 1), (-1, 0)])
def test_a_model_that_is_freed_before_it_is_compiled_keeps_little(
    monkeypatch: pytest.MonkeyPatch, limit_bytes: int, kept: int
) -> None:
    actions: list[Callable[[], None]] = []
    monkeypatch.setattr(leaving, "_actions", actions)
    monkeypatch.setattr(leaving, "_freed", [])
    monkeypatch.setattr(leaving, "_MAX_FREED_BYTES", limit_bytes)
    monkeypatch.setenv(leaving.AFTER_EXIT_VARIABLE, "1")

    def fail(model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions) -> Any:
        raise OpFailed("this cannot be compiled now")

    prepared = SpecializingModel(
        open_model(),
        fail,
        owner=None,
        tolerant=False,
        first_tier=FirstTierVariants(bind=Compiler(), leave=lambda shapes: None),
    )
    executed(prepared, 2)
    assert len(actions) == 1
    freed = weakref.ref(prepared)
    del prepared
    wait_until(lambda: gc.collect() is not None and freed() is None)
    assert len(actions) == kept


def test_reusable_executions_use_the_variant_for_their_shapes() -> None:
    prepared = SpecializingModel(open_model(), Compiler(), owner=None, tolerant=False)
    array = np.ones((4, 3), np.float32)
    request, (result,) = request_of(open_model(), [array], [(3,)])
    assert prepared.create_reusable_execution(request) is None
    prepared.execute(request, ExecuteOptions())
    again = prepared.create_reusable_execution(request)
    assert again is not None
    array[:] = -2
    again(Cancellation())
    np.testing.assert_array_equal(result, np.full(3, 8))


def test_invalid_shapes_fail_the_execution_and_are_not_cached() -> None:
    compiler = Compiler()
    prepared = SpecializingModel(open_model(), compiler, owner=None, tolerant=False)
    for _ in range(2):
        request, _ = request_of(open_model(), [np.zeros((13, 3), np.float32)], [(3,)])
        with pytest.raises(OpFailed, match=r"\[13, 3\].*no good"):
            prepared.execute(request, ExecuteOptions())
    assert len(compiler.shapes) == 2
    executed(prepared, 2)


def test_operands_artifact_and_profile() -> None:
    model = open_model()
    prepared = SpecializingModel(model, Compiler(), owner=None, tolerant=True)
    assert prepared.tolerates_changing_inputs
    assert prepared.artifact() is None
    assert prepared.operand(0, is_output=False).dimensions == (0, 3)
    assert prepared.operand(0, is_output=True).type is FLOAT
    for index, is_output in ((1, False), (-1, True)):
        with pytest.raises(BadData, match="the model has 1"):
            prepared.operand(index, is_output=is_output)


class Opened:
    """Supports some numbers of rows."""

    def __init__(self, rows: range) -> None:
        self.rows = rows
        self.cpu = nd.devices()[0]
        self.found: list[int] = []

    def for_shapes(self, shapes: Sequence[Shape | None]) -> Any:
        shape = shapes[0] or ()
        if shape[0] not in self.rows:
            return None
        self.found.append(shape[0])
        prepared: Any = self.cpu.prepare_model(open_model(shape[0]), PrepareOptions())
        return OpenVariant(prepared)

    def execute(self, shapes: Sequence[Shape | None], *arguments: Any) -> Any:
        return None


class OpenModels:
    """Opens models for ranges of rows, in order."""

    def __init__(self, *ranges: range | None) -> None:
        self.ranges = ranges
        self.examples: list[int] = []

    def get(self, number: int, examples: Iterable[Mapping[int, Shape]], limits: ExecuteOptions) -> Any:
        ((rows, _),) = next(iter(examples)).values()
        self.examples.append(rows)
        found = self.ranges[number]
        return None if found is None else Opened(found)

    def kept(self, number: int) -> Any:
        return None


def test_new_shapes_need_no_compilation_if_code_for_any_lengths_covers_them() -> None:
    compiler, open_models = Compiler(), OpenModels(range(2, 1000))
    prepared = SpecializingModel(open_model(), compiler, owner=None, tolerant=False, open_models=open_models)
    for rows in (40, 2, 999, 40, 3):
        executed(prepared, rows)
    assert compiler.shapes == []
    # The example is long enough to be usual, and a multiple of nothing.
    (example,) = open_models.examples
    assert example >= 64
    assert all(example % factor for factor in (2, 3, 5, 7))
    for rows in (1, 0):
        executed(prepared, rows)
    (index,) = open_model().main.inputs
    assert compiler.shapes == [{index: (1, 3)}, {index: (0, 3)}]


def test_shapes_that_no_open_model_covers_are_compiled() -> None:
    compiler, open_models = Compiler(), OpenModels(range(8, 100), range(2, 8), range(100, 300), None)
    prepared = SpecializingModel(open_model(), compiler, owner=None, tolerant=False, open_models=open_models)
    for rows in (9, 2, 3, 150, 299, 500, 600):
        executed(prepared, rows)
    assert [shape[0] for shapes in compiler.shapes for shape in shapes.values()] == [500, 600]
    assert open_models.examples[1:] == [2, 150, 500]


def test_a_model_that_cannot_be_opened_is_not_tried_again() -> None:
    compiler, open_models = Compiler(), OpenModels(None)
    prepared = SpecializingModel(open_model(), compiler, owner=None, tolerant=False, open_models=open_models)
    for rows in (9, 10, 11):
        executed(prepared, rows)
    assert len(open_models.examples) == 1
    assert len(compiler.shapes) == 3


def test_frequent_shapes_are_specialised_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variant_uses, "FREQUENT_USES", 4)
    compiler, specialised, done = Compiler(), Compiler(), threading.Event()

    def specialize(model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions) -> Any:
        assert threading.current_thread().daemon
        try:
            return specialised(model, shapes, limits)
        finally:
            done.set()

    prepared = SpecializingModel(
        open_model(),
        compiler,
        owner=None,
        tolerant=False,
        open_models=OpenModels(range(2, 1000)),
        specialize=specialize,
    )
    for _ in range(3):
        executed(prepared, 50)
        executed(prepared, 60)
    assert not specialised.shapes
    executed(prepared, 50)
    # The run that prepared the variant is the fifth.
    executed(prepared, 50)
    assert done.wait(60)
    for _ in range(10):
        executed(prepared, 50)
    (index,) = open_model().main.inputs
    assert specialised.shapes == [{index: (50, 3)}]
    assert compiler.shapes == []


def test_known_shapes_never_wait_for_a_compilation() -> None:
    begun, go = threading.Event(), threading.Event()
    compiler = Compiler()

    def slow(model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions) -> Any:
        if any(7 in shape for shape in shapes.values()):
            begun.set()
            assert go.wait(20)
        return compiler(model, shapes, limits)

    prepared = SpecializingModel(open_model(), slow, owner=None, tolerant=False)
    executed(prepared, 5)
    threads = [threading.Thread(target=executed, args=(prepared, 7)) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(60)
    executed(prepared, 5)
    executed(prepared, 6)
    # Executions with the same shapes wait, within their limits.
    array = np.ones((7, 3), np.float32)
    request, _ = request_of(open_model(), [array], [(3,)])
    # Long enough to begin before it has passed, also on a busy machine.
    with pytest.raises(MissedDeadlineTransient):
        prepared.execute(request, ExecuteOptions(deadline_s=time.monotonic() + 1.0))
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled):
        prepared.execute(request, ExecuteOptions(cancellation=cancellation))
    go.set()
    for thread in threads:
        thread.join(20)
    assert [shape[0] for shapes in compiler.shapes for shape in shapes.values()] == [5, 6, 7]


def test_requests_need_no_variant() -> None:
    class Executing(Opened):
        """Executes requests of short inputs by itself."""

        executed: int = 0

        def execute(self, shapes: Sequence[Shape | None], *arguments: Any) -> Any:
            if shapes[0] is None or shapes[0][0] >= 100:
                return None
            self.executed += 1
            prepared: Any = self.cpu.prepare_model(open_model(shapes[0][0]), PrepareOptions())
            return prepared.execute(*arguments)

    opened = Executing(range(2, 1000))

    class Models:
        def get(self, number: int, examples: Iterable[Mapping[int, Shape]], limits: ExecuteOptions) -> Any:
            return opened

        def kept(self, number: int) -> Any:
            return None

    prepared = SpecializingModel(open_model(), Compiler(), owner=None, tolerant=False, open_models=Models())
    executed(prepared, 40)
    opened.found.clear()  # the model was not open before
    for rows in (41, 42, 41, 43):
        executed(prepared, rows)
    assert (opened.executed, opened.found) == (4, [])
    executed(prepared, 200)
    assert prepared.profile()
    assert (opened.executed, opened.found) == (4, [200])
    # What is repeated or measured has one, as has what the model does not execute by itself.
    executed(prepared, 42)
    assert prepared.profile()
    prepared.create_short_execution(request_of(open_model(), [np.ones((43, 3), np.float32)], [(3,)])[0])
    assert opened.found == [200, 42, 43]
    for rows in (41, 42, 43):
        executed(prepared, rows)
    assert (opened.executed, opened.found) == (6, [200, 42, 43])


def test_a_thousand_lengths_in_random_order_keep_few_variants() -> None:
    compiler, opened = Compiler(), Opened(range(2, 2000))

    class Models:
        def get(self, number: int, examples: Iterable[Mapping[int, Shape]], limits: ExecuteOptions) -> Any:
            return opened

        def kept(self, number: int) -> Any:
            return None

    prepared = SpecializingModel(open_model(), compiler, owner=None, tolerant=False, open_models=Models())
    opened.for_shapes = lambda shapes: OpenVariant(Fake())  # type: ignore[method-assign,arg-type]
    chosen = random.Random(1)
    for _ in range(2000):
        prepared._variant(((chosen.randint(2, 1200), 3),), ExecuteOptions())
    assert len(prepared._variants) == MAX_OPEN
    assert compiler.shapes == []


class Fake:
    """Takes the place of a prepared model that is not executed."""
