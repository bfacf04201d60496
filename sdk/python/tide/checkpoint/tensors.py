"""Tensors of torch, numpy and the standard library's array as (dtype, shape, bytes), by duck typing.

torch and numpy are looked up in sys.modules: a tensor can only exist if its library is imported, so this package
never imports them. Bytes are little endian, row-major.
"""

from __future__ import annotations

import array
import ctypes
import math
import sys
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

from .._errors import CheckpointError
from . import device

# Library's dtype name -> safetensors dtype.
CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "complex64": "C64",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}
NAMES = {code: name for name, code in CODES.items()}
ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "C64": 8, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
              "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}
_TYPECODES = {"I8": "b", "U8": "B", "I16": "h", "U16": "H", "I32": "i", "U32": "I", "I64": "q", "U64": "Q",
              "F32": "f", "F64": "d"}


class View(NamedTuple):
    """A tensor's bytes. data: flat, nbytes long; owner: keeps the memory alive; address: of the first byte, 0 where
    only `data` knows it."""

    lib: str
    dtype: str
    shape: Tuple[int, ...]
    data: "Union[memoryview, device.DeviceBytes]"
    owner: Any
    address: int = 0


class RawTensor(NamedTuple):
    """A stored tensor whose library is not imported in this process."""

    dtype: str
    shape: Tuple[int, ...]
    data: bytes


def library(value: Any) -> Optional[str]:
    """Which library's tensor `value` is: "torch", "numpy", "array", "raw", or None."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return "numpy"
    if isinstance(value, array.array):
        return "array"
    return "raw" if isinstance(value, RawTensor) else None


def view(value: Any, path: str) -> View:
    """The bytes of a tensor, without a copy where it is contiguous and in main memory.

      Errors: CheckpointError naming `path` for layouts and dtypes that cannot be stored.
    """
    lib = library(value)
    if lib == "torch":
        return _view_torch(value, path)
    if lib == "numpy":
        if value.dtype.byteorder == ">":
            value = value.astype(value.dtype.newbyteorder("<"))
        code = _code(value.dtype.name, path)
        owner = value if value.flags.c_contiguous else value.copy(order="C")
        return View(lib, code, tuple(value.shape), _memory(owner.ctypes.data, value.nbytes), owner, owner.ctypes.data)
    if lib == "array":
        kind = {"f": "F", "d": "F"}.get(value.typecode, "U" if value.typecode.isupper() else "I")
        if value.typecode == "u":
            raise CheckpointError(f"{path}: a unicode array cannot be stored; use a str")
        data = memoryview(value).cast("B") if len(value) else memoryview(b"")
        return View(lib, f"{kind}{value.itemsize * 8}", (len(value),), data, value, value.buffer_info()[0])
    return View("raw", value.dtype, tuple(value.shape), memoryview(value.data), value)


def allocate(lib: str, dtype: str, shape: Sequence[int]) -> "Tuple[Any, int] | None":
    """A new tensor of `lib` in main memory with any content, and its address. None where build() has to make it."""
    module = sys.modules.get(lib)
    elements = count(shape)
    if lib == "array" and dtype in _TYPECODES:
        flat = array.array(_TYPECODES[dtype], bytes(ITEM_BYTES[dtype])) * elements
        return flat, flat.buffer_info()[0]
    native = getattr(module, NAMES[dtype], None) if lib == "torch" else NAMES[dtype]
    if lib not in ("torch", "numpy") or module is None or native is None:
        return None
    made = module.empty(tuple(shape), dtype=native)
    return made, made.data_ptr() if lib == "torch" else made.ctypes.data


def build(lib: Optional[str], dtype: str, shape: Sequence[int], data: "bytes | bytearray") -> Any:
    """A new tensor of `lib` in main memory, or a RawTensor where that library is not imported."""
    module = sys.modules.get(lib or "")
    if lib == "array":
        return array.array(_TYPECODES[dtype], bytes(data))
    native = getattr(module, NAMES[dtype], None) if lib == "torch" else NAMES[dtype]
    if lib not in ("torch", "numpy") or module is None or native is None:
        return RawTensor(dtype, tuple(shape), bytes(data))
    result = module.empty(tuple(shape), dtype=native)
    address = result.data_ptr() if lib == "torch" else result.ctypes.data
    if len(data):
        ctypes.memmove(address, bytes(data), len(data))
    return result


def fill(target: Any, value: Any, path: str) -> None:
    """Writes one tensor into another of the same dtype and shape, of any library.

      Errors: CheckpointError where dtype or shape differ.
    """
    lib = library(target)
    if library(value) != lib:
        seen = view(value, path)
        value = build(lib, seen.dtype, seen.shape, bytes(seen.data))
    shape, dtype = signature(value, path)
    require_same(target, dtype, shape, path)
    if lib == "torch":
        torch = sys.modules["torch"]
        with torch.no_grad():
            target.copy_(value)
    elif lib == "numpy":
        target[...] = value
    else:
        target[:] = value


def require_same(target: Any, dtype: str, shape: Sequence[int], path: str,
                 shape_now: Optional[Tuple[int, ...]] = None) -> None:
    """shape_now: of the whole that `target` is a part of; default: its own.

      Errors: CheckpointError where the program's tensor and the stored one differ in dtype or shape.
    """
    now_shape, now_dtype = signature(target, path)
    now_shape = now_shape if shape_now is None else shape_now
    if now_shape != tuple(shape) or now_dtype != dtype:
        raise CheckpointError(f"{path}: the checkpoint holds {dtype}{list(shape)}, the program has "
                              f"{now_dtype}{list(now_shape)}; use the settings it was saved with, or another folder")


def signature(value: Any, path: str) -> "tuple[tuple[int, ...], str]":
    """(shape, dtype code) of a tensor, without touching its data."""
    if library(value) == "torch":
        return tuple(value.shape), _code(str(value.dtype).replace("torch.", ""), path)
    if library(value) == "numpy":
        return tuple(value.shape), _code(value.dtype.name, path)
    seen = view(value, path)
    return seen.shape, seen.dtype


def count(shape: Sequence[int]) -> int:
    """Elements of a tensor of this shape."""
    return math.prod(shape)


def _view_torch(value: Any, path: str) -> View:
    if hasattr(value, "device_mesh") or hasattr(value, "local_shards"):
        raise CheckpointError(f"{path}: a tensor that no rank holds whole; give a DTensor's object under sharded=, and of a "
                              "ShardedTensor this rank's part as tide.Shard(local tensor, offsets, global shape)")
    if str(value.layout) != "torch.strided" or getattr(value, "is_quantized", False):
        raise CheckpointError(f"{path}: sparse and quantized tensors cannot be stored; store their dense parts")
    plain = value.detach()
    for resolve in ("resolve_conj", "resolve_neg"):
        if hasattr(plain, resolve):
            plain = getattr(plain, resolve)()
    code = _code(str(plain.dtype).replace("torch.", ""), path)
    place = device.place_of(plain)
    if place is not None:
        plain = plain.contiguous()
        return View("torch", code, tuple(plain.shape), device.DeviceBytes(plain, *place), plain)
    plain = plain.cpu().contiguous()
    nbytes = plain.numel() * plain.element_size()
    return View("torch", code, tuple(plain.shape), _memory(plain.data_ptr(), nbytes), plain, plain.data_ptr())


def _memory(address: int, nbytes: int) -> memoryview:
    if nbytes == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B")


def _code(name: str, path: str) -> str:
    if name not in CODES:
        raise CheckpointError(f"{path}: tensors of type {name} cannot be stored; convert it in state_dict()")
    return CODES[name]
