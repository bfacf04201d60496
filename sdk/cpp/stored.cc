#include "sdk/cpp/stored.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <set>
#include <utility>

#include "common/base/file.h"
#include "sdk/native/data_file.h"
#include "sdk/native/folder.h"
#include "sdk/native/json_text.h"
#include "sdk/native/part.h"
#include "sdk/native/sections.h"

namespace tide::cpp {
namespace {

using sdk::JsonElements;
using sdk::JsonInteger;
using sdk::JsonMember;
using sdk::JsonMemberOf;
using sdk::JsonMembers;
using sdk::JsonString;

constexpr int kMostTreeDepth = 100;

using FileNumbers = std::map<std::string, uint64_t>;

std::unexpected<tide::Error> Unfit(const std::string& what) {
  return Fail(ErrorCode::kCorrupt, "the manifest's record of " + what + " does not fit");
}

Result<int64_t> NumberAt(std::string_view object, std::string_view key) {
  TIDE_ASSIGN(const std::string_view value, JsonMemberOf(object, key));
  TIDE_ASSIGN(const int64_t number, JsonInteger(value));
  if (number < 0) {
    return Unfit(std::string(key));
  }
  return number;
}

Result<std::vector<int64_t>> NumbersIn(std::string_view array) {
  TIDE_ASSIGN(const std::vector<std::string_view> items, JsonElements(array));
  std::vector<int64_t> numbers;
  for (const std::string_view item : items) {
    TIDE_ASSIGN(const int64_t number, JsonInteger(item));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::vector<uint32_t>> CrcsIn(std::string_view array) {
  TIDE_ASSIGN(const std::vector<std::string_view> items, JsonElements(array));
  std::vector<uint32_t> crcs;
  for (const std::string_view item : items) {
    TIDE_ASSIGN(const std::string text, JsonString(item));
    uint32_t crc = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), crc, 16);
    if (error != std::errc() || end != text.data() + text.size()) {
      return Unfit("a CRC-32");
    }
    crcs.push_back(crc);
  }
  return crcs;
}

Result<FileNumbers> ReadFiles(std::string_view manifest, StoredCheckpoint& stored) {
  TIDE_ASSIGN(const std::string_view object, JsonMemberOf(manifest, "files"));
  TIDE_ASSIGN(const std::vector<JsonMember> files, JsonMembers(object));
  FileNumbers numbers;
  for (const JsonMember& file : files) {
    TIDE_ASSIGN(const std::string name, JsonString(file.key));
    if (name.empty() || name.find('/') != std::string::npos) {
      return Fail(ErrorCode::kCorrupt, "the manifest names a file outside the folder: " + name);
    }
    TIDE_ASSIGN(const int64_t bytes, NumberAt(file.value, "bytes"));
    TIDE_ASSIGN(const std::string_view array, JsonMemberOf(file.value, "crc32"));
    TIDE_ASSIGN(std::vector<uint32_t> crcs, CrcsIn(array));
    numbers.emplace(name, stored.files.size());
    stored.files.push_back({.path = stored.directory + "/" + name,
                            .bytes = static_cast<uint64_t>(bytes),
                            .crc32 = std::move(crcs)});
  }
  return numbers;
}

Result<sdk::Box> ReadBox(std::string_view text) {
  TIDE_ASSIGN(const std::vector<std::string_view> sides, JsonElements(text));
  sdk::Box box;
  for (const std::string_view side : sides) {
    TIDE_ASSIGN(const std::vector<int64_t> ends, NumbersIn(side));
    if (ends.size() != 2) {
      return Unfit("a box");
    }
    box.push_back({.start = ends[0], .stop = ends[1]});
  }
  return box;
}

Result<StoredPart> ReadPart(std::string_view text, const FileNumbers& numbers) {
  StoredPart part;
  TIDE_ASSIGN(const std::string_view quoted, JsonMemberOf(text, "file"));
  TIDE_ASSIGN(const std::string file, JsonString(quoted));
  const auto number = numbers.find(file);
  if (number == numbers.end()) {
    return Unfit(file);
  }
  part.file = number->second;
  TIDE_ASSIGN(const int64_t offset, NumberAt(text, "offset"));
  TIDE_ASSIGN(const int64_t bytes, NumberAt(text, "length"));
  part.offset = static_cast<uint64_t>(offset);
  part.bytes = static_cast<uint64_t>(bytes);
  if (const Result<std::string_view> range = JsonMemberOf(text, "range")) {
    TIDE_ASSIGN(const std::vector<int64_t> ends, NumbersIn(*range));
    if (ends.size() != 2) {
      return Unfit("a range");
    }
    part.range = Range{.first = ends[0], .last = ends[1]};
    return part;
  }
  TIDE_ASSIGN(const std::string_view box, JsonMemberOf(text, "box"));
  TIDE_ASSIGN(part.box, ReadBox(box));
  return part;
}

// A tensor's type and shape.
Result<StoredTensor> ReadKind(std::string_view text) {
  StoredTensor tensor;
  TIDE_ASSIGN(const std::string_view dtype, JsonMemberOf(text, "dtype"));
  TIDE_ASSIGN(tensor.dtype, JsonString(dtype));
  TIDE_ASSIGN(const std::string_view shape, JsonMemberOf(text, "shape"));
  TIDE_ASSIGN(tensor.shape, NumbersIn(shape));
  return tensor;
}

Result<StoredTensor> ReadTensor(std::string_view text, const FileNumbers& numbers) {
  TIDE_ASSIGN(StoredTensor tensor, ReadKind(text));
  TIDE_ASSIGN(const std::string_view array, JsonMemberOf(text, "parts"));
  TIDE_ASSIGN(const std::vector<std::string_view> parts, JsonElements(array));
  for (const std::string_view item : parts) {
    TIDE_ASSIGN(StoredPart part, ReadPart(item, numbers));
    tensor.parts.push_back(std::move(part));
  }
  return tensor;
}

// Errors: kCorrupt where that is no size of memory.
Result<int64_t> ElementsIn(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) {
      return Unfit("a shape");
    }
  }
  return count;
}

