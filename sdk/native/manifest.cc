#include "sdk/native/manifest.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "sdk/native/box.h"
#include "sdk/native/data_file.h"
#include "sdk/native/folder.h"
#include "sdk/native/json_text.h"

namespace tide::sdk {
namespace {

// A stretch of a tensor's elements in a data file.
struct Piece {
  Side range;
  std::string_view text;
};

// How a tensor is written down, in JSON.
struct Kind {
  std::string_view dtype;
  std::string_view shape;
  bool operator==(const Kind&) const = default;
};

struct Tensor {
  std::string_view name;  // with its quotes
  Kind kind;
  std::vector<Piece> pieces;
};

// The state in which ranks agree, in JSON.
struct Agreed {
  std::string_view replicated;
  std::string_view sharded;
  std::string_view boxes;
};

// Where a manifest is put together, for messages.
struct Place {
  const std::string& directory;
  size_t rank = 0;
};

std::unexpected<Error> Conflict(const Place& place, const std::string& what) {
  return Fail(ErrorCode::kConflict, place.directory + ": " + what);
}

Result<Agreed> ReadAgreed(std::string_view shared) {
  Agreed agreed;
  TIDE_ASSIGN(agreed.replicated, JsonMemberOf(shared, "replicated"));
  TIDE_ASSIGN(agreed.sharded, JsonMemberOf(shared, "sharded"));
  TIDE_ASSIGN(agreed.boxes, JsonMemberOf(shared, "boxes"));
  return agreed;
}

// What is between the braces.
std::string_view Inside(std::string_view object) {
  return object.substr(1, object.size() - 2);
}

void AppendList(std::string& out, std::string_view item) {
  if (!item.empty()) {
    out.append(out.empty() ? "" : ",").append(item);
  }
}

Result<int64_t> BytesOf(std::string_view files) {
  int64_t bytes = 0;
  TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(files));
  for (const JsonMember& file : members) {
    TIDE_ASSIGN(const std::string_view text, JsonMemberOf(file.value, "bytes"));
    TIDE_ASSIGN(const int64_t count, JsonInteger(text));
    bytes += count;
  }
  return bytes;
}

Result<std::vector<int64_t>> Integers(std::string_view array) {
  std::vector<int64_t> numbers;
  TIDE_ASSIGN(const std::vector<std::string_view> elements, JsonElements(array));
  for (const std::string_view element : elements) {
    TIDE_ASSIGN(const int64_t number, JsonInteger(element));
    numbers.push_back(number);
  }
  return numbers;
}

Result<Piece> ReadPiece(std::string_view text) {
  TIDE_ASSIGN(const std::string_view range, JsonMemberOf(text, "range"));
  TIDE_ASSIGN(const std::vector<int64_t> borders, Integers(range));
  if (borders.size() != 2) {
    return Fail(ErrorCode::kCorrupt, "a range has not two borders");
  }
  return Piece{.range = {.start = borders[0], .stop = borders[1]}, .text = text};
}

Result<Kind> ReadKind(std::string_view record) {
  Kind kind;
  TIDE_ASSIGN(kind.dtype, JsonMemberOf(record, "dtype"));
  TIDE_ASSIGN(kind.shape, JsonMemberOf(record, "shape"));
  return kind;
}

Result<Tensor> ReadTensor(const JsonMember& member) {
  Tensor tensor{.name = member.key, .kind = {}, .pieces = {}};
  TIDE_ASSIGN(tensor.kind, ReadKind(member.value));
  TIDE_ASSIGN(const std::string_view parts, JsonMemberOf(member.value, "parts"));
  TIDE_ASSIGN(const std::vector<std::string_view> pieces, JsonElements(parts));
  for (const std::string_view piece : pieces) {
    TIDE_ASSIGN(const Piece read, ReadPiece(piece));
    tensor.pieces.push_back(read);
  }
  return tensor;
}

std::string Decoded(std::string_view name) {
  return JsonString(name).value_or(std::string(name));
}

// "F32[8,4]"
std::string KindText(const Kind& kind) {
  return JsonString(kind.dtype).value_or("") + std::string(kind.shape);
}

std::unexpected<Error> Disagreement(const Place& place,
                                    std::string_view name,
                                    const Kind& first,
                                    const Kind& other) {
  return Conflict(place,
                  "ranks disagree about " + Decoded(name) + ": " + KindText(first) +
                      " before rank " + std::to_string(place.rank) + ", whose is " +
                      KindText(other));
}

// Puts a tensor's ranges in order. Errors: kConflict where they do not hold every element once.
Status Settle(Tensor& tensor, const Place& place) {
  TIDE_ASSIGN(const std::vector<int64_t> shape, Integers(tensor.kind.shape));
  std::ranges::stable_sort(tensor.pieces, {}, &Piece::range);
  int64_t elements = 1;
  for (const int64_t size : shape) {
    elements *= size;
  }
  int64_t position = 0;
  for (const Piece& piece : tensor.pieces) {
    if (piece.range.start != position) {
      break;
    }
    position = piece.range.stop;
  }
  if (position != elements) {
    return Conflict(place,
                    "no rank wrote elements from " + std::to_string(position) + " of " +
                        Decoded(tensor.name) + "; the ranks' replicated objects differ");
  }
  return {};
}

// All ranks' ranges, by tensors in the order of their first mention.
class Ranges {
 public:
  Status Add(std::string_view object, const Place& place) {
    TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(object));
    for (const JsonMember& member : members) {
      TIDE_ASSIGN(Tensor tensor, ReadTensor(member));
      const auto [known, is_new] = places_.emplace(tensor.name, tensors_.size());
      if (is_new) {
        tensors_.push_back(std::move(tensor));
        continue;
      }
      Tensor& first = tensors_[known->second];
      if (first.kind != tensor.kind) {
        return Disagreement(place, tensor.name, first.kind, tensor.kind);
      }
      first.pieces.insert(first.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
    }
    return {};
  }

