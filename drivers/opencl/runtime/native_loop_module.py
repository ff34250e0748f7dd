"""LLVM IR of the functions in `native_loop`, which call OpenCL."""

import ctypes
from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from neurald.drivers.opencl.platform.errors import SUCCESS

#: Kinds of commands.
KERNEL: Final = 0
WRITE: Final = 1
READ: Final = 2
#: Bytes per copy instruction.
_COPIED_BYTES = 64
#: Alignment of what `native_write` writes.
WRITTEN_ALIGNMENT: Final = _COPIED_BYTES


def loop_module(addresses: dict[str, int]) -> ir.Module:
    """Builds all functions as LLVM IR.

    Args:
        addresses: the addresses of OpenCL's functions, by name.
    """
    module = ir.Module(name="neurald_opencl")
    _add_run(module, addresses)
    copy = _add_copy(module)
    write = _add_copy(module, copy)
    for to_device in (True, False):
        _add_pieces(module, addresses, write if to_device else copy, to_device=to_device)
    _add_arguments(module, addresses["clSetKernelArg"])
    return module


def _add_run(module: ir.Module, addresses: dict[str, int]) -> None:
    """Adds the function `run`; `flush_every` and the commands are those of `CommandList`.

    for i in range(count):
        code = enqueue(queue, commands[i]) if commands[i].second else SUCCESS       # by its kind
        if code: return i
        if flush_every and (i + 1) % flush_every == 0: clFlush(queue)
    code = clFinish(queue) if finish else clFlush(queue)
    return count
    """
    i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
    size = ir.IntType(8 * ctypes.sizeof(ctypes.c_size_t))
    command = ir.LiteralStructType([i64, pointer, size, size, pointer.as_pointer()])
    zero, null = i32(0), pointer(None)
    sizes_null, blocking = size.as_pointer()(None), i32(0)

    arguments = [pointer, i64, command.as_pointer(), i64, i64, i32.as_pointer()]
    function = ir.Function(module, ir.FunctionType(i64, arguments), name="run")
    queue, count, commands, flush_every, finish, code = function.args

    def called(builder: ir.IRBuilder, name: str, values: Sequence[ir.Value]) -> ir.Value:
        kind = ir.FunctionType(i32, [value.type for value in values]).as_pointer()
        return builder.call(builder.inttoptr(i64(addresses[name]), kind), values)

    blocks = {
        name: function.append_basic_block(name)
        for name in (
            "entry",
            "test",
            "body",
            "enqueue",
            "kernel",
            "write",
            "read",
            "enqueued",
            "failed",
            "succeeded",
            "flush",
            "next",
            "end",
            "finish",
            "flush_last",
            "done",
        )
    }
    builder = ir.IRBuilder(blocks["entry"])
    position = builder.alloca(i64)
    builder.store(i64(0), position)
    builder.branch(blocks["test"])

    builder.position_at_end(blocks["test"])
    index = builder.load(position)
    builder.cbranch(builder.icmp_signed("<", index, count), blocks["body"], blocks["end"])

    builder.position_at_end(blocks["body"])
    field = [builder.gep(commands, [index, i32(number)]) for number in range(5)]
    handle = builder.load(field[1])
    is_empty = builder.icmp_unsigned("==", builder.load(field[3]), size(0))
    builder.cbranch(is_empty, blocks["succeeded"], blocks["enqueue"])

    builder.position_at_end(blocks["enqueue"])
    choice = builder.switch(builder.load(field[0]), blocks["kernel"])
    choice.add_case(i64(WRITE), blocks["write"])
    choice.add_case(i64(READ), blocks["read"])

    results = []
    builder.position_at_end(blocks["kernel"])
    launch = [queue, handle, i32(1), sizes_null, field[2], field[3], zero, null, null]
    results.append((called(builder, "clEnqueueNDRangeKernel", launch), blocks["kernel"]))
    builder.branch(blocks["enqueued"])
    for kind, name in (("write", "clEnqueueWriteBuffer"), ("read", "clEnqueueReadBuffer")):
        builder.position_at_end(blocks[kind])
        offset, length = builder.load(field[2]), builder.load(field[3])
        host = builder.load(builder.load(field[4]))
        copy = [queue, handle, blocking, offset, length, host, zero, null, null]
        results.append((called(builder, name, copy), blocks[kind]))
        builder.branch(blocks["enqueued"])

    builder.position_at_end(blocks["enqueued"])
    result = builder.phi(i32)
    for value, block in results:
        result.add_incoming(value, block)
    builder.cbranch(builder.icmp_signed("==", result, i32(SUCCESS)), blocks["succeeded"], blocks["failed"])

    builder.position_at_end(blocks["failed"])
    builder.store(result, code)
    builder.ret(index)

    builder.position_at_end(blocks["succeeded"])
    following = builder.add(index, i64(1))
    builder.store(following, position)
    # A remainder by the largest unsigned number never becomes 0.
    period = builder.select(builder.icmp_signed("==", flush_every, i64(0)), i64(-1), flush_every)
    due = builder.icmp_unsigned("==", builder.urem(following, period), i64(0))
    builder.cbranch(due, blocks["flush"], blocks["next"])

    builder.position_at_end(blocks["flush"])
    called(builder, "clFlush", [queue])
    builder.branch(blocks["next"])

    builder.position_at_end(blocks["next"])
    builder.branch(blocks["test"])

    builder.position_at_end(blocks["end"])
    builder.cbranch(builder.icmp_signed("!=", finish, i64(0)), blocks["finish"], blocks["flush_last"])
    results = []
    for kind, name in (("finish", "clFinish"), ("flush_last", "clFlush")):
        builder.position_at_end(blocks[kind])
        results.append((called(builder, name, [queue]), blocks[kind]))
        builder.branch(blocks["done"])

    builder.position_at_end(blocks["done"])
    result = builder.phi(i32)
    for value, block in results:
        result.add_incoming(value, block)
    builder.store(result, code)
    builder.ret(count)


