# SPDX-License-Identifier: GPL-2.0-or-later
"""A file by TCP: how long until the other end has all of it?

iperf3's end of a transfer is when its sender has handed over the last byte, with
what is in socket, qdisc and ring still to come. Here the receiver answers when it
has all.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from typing import Any, Dict, Tuple

from lab.guest.devices import Device
from lab.guest.program import open_socket
from lab.row import WorkloadError

PORT = 5003
CHUNK = 1 << 16
STUCK_SECONDS = 60.0  # for a call on a socket
TOTAL_RETRANS = struct.Struct("100xI")  # of struct tcp_info, linux/tcp.h


def _receive(connection: socket.socket) -> None:
    """Until the sender's end; answers how much came."""
    count = 0
    while data := connection.recv(CHUNK):
        count += len(data)
    connection.sendall(str(count).encode())


def _send(out: socket.socket, size: int) -> int:
    """How many bytes arrived."""
    for start in range(0, size, CHUNK):
        out.sendall(bytes(min(CHUNK, size - start)))
    out.shutdown(socket.SHUT_WR)
    return int(out.recv(32))


def move(near: Device, far: Device, size: int) -> Tuple[float, Dict[str, Any]]:
    """So many bytes: Mbit/s from the connect until the receiver had all, and what else
    it tells."""
    kind = (socket.AF_INET, socket.SOCK_STREAM, STUCK_SECONDS)
    with open_socket(near, *kind) as out, open_socket(far, *kind) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", PORT))
            listener.listen(1)
            began = time.monotonic()
            out.connect((far.address, PORT))
            with listener.accept()[0] as there:
                threading.Thread(target=_receive, args=(there,), daemon=True).start()
                arrived = _send(out, size)
        except OSError as error:
            raise WorkloadError(f"file: {error}; is a queue stopped for ever?") from error
        seconds = time.monotonic() - began
        info = out.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TOTAL_RETRANS.size)
    if arrived != size:
        raise WorkloadError(f"file: {arrived} of {size} bytes arrived")
    (retransmits,) = TOTAL_RETRANS.unpack(info)
    told = {"retransmits": retransmits, "seconds_until_all": seconds}
    return size * 8 / seconds / 1e6, told
