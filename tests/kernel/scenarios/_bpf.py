# SPDX-License-Identifier: GPL-2.0-or-later
"""BPF programs of a few instructions, loaded without a compiler or a library."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

SYSCALL = {"x86_64": 321, "aarch64": 280}
PROG_LOAD, LINK_CREATE = 5, 28
SOCKET_FILTER, XDP = 1, 6
ATTACH_XDP = 37
XDP_IN_CORE, XDP_IN_DRIVER = 1 << 1, 1 << 2  # "skb mode", and the driver's own
REDIRECT = 23  # the helper bpf_redirect()

_libc = ctypes.CDLL(None, use_errno=True)


def _bpf(command: int, attributes: bytes) -> int:
    """A file descriptor."""
    number = SYSCALL[platform.machine()]
    buffer = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result = _libc.syscall(number, command, buffer, len(buffer))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"bpf command {command}: {os.strerror(error)}")
    return result


def _instruction(code: int, register: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, register, 0, value)


def _set(register: int, value: int) -> bytes:
    return _instruction(0xB7, register, value)


def _call(helper: int) -> bytes:
    return _instruction(0x85, value=helper)


_EXIT = _instruction(0x95)


@contextlib.contextmanager
def _loaded(kind: int, instructions: Sequence[bytes]) -> Iterator[int]:
    code = ctypes.create_string_buffer(b"".join(instructions))
    licence = ctypes.create_string_buffer(b"GPL")
    addresses = (ctypes.addressof(code), ctypes.addressof(licence))
    attributes = struct.pack("=IIQQ", kind, len(instructions), *addresses)
    program = _bpf(PROG_LOAD, attributes)
    try:
        yield program
    finally:
        os.close(program)


def choosing(queue: int) -> AbstractContextManager[int]:
    """A steering program that sends every packet to one queue."""
    return _loaded(SOCKET_FILTER, (_set(0, queue), _EXIT))


@contextlib.contextmanager
def redirected(source: int, target: int, where: int = XDP_IN_DRIVER) -> Iterator[None]:
    """Frames that one interface receives are transmitted by the other; both by index.

    where: XDP in the drivers, or in the core, which calls the transmit function.
    """
    code = (_set(1, target), _set(2, 0), _call(REDIRECT), _EXIT)
    with _loaded(XDP, code) as program:
        attributes = struct.pack("=IIII", program, source, ATTACH_XDP, where)
        link = _bpf(LINK_CREATE, attributes)
        try:
            yield
        finally:
            os.close(link)
