#include "sdk/cpp/restore.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <new>
#include <set>
#include <tuple>
#include <utility>

#include "sdk/native/copy.h"
#include "sdk/native/load.h"

namespace tide::cpp {
namespace {

constexpr unsigned kLoadThreads = 4;

std::unexpected<tide::Error> Misfit(const StoredCheckpoint& stored, const std::string& why) {
  return Fail(ErrorCode::kInvalidArgument, stored.directory + ": " + why);
}

std::set<std::string> ObjectsOf(const auto& named) {
  std::set<std::string> objects;
  for (const auto& [name, item] : named) {
    objects.emplace(ObjectOf(name));
  }
  return objects;
}

Result<const Leaf*> FindLeaf(const StoredCheckpoint& stored,
                             const Leaves& leaves,
                             const std::string& name) {
  const auto leaf = leaves.find(name);
  if (leaf != leaves.end()) {
    return &leaf->second;
  }
  const std::string object(ObjectOf(name));
  std::string held;
  for (const std::string& other : ObjectsOf(leaves)) {
    if (other == object) {
      return Misfit(stored,
                    name + " is not in it; the program's \"" + object +
                        "\" differs from the one that was saved");
    }
    held += (held.empty() ? "" : ", ") + other;
  }
  return Misfit(stored,
                "it holds no object \"" + object + "\" (it holds " +
                    (held.empty() ? "none" : held) +
                    "); use the names it was saved with, or another folder");
}

// The memory that everything is read into first, and the pieces that lead there.
class Loading {
 public:
  explicit Loading(const StoredCheckpoint& stored) : stored_(stored) {}

  // Errors: kInvalidArgument where the stored tensor is another; kCorrupt.
  Status Want(const std::string& name, const Leaf& leaf, const Tensor& tensor) {
    const auto found = leaf.is_tensor ? stored_.tensors.find(leaf.text) : stored_.tensors.end();
    if (!leaf.is_tensor) {
      return Misfit(stored_, name + " is a value there, and a tensor in the program");
    }
    if (found == stored_.tensors.end()) {
      return Fail(ErrorCode::kCorrupt, "the manifest has no tensor " + leaf.text);
    }
    const StoredTensor& known = found->second;
    if (known.dtype != DtypeName(tensor.dtype) || known.shape != tensor.shape) {
      return Misfit(stored_,
                    name + ": the checkpoint holds " + known.dtype + ShapeText(known.shape) +
                        ", the program has " + std::string(DtypeName(tensor.dtype)) +
                        ShapeText(tensor.shape) +
                        "; use the settings it was saved with, or another folder");
    }
    wanted_.push_back({.name = leaf.text, .known = &known, .target = tensor, .at = bytes_});
    constexpr uint64_t kAlign = 64;
    bytes_ += (static_cast<uint64_t>(BytesOf(tensor)) + kAlign - 1) / kAlign * kAlign;
    return {};
  }

  Status Read(const std::optional<sdk::RingPlace>& ring) {
    memory_.reset(new (std::nothrow) char[bytes_]);
    if (memory_ == nullptr) {
      return Fail(ErrorCode::kSystem,
                  stored_.directory + ": no memory for " + std::to_string(bytes_) +
                      " bytes; a resume needs the state's size twice");
    }
    for (const Wanted& wanted : wanted_) {
      TIDE_TRY(AddPieces(wanted));
    }
    std::sort(pieces_.begin(), pieces_.end(), [](const auto& a, const auto& b) {
      return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
    });
    std::vector<sdk::StoredFile> files;
    for (const StoredFileRecord& file : stored_.files) {
      files.push_back({.path = file.path, .bytes = file.bytes, .crc32 = file.crc32});
    }
    return ring ? sdk::LoadPiecesTogether(*ring, files, pieces_, kLoadThreads)
                : sdk::LoadPieces(files, pieces_, kLoadThreads);
  }

  void PutBack() const {
    std::vector<sdk::CopySpan> spans;
    for (const Wanted& wanted : wanted_) {
      const auto bytes = static_cast<size_t>(BytesOf(wanted.target));
      if (bytes > 0) {
        spans.push_back(
            {.to = wanted.target.data, .from = memory_.get() + wanted.at, .bytes = bytes});
      }
    }
    sdk::CopyAll(spans, kLoadThreads);
  }

 private:
  struct Wanted {
    std::string name;
    const StoredTensor* known = nullptr;
    Tensor target;
    uint64_t at = 0;  // in memory_
  };