// Bytes of so many elements. Errors: kCorrupt.
Result<uint64_t> BytesIn(const std::string& dtype, const std::vector<int64_t>& extents) {
  TIDE_ASSIGN(int64_t bytes, ElementsIn(extents));
  if (__builtin_mul_overflow(bytes, ItemBytesOf(dtype), &bytes)) {
    return Unfit("a shape");
  }
  return static_cast<uint64_t>(bytes);
}

// Every leaf of a typed tree, by the path at which Python has it.
class Walk {
 public:
  explicit Walk(Leaves& leaves) : leaves_(leaves) {}

  Status Visit(std::string_view node, const std::string& path, int depth = 0) {
    if (depth > kMostTreeDepth) {
      return Unfit(path);
    }
    if (node.starts_with('[')) {
      TIDE_ASSIGN(const std::vector<std::string_view> items, JsonElements(node));
      for (size_t i = 0; i < items.size(); ++i) {
        TIDE_TRY(Visit(items[i], path + "." + std::to_string(i), depth + 1));
      }
      return {};
    }
    if (!node.starts_with('{')) {
      leaves_.insert_or_assign(path, Leaf{.is_tensor = false, .text = std::string(node)});
      return {};
    }
    TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(node));
    const bool is_tagged = !members.empty() && members[0].key.starts_with("\"$");
    if (is_tagged) {
      return VisitTagged(members[0], node, path, depth);
    }
    for (const JsonMember& member : members) {
      TIDE_ASSIGN(const std::string key, JsonString(member.key));
      TIDE_TRY(Visit(member.value, path + "." + key, depth + 1));
    }
    return {};
  }

 private:
  Status VisitTagged(const JsonMember& tagged,
                     std::string_view node,
                     const std::string& path,
                     int depth) {
    if (tagged.key == "\"$tensor\"") {
      TIDE_ASSIGN(std::string name, JsonString(tagged.value));
      leaves_.insert_or_assign(path, Leaf{.is_tensor = true, .text = std::move(name)});
      return {};
    }
    if (tagged.key == "\"$dict\"" || tagged.key == "\"$odict\"") {
      return VisitPairs(tagged.value, path, depth);
    }
    if (tagged.key == "\"$tuple\"") {
      return Visit(tagged.value, path, depth + 1);
    }
    leaves_.insert_or_assign(path, Leaf{.is_tensor = false, .text = std::string(node)});
    return {};
  }

  Status VisitPairs(std::string_view array, const std::string& path, int depth) {
    TIDE_ASSIGN(const std::vector<std::string_view> pairs, JsonElements(array));
    for (const std::string_view pair : pairs) {
      TIDE_ASSIGN(const std::vector<std::string_view> items, JsonElements(pair));
      if (items.size() != 2) {
        return Unfit(path);
      }
      // Keys that are no strings, such as an optimizer's numbers, stand as they are written.
      const std::string key = JsonString(items[0]).value_or(std::string(items[0]));
      TIDE_TRY(Visit(items[1], path + "." + key, depth + 1));
    }
    return {};
  }

  Leaves& leaves_;
};

