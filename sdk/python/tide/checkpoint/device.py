"""Tensors on a GPU: bytes that stay there until a save copies them, by the driver, into its staging slot."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Optional, Tuple, Union


class DeviceBytes:
    """A part of a torch tensor's memory on a device. Slices as a memoryview does.

      device: the process's number of it; stream: the CUstream whose work comes before a copy.
    """

    __slots__ = ("_flat", "_first", "nbytes", "device", "stream")

    def __init__(self, tensor: Any, device: int, stream: int) -> None:
        """tensor: contiguous."""
        self._flat = tensor.reshape(-1).view(sys.modules["torch"].uint8) if tensor.numel() else tensor.reshape(-1)
        self._first, self.nbytes = 0, tensor.numel() * tensor.element_size()
        self.device, self.stream = device, stream

    @property
    def address(self) -> int:
        """Of the first byte, on the device."""
        return self._flat.data_ptr() + self._first

    def __getitem__(self, bounds: slice) -> "DeviceBytes":
        first, last, _ = bounds.indices(self.nbytes)
        part = object.__new__(DeviceBytes)
        part._flat, part.device, part.stream = self._flat, self.device, self.stream
        part._first, part.nbytes = self._first + first, max(0, last - first)
        return part

    def __bytes__(self) -> bytes:
        if self.nbytes == 0:
            return b""
        copied = self._flat[self._first:self._first + self.nbytes].cpu()
        return ctypes.string_at(copied.data_ptr(), self.nbytes)


def place_of(tensor: Any) -> Optional[Tuple[int, int]]:
    """(device, current stream) of a torch tensor on a GPU; None for one in main memory."""
    if not getattr(tensor, "is_cuda", False):
        return None
    index = tensor.get_device()
    return index, int(sys.modules["torch"].cuda.current_stream(index).cuda_stream)


def in_memory(data: "Union[memoryview, DeviceBytes]") -> memoryview:
    """The bytes, copied if they are on a device."""
    return memoryview(bytes(data)) if isinstance(data, DeviceBytes) else data
