"""Calls of native code as functions of Python, with neither Python frames nor ctypes in between.

CPython's C API makes function objects of native functions. `python_call.ll` has three: one runs a
step on memory that it is bound to, one on memory that its argument names, and one on arrays, for
which it returns new arrays. A call of the first takes about as long as one of `len()`.

The functions belong to the step program, which is compiled without knowledge of the interpreter.
They find CPython's and NumPy's functions in a table, and read arrays as extension modules do: the
layouts of `PyObject` and `PyArrayObject` are parts of binary interfaces. `python_table` checks
them. Arrays of strings consist of the addresses of `bytes` objects. These become a source of the
step's strings, see `neurald.drivers.cpu.target.string_sources`; outputs refer to the same objects.
With another implementation, or without a GIL, calls are made by ctypes instead.

A function keeps the GIL if its step is so short that releasing it would cost more than it gains.
No other Python thread runs in the meantime, so that nothing else has to be locked, and nothing can
cancel the call. Functions that release the GIL use memory that the caller has for itself.

The inputs and outputs of a step are its *ports*. A call moves the arguments of the step's records
to the memory of each port, if it is aligned; otherwise the step uses the arena, and the call
copies.

Layouts (in 64-bit words):

    table     see `_TABLE`
    call      see `CALL_WORDS`; an array, which is the function's `__self__`
    binding   for each input and then each output: its address, and 1 if it must be copied
    port      see `_PORT`
"""

import ctypes
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, TypeAlias

from msgspec import Struct

from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.drivers.cpu.target.string_sources import (
    OBJECT_TYPE,
    STRING_BYTES,
    STRING_LENGTH,
    string_access_text,
)
from neurald.hal.lazy_numpy import Array as Array
from neurald.hal.lazy_numpy import np

#: An array of 64-bit integers.
Words: TypeAlias = Array
#: Runs a step on arrays; see `StepCall.on_arrays`.
ArrayFunction: TypeAlias = Callable[..., list[Array] | None]

#: The native functions of this module; Python calls all but the first.
_RUN_CALL, _CALL_BOUND, _CALL_WITH, _CALL_ARRAYS = PYTHON_FUNCTIONS = (
    "neurald_run_call",
    "neurald_call",
    "neurald_call_with",
    "neurald_call_arrays",
)

_WORD_BYTES: Final = 8
PLACE_WORDS: Final = 2

_TABLE: Final = (
    "NONE",
    "FALSE",
    "TRUE",
    "INCREASE",
    "DECREASE",
    "SAVE_THREAD",
    "RESTORE_THREAD",
    "NEW_LIST",
    "GET_ITEM",
    "SET_ITEM",
    "ARRAY_TYPE",
    "NEW_ARRAY",
    "SET_BASE",
    "BYTE_DTYPE",
    "STRING_TYPE",
)
#: Step, its result if it finishes, result of the last run, table, whether the GIL is released;
#: ports, numbers of inputs and outputs; numbers of those that are arrays, the call's own binding,
#: and the list of the memory of its last large outputs (null if it is not used again).
CALL_WORDS: Final = (
    "STEP",
    "FINISHED",
    "RESULT",
    "TABLE",
    "RELEASES",
    "PORTS",
    "INPUT_COUNT",
    "OUTPUT_COUNT",
    "ARRAY_COUNT",
    "NEW_COUNT",
    "BINDING",
    "ROOMS",
)
_RESULT: Final = CALL_WORDS.index("RESULT")
#: Type of the elements, rank, address of the shape, size in bytes; address in the arena (0 if the
#: step does not use it), address that the arguments have now, addresses of these arguments and
#: their number; where to copy an output to (null if it is written in place). With strings: the
#: words of an input's source, or of all sources for an output (null without strings); where
#: references to the input's strings are in the arena (null if the step does not use it), the first
#: of them, and the number of strings; and the bits of an address that must be 0.
_PORT: Final = (
    "PORT_DTYPE",
    "PORT_RANK",
    "PORT_SHAPE",
    "PORT_SIZE",
    "PORT_OWN",
    "PORT_CURRENT",
    "PORT_CELLS",
    "PORT_CELL_COUNT",
    "PORT_TARGET",
    "PORT_SOURCE",
    "PORT_REFERENCES",
    "PORT_FIRST",
    "PORT_COUNT",
    "PORT_MASK",
)
_SIZE, _OWN, _CURRENT, _COUNT, _MASK = (
    _PORT.index(f"PORT_{name}") for name in ("SIZE", "OWN", "CURRENT", "COUNT", "MASK")
)