Status AddLeaves(std::string_view trees, Leaves& leaves) {
  TIDE_ASSIGN(const std::vector<JsonMember> objects, JsonMembers(trees));
  for (const JsonMember& object : objects) {
    TIDE_ASSIGN(const std::string name, JsonString(object.key));
    TIDE_TRY(Walk(leaves).Visit(object.value, name));
  }
  return {};
}

Status ReadTrees(std::string_view manifest, StoredCheckpoint& stored) {
  TIDE_ASSIGN(const std::string_view groups, JsonMemberOf(manifest, "objects"));
  TIDE_ASSIGN(const std::string_view replicated, JsonMemberOf(groups, "replicated"));
  TIDE_ASSIGN(const std::string_view global, JsonMemberOf(groups, "global"));
  // Checkpoints of an earlier SDK have no sharded state.
  TIDE_TRY(AddLeaves(JsonMemberOf(groups, "sharded").value_or("{}"), stored.shared));
  TIDE_TRY(AddLeaves(replicated, stored.shared));
  return AddLeaves(global, stored.global);
}

// Local state in `tide-checkpoint/1`.
Status ReadOldRanks(std::string_view array, int64_t rank, StoredCheckpoint& stored) {
  TIDE_ASSIGN(const std::vector<std::string_view> ranks, JsonElements(array));
  if (std::cmp_less(rank, ranks.size())) {
    stored.local.emplace();
    TIDE_TRY(AddLeaves(ranks[static_cast<size_t>(rank)], *stored.local));
  }
  return {};
}

// RANKS.bin: local state of this rank, and where the boxes of tensors are.
class RanksReader {
 public:
  RanksReader(StoredCheckpoint& stored, const FileNumbers& numbers)
      : stored_(stored), numbers_(numbers), path_(stored.directory + "/" + kName) {}

  Status Read(std::string_view records, std::string_view boxes, int64_t rank) {
    TIDE_ASSIGN(const std::vector<std::string_view> items, JsonElements(records));
    for (const std::string_view item : items) {
      TIDE_ASSIGN(const sdk::SectionRecord record, sdk::ParseSectionRecord(item));
      starts_.push_back(bytes_);
      records_.push_back(record);
      bytes_ += record.text + record.table;
    }
    TIDE_TRY(Open());
    TIDE_TRY(ReadBoxed(boxes));
    std::vector<int64_t> rows;
    if (Status found = sdk::FindRows(
            fd_.get(), records_, {.dims = dims_, .places = places_, .borders = borders_}, rows);
        !found) {
      tide::Error error = found.error();
      error.message = kName + (", " + error.message);
      return std::unexpected(std::move(error));
    }
    TIDE_TRY(AddParts(rows));
    return std::cmp_less(rank, records_.size()) ? ReadLocal(static_cast<size_t>(rank)) : Status();
  }

