#include "sdk/cpp/stored.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "sdk/native/data_file.h"
#include "sdk/native/folder.h"
#include "sdk/native/json_text.h"

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

Result<StoredTensor> ReadTensor(std::string_view text, const FileNumbers& numbers) {
  StoredTensor tensor;
  TIDE_ASSIGN(const std::string_view dtype, JsonMemberOf(text, "dtype"));
  TIDE_ASSIGN(tensor.dtype, JsonString(dtype));
  TIDE_ASSIGN(const std::string_view shape, JsonMemberOf(text, "shape"));
  TIDE_ASSIGN(tensor.shape, NumbersIn(shape));
  TIDE_ASSIGN(const std::string_view array, JsonMemberOf(text, "parts"));
  TIDE_ASSIGN(const std::vector<std::string_view> parts, JsonElements(array));
  for (const std::string_view item : parts) {
    TIDE_ASSIGN(StoredPart part, ReadPart(item, numbers));
    tensor.parts.push_back(std::move(part));
  }
  return tensor;
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

Status ReadTrees(std::string_view manifest, int64_t rank, StoredCheckpoint& stored) {
  TIDE_ASSIGN(const std::string_view groups, JsonMemberOf(manifest, "objects"));
  TIDE_ASSIGN(const std::string_view replicated, JsonMemberOf(groups, "replicated"));
  TIDE_ASSIGN(const std::string_view global, JsonMemberOf(groups, "global"));
  // Checkpoints of an earlier SDK have no sharded state.
  TIDE_TRY(AddLeaves(JsonMemberOf(groups, "sharded").value_or("{}"), stored.shared));
  TIDE_TRY(AddLeaves(replicated, stored.shared));
  TIDE_TRY(AddLeaves(global, stored.global));
  TIDE_ASSIGN(const std::string_view array, JsonMemberOf(manifest, "ranks"));
  TIDE_ASSIGN(const std::vector<std::string_view> ranks, JsonElements(array));
  if (std::cmp_less(rank, ranks.size())) {
    stored.local.emplace();
    TIDE_TRY(AddLeaves(ranks[static_cast<size_t>(rank)], *stored.local));
  }
  return {};
}

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
  TIDE_TRY(ReadTrees(manifest, rank, stored));
  return stored;
}

}  // namespace tide::cpp