#: Offsets in `PyArrayObject`, in bytes.
ARRAY_DATA: Final = 16
_ARRAY_RANK: Final = 24
_ARRAY_SHAPE: Final = 32
_ARRAY_DTYPE: Final = 56
_ARRAY_FLAGS: Final = 64
#: Layout of `PyArray_Descr`: the type of scalars; then in one word the characters for kind, type
#: and byte order, a byte of flags, which may differ, and the number of the type.
_DTYPE_SCALAR: Final = 16
_DTYPE_KIND: Final = 24
_DTYPE_KIND_MASK: Final = ~(0xFF << 24)
#: Flags of an array: contiguous and aligned, as its input must be; and writable, too.
_USABLE: Final = 0x101
_WRITABLE: Final = 0x501
#: Major versions of NumPy's binary interface, and the indices of its functions and types, which are
#: the same in both.
_ARRAY_VERSIONS: Final = (1, 2)
_GET_VERSION, _GET_ARRAY_TYPE, _GET_NEW_ARRAY, _GET_SET_BASE = 0, 2, 94, 282

#: Size from which the memory of an output is aligned, so that it is written in place. Aligning
#: takes a second array, which costs as much as copying this many bytes.
_LARGE_BYTES: Final = 4096
#: Largest size of the outputs of a step whose memory later calls use again, unless something else
#: still does. Otherwise freed memory may go back to the system, and the pages of new memory take
#: longer than many kernels.
MAX_KEPT_BYTES: Final = 2 << 20
#: Places for the memory of an output: callers often keep a result until they have the next one.
#: `python_call.ll` chooses between these two.
_ROOMS: Final = 2

_NO_ARGUMENTS: Final = 0x4
_ONE_ARGUMENT: Final = 0x8
FAST_ARGUMENTS: Final = 0x80

_RunCall = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


def python_call_text() -> str:
    """Returns the IR of the functions, which call `neurald_run` of the step program."""
    from neurald.drivers.compiler.support.kernel_file import kernel_text

    words = {
        name: _WORD_BYTES * position
        for names in (_TABLE, CALL_WORDS, _PORT)
        for position, name in enumerate(names)
    }
    return string_access_text("neurald") + kernel_text(
        __name__,
        "python_call.ll",
        **words,
        PLACE_BYTES=_WORD_BYTES * PLACE_WORDS,
        PORT_BYTES=_WORD_BYTES * len(_PORT),
        OBJECT_TYPE=OBJECT_TYPE,
        ARRAY_DATA=ARRAY_DATA,
        ARRAY_RANK=_ARRAY_RANK,
        ARRAY_SHAPE=_ARRAY_SHAPE,
        ARRAY_DTYPE=_ARRAY_DTYPE,
        ARRAY_FLAGS=_ARRAY_FLAGS,
        DTYPE_SCALAR=_DTYPE_SCALAR,
        DTYPE_KIND=_DTYPE_KIND,
        DTYPE_KIND_MASK=_DTYPE_KIND_MASK,
        USABLE=_USABLE,
        WRITABLE=_WRITABLE,
        ALIGNMENT_MASK=ALIGNMENT - 1,
        LARGE=_LARGE_BYTES,
        MAX_KEPT=MAX_KEPT_BYTES,
    )