def _add_arguments(module: ir.Module, set_argument: int) -> None:
    """Adds the function `set_arguments`.

    for i in range(count):
        code = clSetKernelArg(arguments[i].kernel, arguments[i].position, arguments[i].size,
            &values[i])
        if code: return i
    return count
    """
    i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
    size = ir.IntType(8 * ctypes.sizeof(ctypes.c_size_t))
    argument = ir.LiteralStructType([pointer, i32, i32])
    kind = ir.FunctionType(i64, [i64, argument.as_pointer(), i64.as_pointer(), i32.as_pointer()])
    function = ir.Function(module, kind, name="set_arguments")
    count, arguments, values, code = function.args
    entry, test, body, done = (
        function.append_basic_block(name) for name in ("entry", "test", "body", "done")
    )
    ir.IRBuilder(entry).branch(test)

    builder = ir.IRBuilder(test)
    index = builder.phi(i64)
    index.add_incoming(i64(0), entry)
    builder.cbranch(builder.icmp_signed("<", index, count), body, done)

    builder.position_at_end(body)
    kernel, position, length = (
        builder.load(builder.gep(arguments, [index, i32(number)])) for number in range(3)
    )
    value = builder.bitcast(builder.gep(values, [index]), pointer)
    given = [kernel, position, builder.zext(length, size), value]
    kind = ir.FunctionType(i32, [each.type for each in given]).as_pointer()
    result = builder.call(builder.inttoptr(i64(set_argument), kind), given)
    builder.store(result, code)
    index.add_incoming(builder.add(index, i64(1)), body)
    builder.cbranch(builder.icmp_signed("==", result, i32(SUCCESS)), test, done)

    builder.position_at_end(done)
    last = builder.phi(i64)
    for block in (test, body):
        last.add_incoming(index, block)
    builder.ret(last)


