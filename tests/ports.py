"""A TCP port for a server that a test is about to start, and a network for tests that fill or read one."""

import contextlib
import ctypes
import fcntl
import random
import socket
import struct

# Below the ports that the kernel gives to outgoing connections (ip_local_port_range): other tests open thousands of
# those, and one that has a server's port keeps it from being bound. Above those of agents: a `tide dev` gives each of
# its own twenty between 20000 and 30000, by its port.
_PORTS = range(30000, 32700)
_draw = random.SystemRandom()
_NEW_NET, _SET_FLAGS, _UP = 0x40000000, 0x8914, 1  # sched.h, sockios.h, if.h


def free_port():
    """Returns a port that nobody on the loopback has now."""
    while True:
        port = _draw.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def own_network():
    """Gives this thread, and what it starts from now on, a network of its own with a loopback; without root nothing."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NET) == 0:
        with contextlib.closing(socket.socket()) as any_socket:
            fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