 private:
  static constexpr const char* kName = "RANKS.bin";

  Status Open() {
    fd_ = Fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat info{};
    if (!fd_.valid()) {
      return errno == ENOENT ? Fail(ErrorCode::kCorrupt, std::string(kName) + " is missing")
                             : FailErrno("cannot open " + path_, errno);
    }
    if (::fstat(fd_.get(), &info) != 0) {
      return FailErrno("cannot look at " + path_, errno);
    }
    if (static_cast<uint64_t>(info.st_size) != bytes_) {
      return Fail(ErrorCode::kCorrupt,
                  std::string(kName) + " has " + std::to_string(info.st_size) +
                      " bytes instead of " + std::to_string(bytes_));
    }
    return {};
  }

  // All of every boxed tensor is wanted.
  Status ReadBoxed(std::string_view boxes) {
    TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(boxes));
    for (const JsonMember& member : members) {
      TIDE_ASSIGN(const std::string name, JsonString(member.key));
      TIDE_ASSIGN(StoredTensor tensor, ReadKind(member.value));
      dims_.push_back(tensor.shape.size());
      places_.push_back(static_cast<int64_t>(borders_.size()));
      for (const int64_t size : tensor.shape) {
        borders_.insert(borders_.end(), {0, size});
      }
      const auto [known, is_new] = stored_.tensors.emplace(name, std::move(tensor));
      if (!is_new) {
        return Unfit(name);
      }
      boxed_.push_back(&known->second);
    }
    return {};
  }

  Status AddParts(std::span<const int64_t> words) {
    constexpr size_t kHead = 3;  // rank, tensor, offset
    std::set<std::pair<int64_t, sdk::Box>> seen;
    std::map<int64_t, uint64_t> files;
    while (!words.empty()) {
      const int64_t rank = words[0];
      const int64_t number = words[1];
      StoredTensor& tensor = *boxed_[static_cast<size_t>(number)];
      StoredPart part;
      part.offset = static_cast<uint64_t>(words[2]);
      std::vector<int64_t> extents;
      for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
        const sdk::Side side{.start = words[kHead + 2 * dim], .stop = words[kHead + 2 * dim + 1]};
        if (side.start < 0 || side.stop > tensor.shape[dim]) {
          return Unfit("a box");
        }
        extents.push_back(side.stop - side.start);
        part.box.push_back(side);
      }
      if (words[2] < 0) {
        return Unfit("a box");
      }
      words = words.subspan(kHead + 2 * tensor.shape.size());
      TIDE_ASSIGN(part.bytes, BytesIn(tensor.dtype, extents));
      // A copy of a box that a lower rank has stored, too.
      if (!seen.emplace(number, part.box).second) {
        continue;
      }
      if (!files.contains(rank)) {
        TIDE_ASSIGN(const std::string text, TextOf(static_cast<size_t>(rank)));
        TIDE_ASSIGN(files[rank], FileOf(text));
      }
      part.file = files[rank];
      tensor.parts.push_back(std::move(part));
    }
    return {};
  }

  Status ReadLocal(size_t rank) {
    TIDE_ASSIGN(const std::string text, TextOf(rank));
    TIDE_ASSIGN(const uint64_t file, FileOf(text));
    TIDE_ASSIGN(const std::string_view tensors, JsonMemberOf(text, "tensors"));
    TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(tensors));
    for (const JsonMember& member : members) {
      TIDE_ASSIGN(const std::string name, JsonString(member.key));
      TIDE_ASSIGN(StoredTensor tensor, ReadKind(member.value));
      TIDE_ASSIGN(const int64_t offset, NumberAt(member.value, "offset"));
      StoredPart part;
      part.file = file;
      part.offset = static_cast<uint64_t>(offset);
      TIDE_ASSIGN(part.bytes, BytesIn(tensor.dtype, tensor.shape));
      TIDE_ASSIGN(const int64_t count, ElementsIn(tensor.shape));
      part.range = Range{.first = 0, .last = count};
      tensor.parts.push_back(std::move(part));
      stored_.tensors.emplace(name, std::move(tensor));
    }
    TIDE_ASSIGN(const std::string_view trees, JsonMemberOf(text, "local"));
    stored_.local.emplace();
    return AddLeaves(trees, *stored_.local);
  }

  // Read again: FindRows() has compared it with its CRC.
  Result<std::string> TextOf(size_t rank) {
    std::string text(records_[rank].text, '\0');
    const ssize_t n =
        ::pread(fd_.get(), text.data(), text.size(), static_cast<off_t>(starts_[rank]));
    if (std::cmp_not_equal(n, text.size())) {
      return FailErrno("cannot read " + path_, errno);
    }
    return text;
  }

  Result<uint64_t> FileOf(std::string_view text) {
    TIDE_ASSIGN(const std::string_view quoted, JsonMemberOf(text, "file"));
    TIDE_ASSIGN(const std::string file, JsonString(quoted));
    const auto number = numbers_.find(file);
    if (number == numbers_.end()) {
      return Unfit(file);
    }
    return number->second;
  }

  StoredCheckpoint& stored_;
  const FileNumbers& numbers_;
  const std::string path_;
  Fd fd_;
  std::vector<sdk::SectionRecord> records_;
  std::vector<uint64_t> starts_;
  uint64_t bytes_ = 0;
  std::vector<uint64_t> dims_;
  std::vector<int64_t> places_;
  std::vector<int64_t> borders_;
  std::vector<StoredTensor*> boxed_;
};

}  // namespace

