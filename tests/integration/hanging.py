"""A file system that hangs like a file server that is away: who asks for a file in it waits in the kernel, and
SIGKILL does not end him. A real FUSE mount whose server takes requests and does not answer."""

import ctypes
import errno
import os
import select
import struct
import threading

HEADER = struct.Struct("<IIQQIIII")  # len, opcode, unique, node, uid, gid, pid, padding
LOOKUP, FORGET, GETATTR, INIT, BATCH_FORGET = 1, 2, 3, 26, 42
NOSUID, NODEV, DETACH = 2, 4, 2
libc = ctypes.CDLL(None, use_errno=True)


class HangingMount:
    def __init__(self, path):
        self.path = path
        os.makedirs(path, exist_ok=True)
        self.hanging = threading.Event()  # somebody waits
        self._over = False
        self._thread = None
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % self._device
        if libc.mount(b"hanging", path.encode(), b"fuse", NOSUID | NODEV, options.encode()) != 0:
            os.close(self._device)
            raise OSError(ctypes.get_errno(), "cannot mount")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def release(self):
        """The server is gone: whoever waits gets an error."""
        if not self._over:
            self._over = True
            self._thread.join()
            os.close(self._device)

    def close(self):
        self.release()
        libc.umount2(self.path.encode(), DETACH)

    def _answer(self, unique, body, error=0):
        os.write(self._device, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def _serve(self):
        while not self._over:
            if not select.select([self._device], [], [], 0.02)[0]:
                continue
            try:
                request = os.read(self._device, 1 << 17)
            except OSError:
                continue
            _, opcode, unique = HEADER.unpack_from(request)[:3]
            if opcode == INIT:
                # major, minor, max_readahead, flags, background, congestion, max_write, time_gran, the rest unused
                self._answer(unique, struct.pack("<IIIIHHII", 7, 31, 0, 0, 0, 0, 4096, 1) + bytes(36))
            elif opcode == GETATTR:
                # valid for an hour; then inode, size, blocks, three times, their ns, mode, links, …
                attr = struct.pack("<QQQQQQIIIIIIIIII", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
                self._answer(unique, struct.pack("<QII", 3600, 0, 0) + attr)
            elif opcode == LOOKUP:
                self.hanging.set()
            elif opcode not in (FORGET, BATCH_FORGET):
                self._answer(unique, b"", errno.ENOSYS)  # not asked for again; access is granted
