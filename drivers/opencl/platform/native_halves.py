"""Converts numbers between FLOAT32 and FLOAT16 by vector instructions.

NumPy converts one number at a time, which takes about 30 times as long. The functions are compiled
once per process with LLVM.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Final

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from neurald.hal.process.fork import hold_over_fork

_FLOAT, _HALF = np.dtype(np.float32), np.dtype(np.float16)
#: Numbers that are converted at a time.
_WIDTH: Final = 16
#: The feature that processors of x86 need, and how the triple of others begins, which all have it.
_FEATURE: Final = "f16c"
_ARM: Final = "aarch64"
# Target, source, and how many times `_WIDTH` numbers there are.
_CONVERT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

#: Held during a fork, because LLVM's own locks would stay locked in the child.
_lock = threading.Lock()
hold_over_fork(_lock)
#: Result of `_compile`, once it has run.
_compiled: list[tuple[Any, ...]] = []


def converted(array: np.ndarray, dtype: type[np.float16 | np.float32]) -> np.ndarray:
    """Returns a new array with the numbers of an array in another type.

    Numbers beyond the range become infinite.
    """
    target = np.empty_like(array, dtype)
    convert(target, array)
    return target


def convert(target: np.ndarray, source: np.ndarray) -> None:
    """Copies an array to another one of the same shape, with conversion to its type.

    Numbers beyond the target's range become infinite.
    """
    kinds = target.dtype, source.dtype
    is_dense = target.flags.c_contiguous and source.flags.c_contiguous
    if not is_dense and target.flags.f_contiguous and source.flags.f_contiguous:
        target, source, is_dense = target.T, source.T, True
    function = _function(kinds[0]) if is_dense and kinds in ((_HALF, _FLOAT), (_FLOAT, _HALF)) else None
    done = 0
    if function is not None:
        target, source = target.reshape(-1), source.reshape(-1)
        done = source.size // _WIDTH * _WIDTH
        function(target.ctypes.data, source.ctypes.data, done // _WIDTH)
    with np.errstate(over="ignore"):
        np.copyto(target[done:] if done else target, source[done:] if done else source, casting="unsafe")


def _function(target: np.dtype) -> Any:
    """Returns the function to a type; None if the processor has no instruction for it."""
    with _lock:
        if not _compiled:
            _compiled.append(_compile())
        return _compiled[0][target == _FLOAT]


def _compile() -> tuple[Any, ...]:
    """Returns the functions to FLOAT16 and to FLOAT32, and the engine that owns their code.

    The functions are None if the processor has no instructions for them.
    """
    features = llvm.get_host_cpu_features()
    triple = llvm.get_default_triple()
    if not features.get(_FEATURE) and not triple.startswith(_ARM):
        return None, None, None
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(str(_module()))
    module.verify()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=2
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    narrow, widen = (_CONVERT(engine.get_function_address(name)) for name in ("narrow", "widen"))
    return narrow, widen, engine


def _module() -> ir.Module:
    module = ir.Module(name="neurald_halves")
    floats, halves = (ir.VectorType(kind, _WIDTH) for kind in (ir.FloatType(), ir.HalfType()))
    _add_function(module, "narrow", halves, floats)
    _add_function(module, "widen", floats, halves)
    return module


def _add_function(module: ir.Module, name: str, target: ir.VectorType, source: ir.VectorType) -> None:
    """Adds a function that converts vectors, which need not be aligned.

    for (i = 0; i < count; ++i) to[i] = (target)from[i];
    """
    i64 = ir.IntType(64)
    kind = ir.FunctionType(ir.VoidType(), [target.as_pointer(), source.as_pointer(), i64])
    function = ir.Function(module, kind, name=name)
    to, given, count = function.args
    entry, test, body, end = map(function.append_basic_block, ("entry", "test", "body", "end"))
    builder = ir.IRBuilder(entry)
    builder.branch(test)
    builder.position_at_end(test)
    place = builder.phi(i64)
    place.add_incoming(i64(0), entry)
    builder.cbranch(builder.icmp_signed("<", place, count), body, end)
    builder.position_at_end(body)
    numbers = builder.load(builder.gep(given, [place]), align=1)
    change = builder.fptrunc if name == "narrow" else builder.fpext
    builder.store(change(numbers, target), builder.gep(to, [place]), align=1)
    place.add_incoming(builder.add(place, i64(1)), body)
    builder.branch(test)
    builder.position_at_end(end)
    builder.ret_void()
