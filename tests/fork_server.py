"""A Python that has imported PyTorch and forks into programs: `import torch` takes seconds.

`python -P fork_server.py DESCRIPTOR` waits at that socket for programs (see forked_python.py). A
program is run as by `python -P -c`: by the main module's outermost frame, so that an exception and
the end of the interpreter are what they always are. That is why this is not `multiprocessing`'s
server, whose processes leave without an end of the interpreter.
"""

import gc
import json
import os
import socket
import sys
import types

LIMIT = 1 << 17  # bytes of a program and its environment


def next_program(connection: socket.socket) -> dict[str, object]:
    """Returns in a new process for each program; this one ends with the one that asks."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, LIMIT, 2)
        if not message:
            os._exit(0)
        process = os.fork()
        if process == 0:
            connection.close()
            for descriptor, standard in zip(descriptors, (1, 2), strict=True):
                os.dup2(descriptor, standard)
                os.close(descriptor)
            return json.loads(message)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(str(process).encode())
        _, status = os.waitpid(process, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def prepare(program: dict[str, object]) -> types.CodeType:
    """Makes this process what a fresh one is after `import torch`."""
    os.environ.clear()
    os.environ.update(program["environment"])
    os.chdir(program["folder"])
    sys.argv = ["-c", *program["arguments"]]
    sys.modules["__main__"] = types.ModuleType("__main__")
    if torch._is_device_backend_autoload_enabled():
        torch._import_device_backends()
    return compile(program["code"], "<string>", "exec")


if __name__ == "__main__":
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # which a program decides
    import torch

    gc.freeze()  # PyTorch's objects, which the end of an interpreter would go through for long
    code = prepare(next_program(socket.socket(fileno=int(sys.argv[1]))))
    exec(code, sys.modules["__main__"].__dict__)
