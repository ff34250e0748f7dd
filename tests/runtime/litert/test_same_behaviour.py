"""Every call of LiteRT's Interpreter beside ai-edge-litert's: results, exceptions and messages."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.tflite.builder import TfliteModel
from support.tflite.litert_files import counter, sums, texts, two_signatures
from support.tflite.same import assert_same

import neurald.litert

theirs = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
#: What LiteRT's messages have that no other package can say, or nobody should.
INNER = (".cc", "incompatible function arguments", "ERROR: [", "'NoneType' object has no attribute")
MIN_WORDS = 12  # Characters of LiteRT's words that a message has to begin with.


@dataclass(frozen=True)
class Raised:
    """An exception of a call."""

    kind: str
    message: str


class Session:
    """An interpreter of one of the two packages, and what its calls returned.

    Args:
        module: the package's module.
        file: the model.
        options: of the interpreter.
    """

    def __init__(self, module: ModuleType, file: TfliteModel, **options: Any) -> None:
        self.module = module
        self.outcomes: list[tuple[str, Any]] = []
        options.setdefault("model_content", file.build())
        kind = options.pop("kind", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
        options["experimental_op_resolver_type"] = module.OpResolverType[kind]
        self.interpreter = module.Interpreter(**options)

    def do(self, name: str, *arguments: Any, on: Any = None, **named: Any) -> Any:
        """Calls a method, and records its result or exception."""
        called = getattr(self.interpreter if on is None else on, name)
        return self.record(name, lambda: called(*arguments, **named))

    def record(self, name: str, call: Callable[[], Any]) -> Any:
        """Records the result or exception of a call."""
        try:
            result = call()
        except Exception as error:
            self.outcomes.append((name, Raised(type(error).__name__, str(error))))
            return None
        self.outcomes.append((name, plain(result)))
        return result


def assert_same_outcome(found: tuple[str, Any], expected: tuple[str, Any]) -> None:
    """Asserts that two calls had the same result, or the same kind of exception and its message."""
    name, result = expected
    is_error = isinstance(result, Raised)
    assert isinstance(found[1], Raised) == is_error, f"{name}: {found[1]}; {result} is expected"
    if not is_error:
        assert_same(found[1], result, name)
        return
    assert found[1].kind == result.kind, f"{name}: {found[1]}; {result} is expected"
    assert says_the_same(found[1].message, result.message), f"{name}: {found[1]}; {result} is expected"


def says_the_same(found: str, expected: str) -> bool:
    """Returns True if a message begins with LiteRT's words; a reason may follow.

    LiteRT's messages also have those of earlier calls: an interpreter's in front, a compiled
    model's behind, by lines.
    """
    if any(each in expected for each in INNER) or expected.endswith(found):
        return True
    lines = zip(found.split("\n└ "), expected.split("\n└ "), strict=False)
    if all(one.startswith(other) for one, other in lines):
        return True
    return any(found.startswith(expected[start:]) for start in range(len(expected) - MIN_WORDS))


def plain(result: Any) -> Any:
    """Returns a result in a form that can be compared."""
    if isinstance(result, np.ndarray):
        return result.copy()
    return result if isinstance(result, dict | list | tuple | int | str | None) else type(result).__name__


def usual(session: Session) -> None:
    session.do("get_input_details")
    session.do("get_output_details")
    session.do("get_tensor_details")
    session.do("num_subgraphs")
    session.do("get_signature_list")
    session.do("_get_full_signature_list")
    session.do("_get_ops_details")
    session.record("native", lambda: session.interpreter._interpreter.GetSignatureDefs())
    for key in ("zz", "", *session.interpreter.get_signature_list()):
        session.do("GetSubgraphIndexFromSignature", key, on=session.interpreter._interpreter)
    session.do("allocate_tensors")
    session.do("allocate_tensors")
    details = session.interpreter.get_input_details()
    for each in details:
        session.do("set_tensor", each["index"], np.full(each["shape"], 2, np.float32))
        session.do("set_tensor", each["index"], X)
    session.do("invoke")
    for each in (*details, *session.interpreter.get_output_details()):
        session.do("get_tensor", each["index"])
    session.do("reset_all_variables")
    session.do("get_tensor", session.interpreter.get_output_details()[0]["index"])


def without_allocation(session: Session) -> None:
    session.do("invoke")
    session.do("get_tensor", 0)
    session.do("get_tensor", len(session.interpreter.get_tensor_details()) - 1)
    session.do("set_tensor", 0, X)
    session.do("allocate_tensors")
    session.do("invoke")
    session.do("resize_tensor_input", 0, [4, 3])
    session.do("invoke")
    session.do("get_input_details")
    session.do("get_tensor", 0)
    session.do("set_tensor", 0, np.zeros((4, 3), np.float32))


def wrong_values(session: Session) -> None:
    session.do("allocate_tensors")
    details = session.interpreter.get_input_details()[0]
    session.do("set_tensor", 0, np.ones(details["shape"], np.float32))
    for value in (
        X.astype(np.float64),
        X.astype(np.float16),
        X.astype(np.int32),
        X.astype(np.complex64),
        X > 1,
        X[0],
        X[:1],
        np.zeros((2, 4), np.float32),
        np.zeros((2, 3, 1), np.float32),
        np.float32(1),
        np.zeros((0, 3), np.float32),
        X.T.copy().T,
        X[:, ::-1],
        X.tolist(),
        1.5,
        "text",
        None,
        [[1], [2, 3]],
    ):
        session.do("set_tensor", 0, value)
        session.do("get_tensor", 0)


def wrong_numbers(session: Session) -> None:
    session.do("allocate_tensors")
    for index in (-1, 5, 99, 2**31):
        session.do("set_tensor", index, X)
        session.do("get_tensor", index)
        session.do("resize_tensor_input", index, [2, 3])
        session.do("_get_tensor_details", index, 0)
    for index in (-1, 7):
        session.do("get_tensor_details", index)
        session.do("get_tensor", 0, index)
    for index in (-1, 2, 9):
        session.do("_get_op_details", index)
    session.do("set_tensor", "x", X)
    session.do("resize_tensor_input", "x", 3)
    session.do("resize_tensor_input", 0, 3, [])
    session.do("get_tensor", "x")
    session.do("get_tensor")
    session.do("set_tensor", 0)
    session.do("tensor")


def converted_numbers(session: Session) -> None:
    session.do("allocate_tensors")
    for index in (np.float32(0.5), np.array(0), np.uint8(0), False, 0.0, np.float64(0), None, [0], b"0", 1j):
        session.do(
            "set_tensor", index, np.ones(session.interpreter.get_input_details()[0]["shape"], np.float32)
        )
        for call, arguments in (
            ("get_tensor", (index,)),
            ("get_tensor", (0, index)),
            ("get_tensor", (index, -1)),
            ("_get_op_details", (index,)),
            ("get_tensor_details", (index,)),
        ):
            # LiteRT's own text of these is Python's.
            if call != "get_tensor_details" or isinstance(index, bool | float):
                session.do(call, *arguments)
    shape = session.interpreter.get_input_details()[0]["shape"]
    flags: tuple[Any, ...] = (None, 1, 0.0, np.bool_(True), "x", [])
    for strict in flags:
        session.do("resize_tensor_input", 0, shape, strict)


def resizes_that_fail(session: Session) -> None:
    first = session.interpreter.get_input_details()[0]["shape"]
    constants = [4] if len(session.interpreter.get_input_details()) == 2 else []
    for index, shape in ((0, [-1] * len(first)), *((index, [2]) for index in constants)):
        session.do("allocate_tensors")
        for each in session.interpreter.get_input_details():
            session.do("set_tensor", each["index"], np.ones(each["shape"], np.float32))
        session.do("invoke")
        session.do("resize_tensor_input", index, shape)
        session.record("ready", lambda: session.interpreter.invoke())


def resizing(session: Session) -> None:
    for shape in ([4, 3], (1, 3), np.array([2, 3]), [3], [1, 2, 3], [], [0, 3], [-1, 3], 3, [2.0, 3.0]):
        rank = len(session.interpreter.get_tensor_details()[0]["shape_signature"])
        # LiteRT reads past the end of the declared shape if the rank has changed.
        for strict in (False, True) if np.size(shape) == rank else (False,):
            session.do("resize_tensor_input", 0, shape, strict)
            session.record("shape", lambda: session.interpreter.get_input_details()[0]["shape"])
    session.do("resize_tensor_input", 0, [5, 3])
    session.do("resize_tensor_input", 1, [5, 3], strict=True)
    session.do("allocate_tensors")
    session.record("shape", lambda: session.interpreter.get_output_details()[0]["shape"])
    session.do("set_tensor", 0, np.ones((5, 3), np.float32))
    session.do("set_tensor", 1, np.ones((5, 3), np.float32))
    session.do("invoke")
    session.do("get_tensor", session.interpreter.get_output_details()[0]["index"])


def views(session: Session) -> None:
    output = session.interpreter.get_output_details()[0]["index"]
    session.record("early view", lambda: session.interpreter.tensor(0)())
    session.do("allocate_tensors")
    get = session.interpreter.tensor(0)
    get().fill(2)
    session.do("set_tensor", 1, X)
    session.do("invoke")
    session.record("view", lambda: session.interpreter.tensor(output)())
    session.do("invoke")
    view = get()
    for name, arguments in (
        ("invoke", ()),
        ("allocate_tensors", ()),
        ("resize_tensor_input", (0, [4, 3])),
        ("set_tensor", (0, X)),
        ("get_tensor", (0,)),
        ("reset_all_variables", ()),
        ("get_input_details", ()),
    ):
        session.do(name, *arguments)
    part = view[:1]
    del view
    session.do("invoke")
    session.record("value", part.copy)
    session.outcomes.append(("writable", part.flags.writeable))
    del part
    session.do("invoke")
    session.record("safe", lambda: session.interpreter._safe_to_run())
    session.record("constant", lambda: session.interpreter.tensor(4)())
    session.record("wrong", lambda: session.interpreter.tensor(99)())


def signatures(session: Session) -> None:
    session.do("get_signature_list")
    session.do("get_signature_runner")
    session.do("get_signature_runner", "zz")
    for key in session.interpreter.get_signature_list():
        runner = session.interpreter.get_signature_runner(key)
        session.do("get_input_details", on=runner)
        session.do("get_output_details", on=runner)
        names = list(runner.get_input_details())
        for given in (
            {},
            dict.fromkeys(names, X),
            {**dict.fromkeys(names, X), "more": X},
            {("q" if name == names[0] else name): X for name in names},
            dict.fromkeys(names, 1.0),
            {name: X.astype(np.float64) for name in names},
            dict.fromkeys(names, X[:1]),
            dict.fromkeys(names, X[0]),
        ):
            session.do("__call__", on=runner, **given)
        session.do("get_input_details", on=runner)


def results_resized(session: Session) -> None:
    """LiteRT lets results be resized, too, until the next allocation."""
    for allocates in (False, True):
        if allocates:
            session.do("allocate_tensors")
        for index, shape in ((3, [2, 3]), (3, [5, 7]), (2, [4]), (3, [6, 6, 6])):
            session.do("resize_tensor_input", index, shape)
            session.do("get_tensor_details")
            session.do("invoke")
    session.do("get_tensor", 3)


def without_elements(session: Session) -> None:
    """Tensors without elements need no memory."""
    inputs = [each["index"] for each in session.interpreter.get_input_details()]
    output = session.interpreter.get_output_details()[0]["index"]
    for allocates in (False, True):
        if allocates:
            session.do("allocate_tensors")
        for index in inputs:
            session.do("resize_tensor_input", index, [0, 3])
            session.do("get_tensor", index)
            view = session.interpreter.tensor(index)
            session.record("view", view)
            session.do("set_tensor", index, X[:0])
            session.do("set_tensor", index, X[:1])
            session.do("set_tensor", index, X[:0].astype(np.int32))
        session.do("invoke")
        session.do("allocate_tensors")
        session.do("get_tensor", output)
        for index in inputs:
            session.do("set_tensor", index, X[:0])
        session.do("invoke")
        session.do("get_tensor", output)
        session.do("resize_tensor_input", output, [3, 0])
        session.do("get_tensor", output)
        session.do("set_tensor", output, X[:, :0].T.copy().T)
        session.do("set_tensor", output, np.zeros((3, 0), np.float32))


def results_inside(session: Session) -> None:
    """Results of operators that are no outputs have shapes and memory, too."""
    rows = 4
    for shape in ([rows, 3], [2, 3]):
        for index in (0, 1):
            session.do("resize_tensor_input", index, shape)
        session.do("get_tensor_details")
        session.do("allocate_tensors")
        session.do("get_tensor_details")
        value = np.full(shape, 7, np.float32)
        for index in (0, 1):
            session.do("set_tensor", index, value)
        session.do("set_tensor", 2, value)
        session.do("get_tensor", 2)
        session.do("set_tensor", 2, value[:1])
        session.do("set_tensor", 2, value.astype(np.int32))
        session.do("invoke")
        session.do("get_tensor", 2)
        session.record("view", lambda: session.interpreter.tensor(2)())
        session.do("set_tensor", 2, value)
        session.do("get_tensor", 2)
        session.do("invoke")
        session.do("get_tensor", 2)
        view = session.interpreter.tensor(2)()
        session.do("invoke")
        del view
    session.do("resize_tensor_input", 0, [2**20] * 4)
    session.do("resize_tensor_input", 0, [2**31 - 1, 2**31 - 1, 2])
    session.do("invoke")
    session.do("get_input_details")


def strings(session: Session) -> None:
    """Strings bring their own memory. LiteRT crashes where they have none."""
    for length in (4, 2, 3):
        session.do("set_tensor", 0, np.array([b"x", b"yy", b"", b"z"], object)[:length])
        session.do("get_tensor", 0)
        session.do("invoke")
        session.do("allocate_tensors")
        session.do("get_tensor", 0)
        session.do("invoke")
        session.do("get_tensor", session.interpreter.get_output_details()[0]["index"])
        session.do("set_tensor", 0, np.array(["a", "b", "c", "d"])[:length])
        session.do("set_tensor", 0, np.array([b"a"], object))
        session.do("set_tensor", 0, ["a", "b", "c", "d"][:length])
        session.do("set_tensor", 0, (b"a",) * length)
        session.do("get_tensor", 0)
        session.do("resize_tensor_input", 0, [{4: 2, 2: 3, 3: 3}[length]])
        session.do("get_input_details")


FILES = {"sums": sums, "open sums": lambda: sums(None), "two signatures": two_signatures, "counter": counter}


STEPS = (
    usual,
    without_allocation,
    wrong_values,
    wrong_numbers,
    converted_numbers,
    resizes_that_fail,
    resizing,
    results_resized,
    without_elements,
    views,
    signatures,
)
#: A variable keeps its rank in neurald; in LiteRT the values that are assigned to it determine it.
DIFFERENT = {("counter", each) for each in (resizing, results_resized, without_elements, signatures)}


@pytest.mark.parametrize(
    ("name", "steps"),
    [(name, steps) for name in FILES for steps in STEPS if (name, steps) not in DIFFERENT],
)
def test_calls_behave_the_same(name: str, steps: Callable[[Session], None]) -> None:
    assert_same_steps(FILES[name], steps)


@pytest.mark.parametrize("kind", ["BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"])
@pytest.mark.parametrize("name", ["sums", "open sums"])
def test_results_inside_behave_the_same(name: str, kind: str) -> None:
    assert_same_steps(FILES[name], results_inside, kind=kind)


@pytest.mark.parametrize("kind", ["BUILTIN_REF", "BUILTIN"])
def test_calls_with_strings_behave_the_same(kind: str) -> None:
    assert_same_steps(texts, strings, kind=kind)


def assert_same_steps(
    file: Callable[[], TfliteModel], steps: Callable[[Session], None], **options: Any
) -> None:
    sessions = []
    for module in (neurald.litert, theirs):
        sessions.append(Session(module, file(), **options))
        steps(sessions[-1])
    for ours, expected in zip(sessions[0].outcomes, sessions[1].outcomes, strict=True):
        assert_same_outcome(ours, expected)


def opened(module: ModuleType, group: str | None, **named: Any) -> int:
    """Opens a model with a group's options, or all options; returns its number of signatures."""
    if group is not None:
        named = {
            {"CpuOptions": "cpu_options", "GpuOptions": "gpu_options"}[group]: getattr(module, group)(**named)
        }
    model = module.CompiledModel.from_buffer(sums().build(), options=module.Options(**named))
    number: int = model.get_num_signatures()
    return number


