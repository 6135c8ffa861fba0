"""Hosts on one machine: a network namespace for each, joined by a relay with delay and loss.

    with Network(hosts=3, delay=0.002, loss=0.001) as network:
        subprocess.run(network.command(0, ["ping", "-c", "1", network.address(1)]))

Each namespace has a TUN interface, whose other end the relay reads and writes in a thread of this
process; so no queueing discipline of the kernel is needed. It needs root, `ip` and /dev/net/tun.
The relay passes some ten thousand packets of 1,500 bytes a second: it is for latencies and for
counting bytes, not for bandwidth.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from types import TracebackType

TUN = "/dev/net/tun"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
TCP = 6


def problem() -> str | None:
    """The reason why there can be no such network here; None if there can."""
    if os.geteuid() != 0:
        return "network namespaces are made by root"
    if shutil.which("ip") is None:
        return "the command `ip` is missing"
    if not os.path.exists(TUN):
        return f"there is no {TUN}"
    tried = subprocess.run(["ip", "netns", "add", _name(999)], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"`ip netns add` failed: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", _name(999)], check=False)
    return None


def _name(host: int) -> str:
    return f"outboard-{os.getpid()}-{host}"


def payload(packet: bytes) -> int:
    """Bytes that a packet of IPv4 carries for TCP."""
    if packet[0] >> 4 != 4 or packet[9] != TCP:
        return 0
    header = (packet[0] & 15) * 4
    return len(packet) - header - (packet[header + 12] >> 4) * 4


class Network:
    """The namespaces and the relay between them, while entered.

    Args:
        hosts: how many, at most 200.
        delay: seconds that each packet takes.
        loss: share of packets that are lost.

    Attributes:
        sent: bytes of TCP that each host has sent.
    """

    def __init__(self, hosts: int, delay: float = 0.0, loss: float = 0.0) -> None:
        self.hosts, self.delay, self.loss = hosts, delay, loss
        self.sent = [0] * hosts
        self._random = random.Random(0)
        self._files: list[int] = []
        self._running = True
        self._relay = threading.Thread(target=self._run, daemon=True)

    def address(self, host: int) -> str:
        return f"10.117.0.{host + 1}"

    def interface(self, host: int) -> str:
        return f"ob{os.getpid() % 100000}-{host}"

    def command(self, host: int, command: Sequence[str]) -> list[str]:
        """A command that runs on a host."""
        return ["ip", "netns", "exec", _name(host), *command]

    def __enter__(self) -> Network:
        try:
            for host in range(self.hosts):
                self._add(host)
        except BaseException:
            self._remove()
            raise
        self._relay.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._running = False
        self._relay.join()
        self._remove()

    def _add(self, host: int) -> None:
        name, interface = _name(host), self.interface(host)
        file = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        self._files.append(file)
        request = struct.pack("16sH22x", interface.encode(), IFF_TUN | IFF_NO_PI)
        fcntl.ioctl(file, TUNSETIFF, request)
        for command in (
            f"ip netns add {name}",
            f"ip link set {interface} netns {name}",
            f"ip -n {name} addr add {self.address(host)}/24 dev {interface}",
            f"ip -n {name} link set {interface} up",
            f"ip -n {name} link set lo up",
        ):
            subprocess.run(command.split(), check=True)

    def _remove(self) -> None:
        for host, file in enumerate(self._files):
            os.close(file)
            subprocess.run(["ip", "netns", "delete", _name(host)], check=False)
        self._files = []

    def _run(self) -> None:
        host_of = {file: host for host, file in enumerate(self._files)}
        waiting: list[tuple[float, int, int, bytes]] = []
        count = 0
        while self._running:
            pause = waiting[0][0] - time.monotonic() if waiting else 0.05
            ready = select.select(self._files, [], [], max(0.0, min(pause, 0.05)))[0]
            for file in ready:
                while packet := self._read(file):
                    self.sent[host_of[file]] += payload(packet)
                    to = packet[19] - 1 if packet[0] >> 4 == 4 else -1
                    if 0 <= to < self.hosts and self._random.random() >= self.loss:
                        count += 1
                        due = time.monotonic() + self.delay
                        heapq.heappush(waiting, (due, count, to, packet))
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, to, packet = heapq.heappop(waiting)
                with contextlib.suppress(OSError):  # a full or absent host loses packets
                    os.write(self._files[to], packet)

    @staticmethod
    def _read(file: int) -> bytes:
        try:
            return os.read(file, 65536)
        except BlockingIOError:
            return b""
