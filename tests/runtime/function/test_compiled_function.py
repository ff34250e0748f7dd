"""Calls of a compiled function, and how it describes itself."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.tflite.litert_files import sums, two_signatures

import neurald as nd

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
MASKED = np.ma.masked_equal(X, 5)


@pytest.fixture
def function() -> nd.CompiledFunction:
    return nd.compile(sums().build(), "cpu")


def test_arrays_by_position_or_name(function: nd.CompiledFunction) -> None:
    expected = X + 4
    by_position = function(X, np.ones((2, 3), np.float32))
    assert isinstance(by_position, list)
    np.testing.assert_array_equal(by_position[0], expected)
    for named in (
        function(y=np.ones((2, 3), np.float32), x=X),
        function({"x": X, "y": np.ones((2, 3), np.float32)}),
    ):
        assert isinstance(named, dict)
        np.testing.assert_array_equal(named["z"], expected)


def test_other_kinds_of_values(function: nd.CompiledFunction) -> None:
    class Tensor:
        """A tensor of another library."""

        def __dlpack__(self, **options: object) -> object:
            return X.__dlpack__(**options)  # type: ignore[arg-type]

        def __dlpack_device__(self) -> tuple[int, int]:
            return X.__dlpack_device__()

    class Elsewhere(Tensor):
        def __dlpack__(self, **options: object) -> object:
            raise BufferError("the tensor is in the memory of a GPU")

    for value in (X.tolist(), Tensor(), memoryview(X.data)):
        np.testing.assert_array_equal(function(value, X)[0], 2 * X + 3)
    with pytest.raises(nd.BadData, match="Elsewhere cannot be read"):
        function(Elsewhere(), X)


def test_wrong_calls(function: nd.CompiledFunction) -> None:
    for arguments, named, words in (
        ((X,), {}, "1 input given; model has 2: its inputs are 'x', 'y'"),
        ((X, X, X), {}, "3 inputs given; model has 2: its inputs are 'x', 'y'"),
        ((), {"x": X}, r"the inputs \['y'\] are not given; its inputs are 'x', 'y'"),
        ((), {"x": X, "y": X, "q": X}, "no input 'q'"),
        ((X,), {"y": X}, "by position and by name"),
        ((X, X), {"timeout": 3}, "no input 'timeout'"),
        ((X, X.tobytes()), {}, r"numpy.frombuffer\(data, numpy.float32\) makes one"),
        ((X, MASKED), {}, r"input 1 \('y'\) is an array with 1 masked element"),
        ((X, X.astype(np.float64)), {}, "input 'y' has type float32; an array of float64 is given"),
        ((X, X[:, :2]), {}, r"input 'y' has shape \[\?, 3\]; an array of shape \[2, 2\] is given"),
        ((), {"x": X[0], "y": X}, "input 'x' has shape"),
        ((X, X.reshape(1, 2, 3)), {}, "input 'y' has shape"),
        ((X, 3), {}, r"input 'y' has shape \[\?, 3\]; an array of shape \[\] is given"),
        ((X, "abc"), {}, "input 'y' is 'abc', which is not an array of float32"),
        ((X, [[1], [2, 3]]), {}, "input 'y' is .*, which is not an array of float32"),
    ):
        with pytest.raises(nd.BadData, match=words):
            function(*arguments, **named)
    for wrong in (None, object()):
        with pytest.raises(nd.WrongType, match=r"'y'.* is (None|<object)"):
            function(X, wrong)
        with pytest.raises(TypeError):
            function({"x": X, "y": wrong})
    converting = nd.compile(sums().build(), "cpu", convert=True)
    with pytest.raises(nd.BadData, match="input 'y' is an array with 1 masked element"):
        converting(X, MASKED)
    assert converting(X.astype(np.float64), X.astype(np.int64))[0].dtype == np.float32
    for values, words in (((X,), "1 input given"), ((np.array(["a"]), X), "cannot be converted")):
        with pytest.raises(nd.BadData, match=words):
            converting(*values)


def test_asynchronous_calls(function: nd.CompiledFunction) -> None:
    async def several() -> tuple[Any, ...]:
        return tuple(await asyncio.gather(*(function.run_async(X + i, X) for i in range(20))))

    for i, outputs in enumerate(asyncio.run(several())):
        np.testing.assert_array_equal(outputs[0], 2 * X + 3 + i)
    future = function.submit(x=X, y=X)
    np.testing.assert_array_equal(future.result(60)["z"], 2 * X + 3)
    with pytest.raises(nd.BadData):
        function.submit(X).result(60)


def test_a_stream_keeps_the_order_and_reads_ahead_no_further(function: nd.CompiledFunction) -> None:
    taken = 0

    def inputs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nonlocal taken
        for number in range(50):
            taken += 1
            yield X + number, X

    for number, outputs in enumerate(function.stream(inputs(), depth=3)):
        np.testing.assert_array_equal(outputs[0], 2 * X + 3 + number)
        assert taken <= number + 3
    named = list(function.stream([{"x": X, "y": X}] * 2))
    assert [list(each) for each in named] == [["z"], ["z"]]
    for depth in (0, 100_000):
        with pytest.raises(nd.BadData, match="the depth is"):
            function.stream([], depth)


def test_an_abandoned_stream(function: nd.CompiledFunction) -> None:
    stream = function.stream(((X, X) for _ in range(100)), depth=8)
    next(stream)
    stream.close()
    with pytest.raises(nd.BadData):
        list(function.stream([(X, X), (X,)]))


def test_threads_call_at_once(function: nd.CompiledFunction) -> None:
    wrong: list[int] = []

    def call(number: int) -> None:
        for _ in range(50):
            (found,) = function(X + number, X)
            if not (found == 2 * X + 3 + number).all():
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_it_says_of_itself(function: nd.CompiledFunction) -> None:
    assert repr(function) == "<model: (x, y) → (z)>"
    assert [info.name for info in function.inputs_info] == ["x", "y"]
    text = function.summary()
    assert "input  x: float32 ?×3" in text
    assert "2 operations on cpu" in text
    assert "<table>" in function._repr_html_()
    assert str(function.explain())


def test_receipts_on_request(function: nd.CompiledFunction) -> None:
    function(X, X)
    assert function.last_receipt is None
    audited = nd.compile(sums().build(), "cpu", receipts=True)
    assert audited.last_receipt is None
    np.testing.assert_array_equal(audited(X, X)[0], 2 * X + 3)
    receipt = audited.last_receipt
    assert receipt is not None
    assert [step.device for step in receipt.steps] == ["cpu"]
    assert audited.submit(X, X).result()
    assert audited.last_receipt is not receipt


def test_nothing_keeps_the_model_of_a_closed_function() -> None:
    function = nd.compile(two_signatures().build(), "cpu")
    models = [weakref.ref(each.compilation) for each in (function, function.signatures["double"])]
    function.close()
    gc.collect()
    assert [each() for each in models] == [None, None]


def test_a_closed_function() -> None:
    with nd.compile(two_signatures().build(), "cpu") as function:
        double = function.signatures["double"]
    for action in (lambda: function([1.0]), lambda: double(b=[1.0]), function.summary):
        with pytest.raises(nd.BadState, match="closed"):
            action()
    with pytest.raises(nd.BadState):
        function.signatures["add"]
    with pytest.raises(KeyError, match="no signature 'zz'; there are: 'add', 'double'"):
        function.signatures["zz"]
    assert "closed" in function._repr_html_()
    assert "closed" in repr(function)


def test_calls_that_have_begun_end_after_the_function_is_closed() -> None:
    with nd.compile(sums().build(), "cpu") as function:
        futures = [function.submit(X + number, X) for number in range(20)]
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(60)[0], 2 * X + 3 + number)
    with pytest.raises(nd.BadState, match="closed"):
        function.submit(X, X)


def test_names_of_signatures_are_told_where_they_are_used() -> None:
    function = nd.compile(two_signatures().build(), "cpu")
    name, signature = next(
        (name, key)
        for key, each in function.compilation.model.signatures.items()
        for name in each.inputs
        if name not in [info.name for info in function.inputs_info]
    )
    with pytest.raises(nd.BadData, match=f"no input {name!r}; .* compile with signature={signature!r}"):
        function({name: X})