  Status AddPieces(const Wanted& wanted) {
    const auto item = static_cast<uint64_t>(ItemBytes(wanted.target.dtype));
    int64_t next = 0;
    std::vector<sdk::Box> boxes;
    for (const StoredPart& part : wanted.known->parts) {
      if (part.offset > stored_.files[part.file].bytes ||
          part.bytes > stored_.files[part.file].bytes - part.offset) {
        return Unfit(wanted);
      }
      if (part.range) {
        if (part.range->first != next || part.range->last < next ||
            part.bytes != static_cast<uint64_t>(part.range->last - next) * item) {
          return Unfit(wanted);
        }
        AddPiece(part,
                 {.bytes = part.bytes, .dims = {}},
                 wanted.at + static_cast<uint64_t>(next) * item);
        next = part.range->last;
      } else {
        TIDE_TRY(AddBox(wanted, part, item));
        boxes.push_back(part.box);
      }
    }
    const int64_t count = CountOf(wanted.target);
    const bool whole =
        boxes.empty() ? next == count || count == 0 : !sdk::FindFlaw(boxes, wanted.known->shape);
    return whole ? Status() : Unfit(wanted);
  }

  // A box lies in the file without gaps; in memory its rows are apart.
  Status AddBox(const Wanted& wanted, const StoredPart& part, uint64_t item) {
    const std::vector<int64_t>& shape = wanted.known->shape;
    if (part.box.size() != shape.size() || (shape.empty() && part.bytes != item)) {
      return Unfit(wanted);
    }
    if (shape.empty()) {
      AddPiece(part, {.bytes = item, .dims = {}}, wanted.at);
      return {};
    }
    uint64_t from_stride = item;  // of the dimension being looked at, from the innermost
    uint64_t to_stride = item;
    uint64_t at = wanted.at;
    std::vector<sdk::RunDim>& dims = dims_.emplace_back();
    for (size_t i = shape.size(); i-- > 0;) {
      const sdk::Side& side = part.box[i];
      if (side.start < 0 || side.stop <= side.start || side.stop > shape[i]) {
        return Unfit(wanted);
      }
      const auto extent = static_cast<uint64_t>(side.stop - side.start);
      dims.push_back({.count = extent, .from_stride = from_stride, .to_stride = to_stride});
      at += static_cast<uint64_t>(side.start) * to_stride;
      from_stride *= extent;
      to_stride *= static_cast<uint64_t>(shape[i]);
    }
    if (from_stride != part.bytes) {
      return Unfit(wanted);
    }
    const uint64_t run = dims.front().count * item;  // the innermost dimension is one run
    dims.erase(dims.begin());
    std::reverse(dims.begin(), dims.end());
    AddPiece(part, {.bytes = run, .dims = dims}, at);
    return {};
  }

  void AddPiece(const StoredPart& part, const sdk::Runs& runs, uint64_t at) {
    if (runs.bytes > 0) {
      pieces_.push_back(
          {.file = part.file, .offset = part.offset, .runs = runs, .to = memory_.get() + at});
    }
  }

  static Status Unfit(const Wanted& wanted) {
    return Fail(ErrorCode::kCorrupt, "the manifest's parts of " + wanted.name + " do not fit");
  }

  const StoredCheckpoint& stored_;
  std::vector<Wanted> wanted_;
  uint64_t bytes_ = 0;
  std::unique_ptr<char[]> memory_;
  std::deque<std::vector<sdk::RunDim>> dims_;  // what pieces point to stays where it is
  std::vector<sdk::StoredPiece> pieces_;
};

Status WantAll(const StoredCheckpoint& stored,
               const Leaves& leaves,
               const std::map<std::string, Tensor>& tensors,
               Loading& loading) {
  for (const auto& [name, tensor] : tensors) {
    TIDE_ASSIGN(const Leaf* const leaf, FindLeaf(stored, leaves, name));
    TIDE_TRY(loading.Want(name, *leaf, tensor));
  }
  const std::set<std::string> objects = ObjectsOf(tensors);
  for (const auto& [name, leaf] : leaves) {
    if (leaf.is_tensor && objects.contains(std::string(ObjectOf(name))) &&
        !tensors.contains(name)) {
      return Misfit(stored,
                    "it holds the tensor " + name +
                        ", which the program has not; use the program it was saved by");
    }
  }
  return {};
}

}  // namespace

Status Restore(const StoredCheckpoint& stored,
               const Objects& objects,
               const std::optional<sdk::RingPlace>& ring) {
  Loading loading(stored);
  TIDE_TRY(WantAll(stored, stored.shared, objects.replicated, loading));
  if (stored.local) {
    TIDE_TRY(WantAll(stored, *stored.local, objects.local, loading));
  }
  std::vector<std::pair<Value, Decoded>> values;
  for (const auto& [name, value] : objects.global) {
    TIDE_ASSIGN(const Leaf* const leaf, FindLeaf(stored, stored.global, name));
    Result<Decoded> decoded = DecodeValue(leaf->text, value);
    if (leaf->is_tensor || !decoded) {
      return Misfit(stored,
                    name + " is stored as " + leaf->text.substr(0, 60) +
                        ", which does not fit the program's variable; use its type");
    }
    values.emplace_back(value, std::move(*decoded));
  }
  TIDE_TRY(loading.Read(ring));
  loading.PutBack();
  for (auto& [value, decoded] : values) {
    PutBack(value, std::move(decoded));
  }
  return {};
}

}  // namespace tide::cpp