class _Method(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def python_table() -> int:
    """Returns the address of the table of functions of CPython and NumPy.

    Returns:
        0 if the interpreter is another one, has no GIL, or has other layouts.
    """
    if sys.implementation.name != "cpython" or "t" in sys.abiflags:
        return 0
    if ctypes.sizeof(ctypes.c_void_p) != _WORD_BYTES or not _has_layouts():
        return 0
    arrays = _array_functions()
    if arrays is None:
        return 0
    functions = [
        ctypes.cast(getattr(_python(), name), ctypes.c_void_p).value or 0
        for name in (
            "Py_IncRef",
            "Py_DecRef",
            "PyEval_SaveThread",
            "PyEval_RestoreThread",
            "PyList_New",
            "PyList_GetItem",
            "PyList_SetItem",
        )
    ]
    new_array, set_base = arrays
    table = np.array(
        [
            id(None),
            id(False),
            id(True),
            *functions,
            id(np.ndarray),
            new_array,
            set_base,
            id(np.dtype(np.uint8)),
            id(bytes),
        ],
        np.int64,
    )
    _kept.append(table)
    address: int = table.ctypes.data
    return address


#: Objects that native code uses until the process ends.
_kept: list[object] = []


def _has_layout_of_dtypes(dtype: "np.dtype[Any]") -> bool:
    start, kind = id(dtype), dtype.kind + dtype.char + dtype.byteorder
    return (
        _word(start + _DTYPE_SCALAR) == id(dtype.type)
        and ctypes.string_at(start + _DTYPE_KIND, len(kind)) == kind.encode()
        and ctypes.c_int32.from_address(start + _DTYPE_KIND + 4).value == dtype.num
    )


def _has_layouts() -> bool:
    """Checks the offsets of the structures of arrays, types and strings with different objects."""
    for shape, dtype in (((3, 5, 7), np.float32), ((), np.int8), ((2,), np.bool_)):
        array = np.zeros(shape, dtype)
        start = id(array)
        rank = ctypes.c_int32.from_address(start + _ARRAY_RANK).value
        flags = ctypes.c_int32.from_address(start + _ARRAY_FLAGS).value
        if (
            _word(start + OBJECT_TYPE) != id(np.ndarray)
            or _word(start + ARRAY_DATA) != array.ctypes.data
            or _word(start + _ARRAY_DTYPE) != id(array.dtype)
            or not _has_layout_of_dtypes(array.dtype)
            or rank != len(shape)
            or flags & _WRITABLE != _WRITABLE
            or any(
                _word(_word(start + _ARRAY_SHAPE) + _WORD_BYTES * axis) != length
                for axis, length in enumerate(shape)
            )
        ):
            return False
    for string in (b"", b"\0", b"a string of some bytes"):
        start = id(string)
        stored = ctypes.string_at(start + STRING_BYTES, len(string) + 1)
        if (
            _word(start + OBJECT_TYPE) != id(bytes)
            or _word(start + STRING_LENGTH) != len(string)
            or stored != string + b"\0"
        ):
            return False
    transposed = np.zeros((2, 3), np.float32).T
    return not ctypes.c_int32.from_address(id(transposed) + _ARRAY_FLAGS).value & 1


@cache
def _counts_references() -> bool:
    """Returns whether an object begins with its number of references."""
    array = np.zeros(1)
    number = ctypes.c_int32.from_address(id(array))
    alone = number.value
    other = [array]
    return (alone, number.value) == (1, 1 + len(other))


def _array_functions() -> tuple[int, int] | None:
    """Returns the addresses of NumPy's functions that create an array and set its base."""
    try:
        umath = import_module("numpy._core._multiarray_umath")
    except ImportError:
        umath = import_module("numpy.core._multiarray_umath")
    get_pointer = _python().PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table: int = get_pointer(umath._ARRAY_API, None)

    def entry(index: int) -> int:
        return _word(table + _WORD_BYTES * index)

    version = ctypes.PYFUNCTYPE(ctypes.c_uint)(entry(_GET_VERSION))() >> 24
    if version not in _ARRAY_VERSIONS or entry(_GET_ARRAY_TYPE) != id(np.ndarray):
        return None
    return entry(_GET_NEW_ARRAY), entry(_GET_SET_BASE)


@cache
def _python() -> Any:
    """Returns the interpreter's library; `ctypes.pythonapi` is shared with other modules."""
    return ctypes.PyDLL(None)


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


@cache
def _method(function: int, flags: int) -> _Method:
    """Returns the description of a native function, which its function objects refer to."""
    return _Method(b"neurald", function, flags, None)


class StepPort(Struct, frozen=True, kw_only=True):
    """An input or output of a step.

    Attributes:
        dtype, shape, size_bytes: those of its arrays.
        own: its address in the arena; 0 if the step does not use it.
        cells: addresses of the step's arguments that refer to it. Without any, it is only copied.
        source: with strings, the address of the words of an input's source, or of all sources for
            an output; else 0.
        references: where references to an input's strings are in the arena; 0 if the step does not
            use them.
        first: the first of these references.
        alignment: the alignment of memory that is used in place, in bytes.
    """

    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    size_bytes: int
    own: int
    cells: tuple[int, ...]
    source: int = 0
    references: int = 0
    first: int = 0
    alignment: int = ALIGNMENT


class StepPorts:
    """The inputs and outputs of a step in memory, in the form of native code.

    Args:
        inputs, outputs: the ports. The step's arguments refer to the arena.

    Attributes:
        rooms: for each output, the memory of its last two arrays, if it is large; else None.
    """

    def __init__(self, inputs: Sequence[StepPort] = (), outputs: Sequence[StepPort] = ()) -> None:
        self.inputs = len(inputs)
        self.outputs = len(outputs)
        self.rooms: list[Array | None] = [None] * (_ROOMS * len(outputs))
        self.words = np.zeros((len(inputs) + len(outputs), len(_PORT)), np.int64)
        #: The words, and the shape of each port, as what changes single words fast.
        self._words = self.words.reshape(-1).data
        self._lengths: list[memoryview] = []
        self._kept: list[object] = []
        for row, port in zip(self.words, (*inputs, *outputs), strict=True):
            shape, cells = np.array(port.shape, np.int64), np.array(port.cells, np.int64)
            row[:] = (
                id(port.dtype),
                len(port.shape),
                shape.ctypes.data,
                port.size_bytes,
                port.own,
                port.own,
                cells.ctypes.data,
                len(port.cells),
                0,
                port.source,
                port.references,
                port.first,
                math.prod(port.shape),
                port.alignment - 1,
            )
            self._lengths.append(shape.data)
            self._kept += port.dtype, cells

    @property
    def output_bytes(self) -> int:
        """The size of all outputs, in bytes."""
        return int(self.words[self.inputs :, _SIZE].sum())

    def resize(self, position: int, shape: tuple[int, ...], size_bytes: int) -> None:
        """Gives an input or output, by its position among all, another shape of the same rank."""
        lengths, words, first = self._lengths[position], self._words, position * len(_PORT)
        for axis, length in enumerate(shape):
            lengths[axis] = length
        if position >= self.inputs and words[first + _SIZE] != size_bytes:
            first_room = _ROOMS * (position - self.inputs)
            self.rooms[first_room : first_room + _ROOMS] = [None] * _ROOMS
        words[first + _SIZE] = size_bytes
        words[first + _COUNT] = math.prod(shape)

    def place(self, position: int, own: int, alignment: int) -> None:
        """Gives an input or output, and the step's arguments, another address in the arena.

        Args:
            position, own, alignment: see `resize` and `StepPort`.
        """
        words, first = self._words, position * len(_PORT)
        words[first + _OWN] = words[first + _CURRENT] = own
        words[first + _MASK] = alignment - 1

    def unbound(self) -> Words:
        """Returns the binding with which all ports are in the arena."""
        binding = np.zeros((len(self.words), PLACE_WORDS), np.int64)
        binding[:, 0] = self.words[:, _OWN]
        return binding


class StepCall:
    """A step in memory that functions of Python run.

    Args:
        program: addresses of the native functions.
        step: address of the step.
        finished: its result if it finishes.
        ports: its ports. Only one call with these ports may run at a time.
        binding: the binding for `bound` and `on_arrays`.
        releases_gil: whether other threads of Python run in the meantime.
        keep: lives as long as a function of this object.
    """

    def __init__(
        self,
        program: Mapping[str, int],
        step: int,
        finished: int,
        ports: StepPorts,
        *,
        binding: Words | None = None,
        releases_gil: bool,
        keep: object = None,
    ) -> None:
        self._program = program
        self._keep = keep, ports, binding
        table = python_table()
        keeps_rooms = table and _counts_references() and ports.output_bytes <= MAX_KEPT_BYTES
        self._call = np.array(
            [
                step,
                finished,
                finished,
                table,
                releases_gil,
                ports.words.ctypes.data,
                ports.inputs,
                ports.outputs,
                0,
                0,
                0 if binding is None else binding.ctypes.data,
                id(ports.rooms) if keeps_rooms else 0,
            ],
            np.int64,
        )

    @property
    def address(self) -> int:
        """The address of the call for native code, which runs it by `neurald_run_call`."""
        return int(self._call.ctypes.data)

    @property
    def result(self) -> int:
        """The result of the last run."""
        return int(self._call[_RESULT])

    def take_result(self) -> int:
        """Returns the result of the last run, and then that of a step that finished.

        So it tells a run that did not finish from one that has refused its arguments.
        """
        result = self.result
        self._call[_RESULT] = self._call[CALL_WORDS.index("FINISHED")]
        return result

    def bound(self) -> Callable[[], bool]:
        """Returns a function that runs the step with the call's binding.

        It returns whether the step finished.
        """
        return self._function(_CALL_BOUND, _NO_ARGUMENTS)

    def with_binding(self) -> Callable[[Words], bool]:
        """Returns a function that runs the step with the binding that is its argument.

        It returns whether the step finished.
        """
        if python_table():
            return self._function(_CALL_WITH, _ONE_ARGUMENT)
        return partial(_run, _RunCall(self._program[_RUN_CALL]), self._call, self._keep)

    def on_arrays(self, inputs: int, outputs: int) -> ArrayFunction:
        """Returns a function that runs the step on arrays.

        Its arguments are the first inputs. It returns the first outputs, in new arrays, whose
        memory may be that of earlier ones that are gone; None if an argument is not a contiguous
        array of the port's type and shape, or if the step did not finish. Other ports are those of
        the call's binding.

        Args:
            inputs, outputs: their numbers.
        """
        self._call[CALL_WORDS.index("ARRAY_COUNT")] = inputs
        self._call[CALL_WORDS.index("NEW_COUNT")] = outputs
        return self._function(_CALL_ARRAYS, FAST_ARGUMENTS)

    def _function(self, name: str, flags: int) -> Callable[..., Any]:
        return new_function(self._program[name], flags, self._call, self._keep)


def new_function(address: int, flags: int, words: Words, kept: object) -> Callable[..., Any]:
    """Returns a function of Python that calls a native one.

    Args:
        address: the address of the native function.
        flags: how it takes its arguments.
        words: what it gets as the function's `__self__`.
        kept: lives as long as the function.
    """
    # The last argument is the function's module, which may be any object.
    function: Callable[..., Any] = _new()(ctypes.addressof(_method(address, flags)), words, kept)
    return function


@cache
def _new() -> Any:
    """Returns the interpreter's function that makes function objects."""
    new = _python().PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    return new


def _run(run: Any, call: Words, _: object, binding: Words) -> bool:
    """Does what `neurald_call_with` does."""
    finished: int = run(call.ctypes.data, binding.ctypes.data)
    return finished == int(call[CALL_WORDS.index("FINISHED")])