def compiled_model(module: ModuleType) -> list[Any]:
    """Calls everything of CompiledModel; returns results and exceptions."""
    model = module.CompiledModel.from_buffer(two_signatures().build())
    outcomes: list[Any] = []

    def do(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            result = call(*arguments, **named)
        except Exception as error:
            outcomes.append((call.__name__, Raised(type(error).__name__, str(error))))
            return None
        outcomes.append((call.__name__, plain(result)))
        return result

    do(model.get_signature_list)
    do(model.get_num_signatures)
    do(model.is_fully_accelerated)
    for key in ("add", "double", "zz", ""):
        do(model.get_signature_index, key)
        do(model.get_input_tensor_details, key)
        do(model.get_output_tensor_details, key)
        for name in ("a", "q"):
            do(model.create_input_buffer_by_name, key, name)
            do(model.create_output_buffer_by_name, key, name)
    for index in range(2):
        do(model.get_signature_by_index, index)
        for position in (0, 1):
            do(model.get_input_buffer_requirements, position, index)
            do(model.get_output_buffer_requirements, position, index)
    for key in ("add", "zz"):
        for name in ("a", "q"):
            do(model.resize_input_tensor_by_name, key, name, [5])
    for index in range(2):
        for shape in ([4], [4, 3], [-4]):
            do(model.resize_input_tensor, 0, shape, index)
        do(model.resize_input_tensor, 7, [4], index)
        inputs, outputs = model.create_input_buffers(index), model.create_output_buffers(index)
        for buffer in (*inputs, *outputs):
            do(buffer.get_tensor_details)
        for value in (np.ones(4, np.float32), np.ones(9, np.float32), np.ones(4), np.arange(4), [1.0], None):
            do(inputs[0].write, value)
        do(model.run_by_index, index, inputs, outputs)
        do(model.run_by_index, index, [], outputs)
        do(model.run_by_index, index, inputs, [])
        for count, dtype in ((4, np.float32), (9, np.float32), (-1, np.float32), (4, np.int64), (2, "text")):
            do(outputs[0].read, count, dtype)
    for number in (np.float32(0), np.array(0), True, 0.0, None, "0", [0]):
        do(lambda number: len(model.create_input_buffers(number)), number)
        do(lambda number: len(model.create_output_buffers(number)), number)
        do(model.get_input_buffer_requirements, number)
        do(model.get_output_buffer_requirements, 0, number)
        do(model.resize_input_tensor, number, [4])
        do(model.resize_input_tensor, 0, [number])
        do(model.resize_input_tensor, 0, number)
        do(model.run_by_index, number, number, [])
        do(model.run_by_index, 0, [number], number)
    for dims in ([], [0], [-1], "4", [4.0], np.array([4])):
        do(model.resize_input_tensor, 0, dims, 0, False)
    for wrong in (b"add", bytearray(b"double"), None, 0, b"zz"):
        do(model.get_signature_index, wrong)
        do(model.get_output_tensor_details, wrong)
        do(model.create_input_buffer_by_name, wrong, "zz")
        do(model.create_input_buffer_by_name, "zz", wrong)
        do(model.resize_input_tensor_by_name, wrong, "a", [4])
        do(model.run_by_name, wrong, {}, {})
        do(model.run_by_name, "double", {"b": wrong}, {})
    do(model.run_by_name, "double", {"b": inputs[0], "q": inputs[0]}, {"w": outputs[0], "q": inputs[0]})
    do(model.run_by_name, "double", {"b": inputs[0]}, {})
    for length in (1.5, "x", None, True, np.float32(1)):
        do(outputs[0].read, length, np.float32)
    inputs[0].write(np.full(4, 3, np.float32))
    do(model.run_by_name, "double", {"b": inputs[0]}, {"w": outputs[0]})
    do(outputs[0].read, 4, np.float32)
    do(model.run_by_name, "zz", {}, {})
    for array in (X[0], X.T, X[:, ::2], [1], X.astype(np.int64), X > 1):
        do(module.TensorBuffer.create_from_host_memory, array)
    do(outputs[0].write, np.zeros(4, ">f4"))
    do(module.TensorBuffer.create_from_host_memory, np.zeros(4, ">f4"))
    buffer = module.TensorBuffer.create_from_host_memory
    for count in (5, 1, 0):
        # The inputs of this file take any length, so that they get that of the buffer.
        result = buffer(np.zeros(5, np.float32))
        do(model.run_by_name, "double", {"b": buffer(np.ones(count, np.float32))}, {"w": result})
        do(result.read, 5, np.float32)
        do(model.get_input_tensor_details, "double")
        do(model.get_output_tensor_details, "double")
    do(buffer(np.zeros((2, 3), np.float32)).get_tensor_details)
    do(model.run_by_name, "double", {0: inputs[0]}, {})
    do(model.run_by_name, "double", {"b": inputs[0]}, {None: inputs[0]})
    for input_name in ([0], np.array(0), 3, None):
        do(model.resize_input_tensor_by_name, "add", input_name, [4])
    do(inputs[0].destroy)
    do(lambda: inputs[0].capsule)
    do(inputs[0].get_tensor_details)
    do(inputs[0].write, X)
    do(inputs[0].read, 2, np.float32)
    do(module.CompiledModel.from_file, "nothing.tflite")
    do(module.CompiledModel.from_buffer, b"abc")
    do(module.CompiledModel.from_buffer, b"abc", module.HardwareAccelerator.CPU, options=module.Options())
    do(module.Environment.create, options="a", runtime_path="b")
    do(module.Environment.create, options=3)
    do(module.Environment.create, runtime_path=3)
    do(module.Environment.create, compiler_plugin_path=3)
    do(module.CompiledModel.from_file, "")
    do(module.CompiledModel.from_file, 3)
    do(module.Environment.create, options=module.EnvironmentOptions(), compiler_plugin_path="b")
    do(lambda: module.Environment.create(runtime_path=0).options is None)
    for setting in (0, -1, 1.0, 7, 2**31, "2", None, [0], np.array([0, 1]), np.float32(1), True, "1"):
        for group, name in (
            ("CpuOptions", "num_threads"),
            ("CpuOptions", "kernel_mode"),
            ("CpuOptions", "xnnpack_flags"),
            ("CpuOptions", "xnnpack_weight_cache_path"),
            ("GpuOptions", "benchmark_mode"),
        ):
            do(opened, module, group, **{name: setting})
        if not isinstance(setting, int) or setting != 7:  # There is no GPU.
            do(opened, module, None, hardware_accelerators=setting)
        do(opened, module, None, cpu_options=setting)
    options = module.Options()
    do(lambda: dict(options._as_flat_kwargs()))
    for name in ("cpu_options", "gpu_options", "qualcomm_options", "intel_openvino_options"):
        do(lambda name: getattr(options, name)._as_flat_kwargs(), name)
    do(lambda: [each.default for each in dataclasses.fields(module.Options)][1:])
    do(lambda: list(module.CpuKernelMode.__members__))
    model.close()
    do(model.close)
    for name, arguments in (
        ("get_signature_list", ()),
        ("get_num_signatures", ()),
        ("get_signature_by_index", (0,)),
        ("is_fully_accelerated", ()),
        ("create_input_buffers", (0,)),
        ("resize_input_tensor", (0, [4])),
        ("run_by_index", (0, [], [])),
    ):
        do(getattr(model, name), *arguments)
    return outcomes


def test_compiled_models_behave_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = pytest.importorskip("ai_edge_litert.compiled_model")
    # LiteRT writes its caches of weights to the paths that options name, such as "2".
    monkeypatch.chdir(tmp_path)
    for ours, expected in zip(compiled_model(neurald.litert), compiled_model(package), strict=True):
        assert_same_outcome(ours, expected)