Result<StoredCheckpoint> ReadStored(const std::string& directory, int64_t rank) {
  StoredCheckpoint stored;
  stored.directory = directory;
  TIDE_ASSIGN(const std::string manifest,
              sdk::ReadSealed(directory + "/" + std::string(sdk::kManifest)));
  TIDE_ASSIGN(const int64_t chunk_bytes, NumberAt(manifest, "chunk_bytes"));
  if (std::cmp_not_equal(chunk_bytes, sdk::kChunkBytes)) {
    return Fail(ErrorCode::kNewerSchema,
                directory + " has chunks of " + std::to_string(chunk_bytes) +
                    " bytes, which this SDK does not read; update tide");
  }
  TIDE_ASSIGN(stored.world, NumberAt(manifest, "world"));
  TIDE_ASSIGN(const FileNumbers numbers, ReadFiles(manifest, stored));
  TIDE_ASSIGN(const std::string_view object, JsonMemberOf(manifest, "tensors"));
  TIDE_ASSIGN(const std::vector<JsonMember> tensors, JsonMembers(object));
  for (const JsonMember& item : tensors) {
    TIDE_ASSIGN(const std::string name, JsonString(item.key));
    TIDE_ASSIGN(StoredTensor tensor, ReadTensor(item.value, numbers));
    stored.tensors.emplace(name, std::move(tensor));
  }
  TIDE_TRY(ReadTrees(manifest, stored));
  if (const Result<std::string_view> ranks = JsonMemberOf(manifest, "ranks")) {
    TIDE_TRY(ReadOldRanks(*ranks, rank, stored));
    return stored;
  }
  TIDE_ASSIGN(const std::string_view sections, JsonMemberOf(manifest, "sections"));
  TIDE_ASSIGN(const std::string_view boxes, JsonMemberOf(manifest, "boxes"));
  TIDE_TRY(RanksReader(stored, numbers).Read(sections, boxes, rank));
  return stored;
}

}  // namespace tide::cpp