  Result<std::string> Write(const Place& place) {
    std::string out;
    for (Tensor& tensor : tensors_) {
      TIDE_TRY(Settle(tensor, place));
      std::string pieces;
      for (const Piece& piece : tensor.pieces) {
        AppendList(pieces, piece.text);
      }
      out.append(out.empty() ? "" : ",").append(tensor.name);
      out.append(":{\"dtype\":").append(tensor.kind.dtype);
      out.append(",\"shape\":").append(tensor.kind.shape);
      out.append(",\"parts\":[").append(pieces).append("]}");
    }
    return out;
  }

 private:
  std::vector<Tensor> tensors_;
  std::map<std::string_view, size_t> places_;
};

// The same value with the members of every object in order: ranks may have filled a dict by turns.
std::string Sorted(std::string_view value) {
  if (value.front() == '{') {
    const Result<std::vector<JsonMember>> members = JsonMembers(value);
    std::map<std::string_view, std::string> sorted;
    for (const JsonMember& member : members.value_or(std::vector<JsonMember>())) {
      sorted[member.key] = Sorted(member.value);
    }
    std::string out;
    for (const auto& [key, item] : sorted) {
      out.append(out.empty() ? "" : ",").append(key).append(":").append(item);
    }
    return "{" + out + "}";
  }
  if (value.front() == '[') {
    std::string out;
    for (const std::string_view item :
         JsonElements(value).value_or(std::vector<std::string_view>())) {
      out.append(out.empty() ? "" : ",").append(Sorted(item));
    }
    return "[" + out + "]";
  }
  return std::string(value);
}

struct Group {
  std::string_view name;
  std::string_view first;  // of rank 0
  std::string_view other;
};

constexpr const char* kAdvice = "give what differs between ranks under local=";

// Errors: kConflict where ranks gave different objects that all must have.
Status RequireSame(const Group& group, const Place& place) {
  if (group.first == group.other || Sorted(group.first) == Sorted(group.other)) {
    return {};
  }
  const std::string advice =
      group.name == "replicated"
          ? kAdvice
          : "give all ranks the same names and values; where a rank holds nothing of a tensor, a "
            "Shard without elements";
  return Conflict(place,
                  "ranks 0 and " + std::to_string(place.rank) + " have different " +
                      std::string(group.name) + " state; " + advice);
}

Result<std::map<std::string_view, Kind>> KindsOf(std::string_view boxes) {
  std::map<std::string_view, Kind> kinds;
  TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(boxes));
  for (const JsonMember& member : members) {
    TIDE_ASSIGN(const Kind kind, ReadKind(member.value));
    kinds.emplace(member.key, kind);
  }
  return kinds;
}

