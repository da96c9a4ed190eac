# SPDX-License-Identifier: GPL-2.0-or-later
"""OpenConnect and its server ocserv, their data in DTLS.

OpenConnect reads its device through vhost-net where it can.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from pathlib import Path
from typing import Iterator, List, Optional

from lab.guest.devices import FAR, NEAR, run_tool
from lab.guest.path import FAR_END, NEAR_END
from lab.guest.program import Program, ensure_certificate, folder, program

PROGRAM = "openconnect"
PACKAGES = ("openconnect", "ocserv")
USER = "sluice"

# The network it gives addresses from; the lab does not use them.
CONFIGURATION = """\
auth = "plain[passwd={place}/passwords]"
tcp-port = 443
udp-port = 443
listen-host = {address}
run-as-user = nobody
run-as-group = nogroup
socket-file = {place}/socket
pid-file = {place}/pid
server-cert = {certificate}.crt
server-key = {certificate}.key
isolate-workers = false
device = {device}
ipv4-network = 10.94.0.0/24
dpd = 90
"""


def ensure_server() -> Path:
    """The server's configuration, its certificate and its one user."""
    place = folder("ocserv")
    password = place / "password"
    if not password.exists():
        place.chmod(0o755)
        (place / "ocserv.conf").write_text(
            CONFIGURATION.format(
                place=place,
                address=FAR_END.address,
                certificate=ensure_certificate(str(FAR.netns)),
                device=FAR.name.rstrip("0"),
            )
        )
        secret = os.urandom(8).hex()
        run_tool(
            ["ocpasswd", "--passwd", str(place / "passwords"), USER],
            f"{secret}\n{secret}\n",
        )
        password.write_text(secret + "\n")
    return place


def read_pin() -> str:
    """The hash of the server's public key, as --servercert takes it."""
    certificate = f"{ensure_certificate(str(FAR.netns))}.crt"
    key = run_tool(["openssl", "x509", "-in", certificate, "-noout", "-pubkey"])
    hashed = hashlib.sha256(base64.b64decode("".join(key.splitlines()[1:-1])))
    return f"pin-sha256:{base64.b64encode(hashed.digest()).decode()}"


@contextlib.contextmanager
def processes(preload: Optional[str]) -> Iterator[List[Program]]:
    place = ensure_server()
    (place / "pid").unlink(missing_ok=True)
    run_tool(["modprobe", "vhost_net"])
    listen = ["ocserv", "--foreground", "--config", str(place / "ocserv.conf")]
    connect = [
        *("openconnect", "--protocol=anyconnect", f"--interface={NEAR.name}"),
        *("--script=/bin/true", "--non-inter", f"--user={USER}"),
        *("--passwd-on-stdin", f"--servercert={read_pin()}"),
        f"https://{FAR_END.address}",
    ]
    with program(FAR_END, listen, preload) as server:
        server.wait_until(lambda: (place / "pid").exists(), "its pid file")
        secret = str(place / "password")
        with program(NEAR_END, connect, preload, stdin=secret) as client:
            yield [client, server]
