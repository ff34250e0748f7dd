"""Compiles for another process: a request in JSON comes on standard input, object code goes to standard output.

It runs as a script in a Python without site packages, so it imports nothing of the package that it is part of.
"""

import json
import struct
import sys


def main() -> None:
    """Answers one request: for each text, in order, the length of its object code in eight bytes, and the code."""
    request = json.load(sys.stdin.buffer)
    sys.path.append(request["path"])
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=request["cpu"], features=request["features"], opt=2, reloc="pic", codemodel="small"
    )
    for text in request["texts"]:
        module = llvm.parse_assembly(text)
        module.verify()
        code = machine.emit_object(module)
        sys.stdout.buffer.write(struct.pack("<Q", len(code)) + code)


if __name__ == "__main__":
    main()