// Errors: kConflict where one rank has a box of a tensor and another all of it, or of another kind.
Status RequireSameBoxes(std::string_view first, std::string_view other, const Place& place) {
  TIDE_ASSIGN(const auto ours, KindsOf(first));
  TIDE_ASSIGN(const auto theirs, KindsOf(other));
  auto all = ours;
  all.insert(theirs.begin(), theirs.end());
  for (const auto& [name, kind] : all) {
    const auto one = ours.find(name);
    const auto two = theirs.find(name);
    if (one == ours.end() || two == theirs.end()) {
      return Conflict(place,
                      Decoded(name) +
                          " is a tide.Shard on some ranks and a whole tensor on others; give a "
                          "Shard on all of them");
    }
    if (one->second != two->second) {
      return Disagreement(place, name, one->second, two->second);
    }
  }
  if (first != other) {  // rows name a tensor by its number
    return Fail(ErrorCode::kCorrupt, "the ranks' parts list their boxes in different orders");
  }
  return {};
}

// first: rank 0's, of which `text` is the content.
// Errors: kConflict where what ranks share differs from it.
Status RequireAgreed(const SharedState& first,
                     std::string_view text,
                     const Agreed& agreed,
                     const SharedState& other,
                     const Place& place) {
  if (!other.content) {
    return std::pair(other.bytes, other.crc32) == std::pair(first.bytes, first.crc32)
               ? Status()
               : Conflict(place,
                          "ranks 0 and " + std::to_string(place.rank) + " have different state; " +
                              kAdvice);
  }
  if (*other.content == text) {
    return {};
  }
  TIDE_ASSIGN(const Agreed theirs, ReadAgreed(*other.content));
  TIDE_TRY(RequireSame({"replicated", agreed.replicated, theirs.replicated}, place));
  TIDE_TRY(RequireSame({"sharded", agreed.sharded, theirs.sharded}, place));
  return RequireSameBoxes(agreed.boxes, theirs.boxes, place);
}

// Errors: kConflict naming the first tensor whose digests differ.
Status CompareDigests(std::string_view digests, std::string_view first, const Place& place) {
  if (digests == first) {
    return {};
  }
  TIDE_ASSIGN(const std::vector<JsonMember> known, JsonMembers(first));
  std::map<std::string_view, std::string_view> of_first;
  for (const JsonMember& member : known) {
    of_first.emplace(member.key, member.value);
  }
  TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(digests));
  for (const JsonMember& member : members) {
    if (const auto other = of_first.find(member.key);
        other != of_first.end() && other->second != member.value) {
      return Conflict(place,
                      "ranks 0 and " + std::to_string(place.rank) + " hold different values of " +
                          Decoded(member.key) + "; make them equal, or " + kAdvice);
    }
  }
  return {};
}

// A tensor that ranks hold in boxes.
struct Boxed {
  std::string_view name;
  std::vector<int64_t> shape;
  std::vector<const int64_t*> boxes;  // in memory of the parts
};

bool Fits(std::span<const int64_t> borders, const std::vector<int64_t>& shape) {
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const int64_t start = borders[2 * dim];
    const int64_t stop = borders[2 * dim + 1];
    if (start < 0 || start >= stop || stop > shape[dim]) {
      return false;
    }
  }
  return true;
}

// Copies of a box count once.
void DropCopies(Boxed& tensor) {
  const size_t words = 2 * tensor.shape.size();
  const auto less = [words](const int64_t* a, const int64_t* b) {
    return std::lexicographical_compare(a, a + words, b, b + words);
  };
  std::sort(tensor.boxes.begin(), tensor.boxes.end(), less);
  const auto is_same = [words](const int64_t* a, const int64_t* b) {
    return std::equal(a, a + words, b);
  };
  tensor.boxes.erase(std::unique(tensor.boxes.begin(), tensor.boxes.end(), is_same),
                     tensor.boxes.end());
}

Result<std::vector<Boxed>> ReadBoxed(std::string_view boxes) {
  std::vector<Boxed> tensors;
  TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(boxes));
  for (const JsonMember& member : members) {
    TIDE_ASSIGN(const Kind kind, ReadKind(member.value));
    TIDE_ASSIGN(std::vector<int64_t> shape, Integers(kind.shape));
    tensors.push_back({.name = member.key, .shape = std::move(shape), .boxes = {}});
  }
  return tensors;
}

