"""Boxes: parts of a tensor, [start, stop) in each dimension, and how bytes get from one into another.

A box's bytes are row-major over the box alone, wherever they are stored. The box of a tensor without dimensions is ().
"""

from __future__ import annotations

import math
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

Box = Tuple[Tuple[int, int], ...]


class Strided(NamedTuple):
    """Runs of bytes that two boxes share. from_, to: where the first run is in the one and in the other; nbytes: of
    each run; dims: (how often, bytes from one to the next in from, the same in to), outermost first. Runs do not
    overlap, and come in the order of `from`."""

    from_: int
    to: int
    nbytes: int
    dims: Tuple[Tuple[int, int, int], ...] = ()


class Flaw(NamedTuple):
    """Why boxes are no partition. where: a box that nobody has, or that more than one has."""

    is_hole: bool
    where: Box


def whole(shape: Sequence[int]) -> Box:
    return tuple((0, size) for size in shape)


def at(offsets: Sequence[int], sizes: Sequence[int]) -> Box:
    """The box of this size that begins there."""
    return tuple((offset, offset + size) for offset, size in zip(offsets, sizes))


def extents(box: Box) -> Tuple[int, ...]:
    return tuple(stop - start for start, stop in box)


def volume(box: Box) -> int:
    """Elements in it."""
    return math.prod(extents(box))


def is_within(box: Box, shape: Sequence[int]) -> bool:
    return len(box) == len(shape) and all(0 <= start <= stop <= size for (start, stop), size in zip(box, shape))


def contains(box: Box, inner: Box) -> bool:
    """True if all of `inner` is in it."""
    return all(start <= first and last <= stop for (start, stop), (first, last) in zip(box, inner))


def around(one: Box, other: Box) -> Box:
    """The smallest box that holds both."""
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(one, other))


def text(box: Box) -> str:
    """As a person would index it: "[0:4, 2:6]"."""
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in box) + "]"


def intersect(one: Box, other: Box) -> Optional[Box]:
    """What both hold of a tensor, None if that is nothing."""
    both = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other))
    return both if all(start < stop for start, stop in both) else None


def of_range(first: int, last: int, shape: Sequence[int]) -> Iterator[Tuple[Box, int]]:
    """(box, elements before it) for a stretch [first, last) of the row-major tensor.

    At most two boxes for each dimension, each of which lies in the stretch without a gap.
    """
    position = first
    while position < last:
        # The largest block of whole inner dimensions that starts here, then as many of it as fit.
        block, dim = 1, len(shape)
        while dim > 0 and position % (block * shape[dim - 1]) == 0 and position + block * shape[dim - 1] <= last:
            dim -= 1
            block *= shape[dim]
        if dim == 0:
            yield whole(shape), position - first
            return
        index = position // block
        place = index % shape[dim - 1]
        many = min(shape[dim - 1] - place, (last - position) // block)
        outer, rest = [], index // shape[dim - 1]
        for size in reversed(shape[:dim - 1]):
            outer.append((rest % size, rest % size + 1))
            rest //= size
        yield (*reversed(outer), (place, place + many), *whole(shape[dim:])), position - first
        position += many * block


def runs(source: Box, target: Box, item_bytes: int) -> Optional[Strided]:
    """How what `source` holds of `target` gets there, None if it holds nothing of it."""
    both = intersect(source, target)
    if both is None:
        return None
    from_ = to = 0
    dims: List[Tuple[int, int, int]] = []  # innermost first
    nbytes = from_stride = to_stride = item_bytes
    for (start, stop), (low, high), (left, right) in reversed(list(zip(both, source, target))):
        from_ += (start - low) * from_stride
        to += (start - left) * to_stride
        many = stop - start
        if not dims and from_stride == to_stride == nbytes:
            nbytes *= many
        elif dims and (from_stride, to_stride) == (dims[-1][0] * dims[-1][1], dims[-1][0] * dims[-1][2]):
            dims[-1] = (dims[-1][0] * many, *dims[-1][1:])
        elif many > 1:
            dims.append((many, from_stride, to_stride))
        from_stride *= high - low
        to_stride *= right - left
    return Strided(from_, to, nbytes, tuple(reversed(dims)))


def copy(strided: Strided, source: memoryview, target: memoryview) -> None:
    """Copies the runs. source, target: bytes, from the boxes' first on."""
    for from_, to in _places(strided.dims, strided.from_, strided.to):
        target[to:to + strided.nbytes] = source[from_:from_ + strided.nbytes]


def end(strided: Strided) -> int:
    """Where the last run ends in `from`."""
    return strided.from_ + strided.nbytes + sum((many - 1) * stride for many, stride, _ in strided.dims)


def flaw(boxes: Sequence[Box], shape: Sequence[int]) -> Optional[Flaw]:
    """Where boxes fail to be an exact partition of a tensor; None if they are one.

      boxes: none is empty, all are within the shape.
      Cost: O(n log n) for boxes in a grid.
    """
    return None if 0 in shape else _flaw(list(boxes), shape, ())


def _flaw(boxes: List[Box], shape: Sequence[int], outer: Box) -> Optional[Flaw]:
    """Cuts a dimension where boxes begin or end, and looks at each slab by itself."""
    dim = len(outer)
    if dim == len(shape) or not boxes:
        return None if len(boxes) == 1 else Flaw(not boxes, outer + whole(shape[dim:]))
    cuts = sorted({0, shape[dim], *(border for box in boxes for border in box[dim])})
    waiting = sorted(boxes, key=lambda box: box[dim][0], reverse=True)
    active: List[Box] = []
    for low, high in zip(cuts, cuts[1:]):
        active = [box for box in active if box[dim][1] > low]
        while waiting and waiting[-1][dim][0] == low:
            active.append(waiting.pop())
        found = _flaw(active, shape, (*outer, (low, high)))
        if found is not None:
            return found
    return None


def _places(dims: Sequence[Tuple[int, int, int]], from_: int, to: int) -> Iterator[Tuple[int, int]]:
    if not dims:
        yield from_, to
        return
    many, from_stride, to_stride = dims[0]
    for index in range(many):
        yield from _places(dims[1:], from_ + index * from_stride, to + index * to_stride)
