# SPDX-License-Identifier: GPL-2.0-or-later
"""A file by TCP: how long until the other end has all of it?

iperf3's end of a transfer is when its sender has handed over the last byte, with
what is in socket, qdisc and ring still to come. Here the receiver answers when it
has all. main() is the program at either end:

    receive               say "ready", take one connection, answer how much came
    send ADDRESS BYTES    print JSON, as Moved takes it
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from dataclasses import asdict, dataclass
from typing import Dict

from lab.guest import program
from lab.guest.devices import Device, run_tool

PROGRAM = (sys.executable, "-B", "-m", "lab.workloads.file")
PORT = 5003
CHUNK = 1 << 16
DEADLINE_SECONDS = 180.0  # 10 MB at half a Mbit/s, 50 MB at 2
TOTAL_RETRANS = struct.Struct("100xI")  # of struct tcp_info, linux/tcp.h


@dataclass(frozen=True)
class Moved:
    size: int  # bytes
    seconds: float  # from the connect until the receiver had all
    retransmits: int

    @property
    def mbit(self) -> float:
        """Per second."""
        return self.size * 8 / self.seconds / 1e6

    def counts(self) -> Dict[str, float]:
        """For a sample's extra."""
        return {"retransmits": self.retransmits, "seconds_until_all": self.seconds}


def receive() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", PORT))
        listener.listen(1)
        print("ready", flush=True)
        connection, _ = listener.accept()
    with connection:
        count = 0
        while True:
            data = connection.recv(CHUNK)
            if not data:
                break
            count += len(data)
        connection.sendall(str(count).encode())


def send(address: str, size: int) -> None:
    began = time.monotonic()
    with socket.create_connection((address, PORT)) as connection:
        for start in range(0, size, CHUNK):
            connection.sendall(bytes(min(CHUNK, size - start)))
        connection.shutdown(socket.SHUT_WR)
        count = int(connection.recv(32))
        seconds = time.monotonic() - began
        info = connection.getsockopt(
            socket.IPPROTO_TCP, socket.TCP_INFO, TOTAL_RETRANS.size
        )
    if count != size:
        sys.exit(f"file: {count} of {size} bytes arrived")
    (retransmits,) = TOTAL_RETRANS.unpack(info)
    print(json.dumps(asdict(Moved(size, seconds, retransmits))))


def move(near: Device, far: Device, size: int) -> Moved:
    """size: bytes."""
    sender = near.command(*PROGRAM, "send", far.address, str(size))
    with program.receiving(far.command(*PROGRAM, "receive")):
        return Moved(**json.loads(run_tool(sender, seconds=DEADLINE_SECONDS)))


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "receive":
        receive()
    else:
        send(rest[0], int(rest[1]))


if __name__ == "__main__":
    main()
