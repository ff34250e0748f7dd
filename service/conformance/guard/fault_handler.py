"""Installs a signal handler that reports the address of a fault and ends the process.

The handler is machine code. Python runs its own handlers between two bytecode instructions, which a
thread that faults in native code never reaches.
"""

import ctypes
import platform
import signal
import struct
from dataclasses import dataclass
from typing import Any

#: Record of a fault: signal, `si_code`, address, and the error code of the processor.
RECORD = struct.Struct("<qqqq")
_UNKNOWN = -1
#: Offsets in `siginfo_t`, on 64-bit Linux.
_CODE_OFFSET, _ADDRESS_OFFSET = 8, 16
#: Offset in `ucontext_t` of `uc_mcontext.gregs[REG_ERR]`, which only some processors have.
_ERROR_OFFSETS = {"x86_64": 40 + 8 * 19}
#: Bit of the error code that is set for a write.
_WRITE_BIT = 2
_SA_SIGINFO, _SA_ONSTACK = 4, 0x08000000
_SIGNALS = (signal.SIGSEGV, signal.SIGBUS)

#: References to the compilers of handlers, which own their machine code.
_engines: list[Any] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A memory access that the processor refused.

    Attributes:
        signal: the number of the signal.
        address: the address, if the processor reports it.
        is_write: whether the access was a write, if the processor reports it.
    """

    signal: int
    address: int | None
    is_write: bool | None

    @classmethod
    def read(cls, record: bytes) -> "Fault":
        """Decodes a record that the handler wrote."""
        number, code, address, error = RECORD.unpack(record)
        # Only positive codes below SI_KERNEL (0x80) come with an address.
        is_known = 0 < code < 0x80
        return cls(
            signal=number,
            address=address % (1 << 64) if is_known else None,
            is_write=None if error == _UNKNOWN else bool(error & _WRITE_BIT),
        )


class _Action(ctypes.Structure):
    """`struct sigaction` of 64-bit Linux, in glibc and musl."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


def report_faults(descriptor: int) -> None:
    """Makes a fault of this process write a `RECORD` to a descriptor and exit with status 1.

    Raises:
        OSError: the handler cannot be installed.
    """
    library = ctypes.CDLL(None, use_errno=True)
    action = _Action(handler=_handler(library, descriptor), flags=_SA_SIGINFO | _SA_ONSTACK)
    for number in _SIGNALS:
        if library.sigaction(int(number), ctypes.byref(action), None):
            raise OSError(ctypes.get_errno(), "cannot install the handler of faults")


def _handler(library: Any, descriptor: int) -> int:
    """Compiles the handler and returns its address."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    write, end = (ctypes.cast(call, ctypes.c_void_p).value or 0 for call in (library.write, library._exit))
    module = llvm.parse_assembly(_handler_ir(write, end, descriptor))
    module.verify()
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    _engines.append(engine)
    address: int = engine.get_function_address("on_fault")
    return address


def _handler_ir(write: int, end: int, descriptor: int) -> str:
    """Returns the handler as LLVM IR.

    Args:
        write, end: the addresses of write(2) and _exit(2), which are async-signal-safe.
        descriptor: the descriptor to write to.
    """
    offset = _ERROR_OFFSETS.get(platform.machine())
    error = "ret i64 -1"
    if offset is not None:
        error = (
            f"%at = getelementptr i8, ptr %context, i64 {offset}\n"
            "  %code = load i64, ptr %at\n"
            "  ret i64 %code"
        )
    return f"""
define internal i64 @error_code(ptr %context) {{
  {error}
}}

define void @on_fault(i32 %signal, ptr %info, ptr %context) {{
  %record = alloca [4 x i64]
  %number = sext i32 %signal to i64
  store i64 %number, ptr %record
  %code_at = getelementptr i8, ptr %info, i64 {_CODE_OFFSET}
  %short_code = load i32, ptr %code_at
  %code = sext i32 %short_code to i64
  %second = getelementptr i64, ptr %record, i64 1
  store i64 %code, ptr %second
  %address_at = getelementptr i8, ptr %info, i64 {_ADDRESS_OFFSET}
  %address = load i64, ptr %address_at
  %third = getelementptr i64, ptr %record, i64 2
  store i64 %address, ptr %third
  %error = call i64 @error_code(ptr %context)
  %fourth = getelementptr i64, ptr %record, i64 3
  store i64 %error, ptr %fourth
  %write = inttoptr i64 {write} to ptr
  %written = call i64 %write(i32 {descriptor}, ptr %record, i64 {RECORD.size})
  %end = inttoptr i64 {end} to ptr
  call void %end(i32 1)
  unreachable
}}
"""
