#include "sdk/native/box.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tide::sdk {
namespace {

// A box by its borders.
using Borders = const int64_t*;

int64_t StartOf(Borders box, size_t dim) {
  return box[2 * dim];
}

int64_t StopOf(Borders box, size_t dim) {
  return box[2 * dim + 1];
}

std::vector<int64_t> CutsOf(std::span<const Borders> boxes, size_t dim, int64_t size) {
  std::vector<int64_t> cuts = {0, size};
  for (const Borders box : boxes) {
    cuts.push_back(StartOf(box, dim));
    cuts.push_back(StopOf(box, dim));
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

// Tells whether a box is as large as the tensor from dimension `dim` on.
bool FillsFrom(Borders box, size_t dim, std::span<const int64_t> shape) {
  for (; dim < shape.size(); ++dim) {
    if (StartOf(box, dim) != 0 || StopOf(box, dim) != shape[dim]) {
      return false;
    }
  }
  return true;
}

// Cuts a dimension where boxes begin or end, and looks at each slab by itself.
//   outer: the slab that is looked at, in the dimensions before.
std::optional<BoxFlaw> FlawIn(std::vector<Borders> boxes,
                              std::span<const int64_t> shape,
                              const Box& outer) {
  const size_t dim = outer.size();
  if (dim == shape.size() || boxes.empty()) {
    if (boxes.size() == 1) {
      return std::nullopt;
    }
    BoxFlaw flaw{.is_hole = boxes.empty(), .where = outer};
    for (const int64_t size : shape.subspan(dim)) {
      flaw.where.push_back({0, size});
    }
    return flaw;
  }
  std::stable_sort(boxes.begin(), boxes.end(), [dim](Borders a, Borders b) {
    return StartOf(a, dim) < StartOf(b, dim);
  });
  const std::vector<int64_t> cuts = CutsOf(boxes, dim, shape[dim]);
  std::vector<Borders> active;
  size_t next = 0;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::erase_if(active, [&](Borders box) { return StopOf(box, dim) <= cuts[i]; });
    for (; next < boxes.size() && StartOf(boxes[next], dim) == cuts[i]; ++next) {
      active.push_back(boxes[next]);
    }
    // Most slabs are one rank's alone.
    if (active.size() == 1 && FillsFrom(active.front(), dim + 1, shape)) {
      continue;
    }
    Box slab = outer;
    slab.push_back({cuts[i], cuts[i + 1]});
    if (std::optional<BoxFlaw> flaw = FlawIn(active, shape, slab)) {
      return flaw;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string BoxText(const Box& box) {
  std::string text = "[";
  for (const Side& side : box) {
    text += (text.size() == 1 ? "" : ", ") + std::to_string(side.start) + ":" +
            std::to_string(side.stop);
  }
  return text + "]";
}

std::optional<BoxFlaw> FindFlaw(std::span<const Box> boxes, std::span<const int64_t> shape) {
  std::vector<int64_t> borders;
  borders.reserve(2 * boxes.size() * shape.size() + 1);  // what is pointed to stays where it is
  std::vector<Borders> all;
  for (const Box& box : boxes) {
    all.push_back(borders.data() + borders.size());
    for (const Side& side : box) {
      borders.insert(borders.end(), {side.start, side.stop});
    }
  }
  return FindFlawIn(std::move(all), shape);
}

std::optional<BoxFlaw> FindFlawIn(std::vector<const int64_t*> boxes,
                                  std::span<const int64_t> shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return std::nullopt;
  }
  return FlawIn(std::move(boxes), shape, {});
}

uint64_t Runs::FromExtent() const {
  uint64_t extent = bytes;
  for (const RunDim& dim : dims) {
    extent += (dim.count - 1) * dim.from_stride;
  }
  return extent;
}

uint64_t Runs::ToExtent() const {
  uint64_t extent = bytes;
  for (const RunDim& dim : dims) {
    extent += (dim.count - 1) * dim.to_stride;
  }
  return extent;
}

void CopyRuns(const Runs& runs, uint64_t begin, uint64_t until, const char* from, char* to) {
  // The last run that starts at or before `begin`: it may reach into the stretch.
  std::vector<uint64_t> index(runs.dims.size());
  uint64_t at = 0;
  for (size_t k = 0; k < index.size(); ++k) {
    const RunDim& dim = runs.dims[k];
    index[k] = begin > at ? std::min((begin - at) / dim.from_stride, dim.count - 1) : 0;
    at += index[k] * dim.from_stride;
    to += index[k] * dim.to_stride;
  }
  while (at < until) {
    const uint64_t first = std::max(begin, at);
    const uint64_t last = std::min(until, at + runs.bytes);
    if (first < last) {
      std::memcpy(to + (first - at), from + (first - begin), last - first);
    }
    // The next run: a step in the innermost dimension that has one left, the ones inside it anew.
    size_t k = index.size();
    for (; k > 0; --k) {
      const RunDim& dim = runs.dims[k - 1];
      if (++index[k - 1] < dim.count) {
        at += dim.from_stride;
        to += dim.to_stride;
        break;
      }
      index[k - 1] = 0;
      at -= (dim.count - 1) * dim.from_stride;
      to -= (dim.count - 1) * dim.to_stride;
    }
    if (k == 0) {
      return;
    }
  }
}

}  // namespace tide::sdk