def _add_pieces(module: ir.Module, addresses: dict[str, int], copy: ir.Function, *, to_device: bool) -> None:
    """Adds the function `write_pieces` or `copy_pieces`.

    while (at := fetch_and_add(taken, piece)) < size:
        length = min(piece, size - at)
        if not to_device: copy(host + at, pinned + at, length); continue
        copy(pinned + at, host + at, length)
        code = clEnqueueWriteBuffer(queue, buffer, blocking=False, offset + at, length, pinned + at)
        if code: return code
        clFlush(queue)
    return SUCCESS
    """
    i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(i32, [pointer, pointer, i64, pointer, pointer, i64, i64, i64.as_pointer()])
    function = ir.Function(module, kind, name="write_pieces" if to_device else "copy_pieces")
    queue, buffer, offset, pinned, host, size, piece, taken = function.args
    entry, test, body, after, failed, done = (
        function.append_basic_block(name) for name in ("entry", "test", "body", "after", "failed", "done")
    )

    def called(name: str, values: Sequence[ir.Value]) -> ir.Value:
        kind = ir.FunctionType(i32, [value.type for value in values]).as_pointer()
        return builder.call(builder.inttoptr(i64(addresses[name]), kind), values)

    builder = ir.IRBuilder(entry)
    builder.branch(test)

    builder.position_at_end(test)
    at = builder.atomic_rmw("add", taken, piece, "seq_cst")
    builder.cbranch(builder.icmp_signed("<", at, size), body, done)

    builder.position_at_end(body)
    rest = builder.sub(size, at)
    length = builder.select(builder.icmp_signed("<", rest, piece), rest, piece)
    places = [builder.gep(each, [at]) for each in (pinned, host)]
    if to_device:
        builder.call(copy, [*places, length])
        null = pointer(None)
        transfer = [i32(0), builder.add(offset, at), length, places[0], i32(0), null, null]
        code = called("clEnqueueWriteBuffer", [queue, buffer, *transfer])
        builder.cbranch(builder.icmp_signed("==", code, i32(SUCCESS)), after, failed)
    else:
        builder.call(copy, [*reversed(places), length])
        code = i32(SUCCESS)
        builder.branch(after)

    builder.position_at_end(after)
    if to_device:
        called("clFlush", [queue])
    builder.branch(test)

    builder.position_at_end(failed)
    builder.ret(code)
    builder.position_at_end(done)
    builder.ret(i32(SUCCESS))


def _add_copy(module: ir.Module, copy: ir.Function | None = None) -> ir.Function:
    """Adds the function `copy` or `write`: whole vectors first, then single bytes.

    Args:
        module: gets the function.
        copy: the function `copy`; None to add it. The function `write` calls it for targets that
            are not aligned, and stores vectors past the caches to others. What is enqueued
            afterwards finds them in memory.
    """
    i64, byte = ir.IntType(64), ir.IntType(8)
    pointer, vector = byte.as_pointer(), ir.VectorType(byte, _COPIED_BYTES)
    kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, i64])
    function = ir.Function(module, kind, name="copy" if copy is None else "write")
    target, source, size = function.args
    entry, exit_ = function.append_basic_block("entry"), function.append_basic_block("exit")
    builder = ir.IRBuilder(entry)
    if copy is not None:
        # Vectors are stored past the caches only where they are aligned.
        misplaced, aligned = (function.append_basic_block(name) for name in ("misplaced", "aligned"))
        offset = builder.and_(builder.ptrtoint(target, i64), i64(WRITTEN_ALIGNMENT - 1))
        builder.cbranch(builder.icmp_unsigned("==", offset, i64(0)), aligned, misplaced)
        builder.position_at_end(misplaced)
        builder.call(copy, [target, source, size])
        builder.branch(exit_)
        builder.position_at_end(aligned)
        entry = aligned
    whole = builder.and_(size, i64(-_COPIED_BYTES))
    before, start = entry, i64(0)
    for name, step, kind, end in (("vectors", _COPIED_BYTES, vector, whole), ("bytes", 1, byte, size)):
        test, body = function.append_basic_block(name), function.append_basic_block(f"{name}_body")
        builder.branch(test)
        builder.position_at_end(test)
        at = builder.phi(i64)
        at.add_incoming(start, before)
        after = exit_ if name == "bytes" else function.append_basic_block(f"{name}_end")
        builder.cbranch(builder.icmp_unsigned("<", at, end), body, after)
        builder.position_at_end(body)
        places = [builder.bitcast(builder.gep(each, [at]), kind.as_pointer()) for each in (source, target)]
        value = builder.load(places[0], align=1)
        if copy is not None and step == _COPIED_BYTES:
            stored = builder.store(value, places[1], align=WRITTEN_ALIGNMENT)
            stored.set_metadata("nontemporal", module.add_metadata([ir.IntType(32)(1)]))
        else:
            builder.store(value, places[1], align=1)
        at.add_incoming(builder.add(at, i64(step)), body)
        builder.branch(test)
        builder.position_at_end(after)
        before, start = after, whole
    if copy is not None:
        builder.fence("seq_cst")
    builder.ret_void()
    return function