// Errors: kConflict where the ranks' boxes do not hold every element of a tensor once; kCorrupt.
Status RequirePartition(std::string_view boxes,
                        const std::vector<Part>& parts,
                        const std::string& directory) {
  TIDE_ASSIGN(std::vector<Boxed> tensors, ReadBoxed(boxes));
  std::vector<uint64_t> dims;
  for (const Boxed& tensor : tensors) {
    dims.push_back(tensor.shape.size());
  }
  for (const Part& part : parts) {
    Rows rows(part.table, dims);
    for (;;) {
      TIDE_ASSIGN(const std::optional<Row> row, rows.Next());
      if (!row) {
        break;
      }
      Boxed& tensor = tensors[static_cast<size_t>(row->tensor)];
      if (!Fits(row->borders, tensor.shape)) {
        return Fail(ErrorCode::kCorrupt,
                    "a box of " + Decoded(tensor.name) + " does not fit its shape");
      }
      tensor.boxes.push_back(row->borders.data());
    }
  }
  for (Boxed& tensor : tensors) {
    DropCopies(tensor);
    const std::optional<BoxFlaw> flaw = FindFlawIn(std::move(tensor.boxes), tensor.shape);
    if (!flaw) {
      continue;
    }
    std::string shape;
    for (const int64_t size : tensor.shape) {
      AppendList(shape, std::to_string(size));
    }
    const std::string where = BoxText(flaw->where) + " of " + Decoded(tensor.name);
    return Conflict({.directory = directory},
                    flaw->is_hole ? "no rank stored " + where +
                                        "; the ranks' shards must fill its shape [" + shape + "]"
                                  : "several ranks stored " + where +
                                        "; shards must not overlap, unless they are the same box");
  }
  return {};
}

}  // namespace

Result<std::string> MergeParts(const Ticket& ticket, const std::vector<Part>& parts) {
  const SharedState& first = parts[0].shared;
  if (!first.content) {
    return Fail(ErrorCode::kCorrupt, ticket.directory + ": rank 0's part lacks what ranks share");
  }
  const std::string_view shared = *first.content;
  TIDE_ASSIGN(const Agreed agreed, ReadAgreed(shared));
  const std::string_view digests = JsonMemberOf(parts[0].head, "digests").value_or("{}");
  Ranges ranges;
  std::string files;
  std::string sections;
  int64_t bytes = 0;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const Place place{.directory = ticket.directory, .rank = rank};
    const std::string_view head = parts[rank].head;
    TIDE_TRY(RequireAgreed(first, shared, agreed, parts[rank].shared, place));
    TIDE_TRY(CompareDigests(JsonMemberOf(head, "digests").value_or("{}"), digests, place));
    TIDE_ASSIGN(const std::string_view own_files, JsonMemberOf(head, "files"));
    TIDE_ASSIGN(const int64_t more, BytesOf(own_files));
    bytes += more;
    AppendList(files, Inside(own_files));
    TIDE_ASSIGN(const std::string_view section, JsonMemberOf(head, "section"));
    AppendList(sections, section);
    TIDE_ASSIGN(const std::string_view tensors, JsonMemberOf(head, "tensors"));
    TIDE_TRY(ranges.Add(tensors, place));
  }
  TIDE_ASSIGN(const std::string merged, ranges.Write({.directory = ticket.directory}));
  TIDE_TRY(RequirePartition(agreed.boxes, parts, ticket.directory));
  TIDE_ASSIGN(const std::string_view global, JsonMemberOf(parts[0].head, "global"));
  std::string body = "{\"format\":\"" + std::string(kFormat) + "\",\"job\":" + ticket.job;
  body += ",\"attempt\":" + std::to_string(ticket.attempt) + ",\"start\":\"" + ticket.start +
          "\",\"step\":" + std::to_string(ticket.step);
  body += ",\"world\":" + std::to_string(ticket.world) + ",\"bytes\":" + std::to_string(bytes);
  body += ",\"chunk_bytes\":" + std::to_string(kChunkBytes) + ",\"files\":{" + files + "}";
  body.append(",\"tensors\":{").append(merged).append("},\"boxes\":").append(agreed.boxes);
  body.append(",\"objects\":{\"replicated\":").append(agreed.replicated);
  body.append(",\"global\":").append(global).append(",\"sharded\":").append(agreed.sharded);
  body += "},\"sections\":[" + sections + "]";
  return Seal(std::move(body));
}

}  // namespace tide::sdk
