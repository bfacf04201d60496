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

// A stretch of a tensor's elements, or a box of them, in a data file.
struct Piece {
  bool is_box = false;
  Box place;  // of a stretch: one side, first and last + 1 element
  std::string_view text;
};

struct Tensor {
  std::string_view name;  // with its quotes
  std::string_view dtype;
  std::string_view shape;
  std::vector<Piece> pieces;
};

struct Part {
  std::string_view files;
  std::string_view tensors;
  std::string_view local;
  std::string_view replicated;
  std::string_view global;
  std::string_view sharded;
  std::string_view digests = "{}";  // where the ranks compare what is replicated
};

Result<Part> ReadPart(std::string_view text) {
  TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(text));
  Part part;
  const std::map<std::string_view, std::string_view*> wanted = {
      {"\"files\"", &part.files},
      {"\"tensors\"", &part.tensors},
      {"\"local\"", &part.local},
      {"\"replicated\"", &part.replicated},
      {"\"global\"", &part.global},
      {"\"sharded\"", &part.sharded}};
  size_t found = 0;
  for (const JsonMember& member : members) {
    if (member.key == "\"digests\"") {
      part.digests = member.value;
    } else if (const auto place = wanted.find(member.key); place != wanted.end()) {
      *place->second = member.value;
      ++found;
    }
  }
  if (found != wanted.size()) {
    return Fail(ErrorCode::kCorrupt, "a rank's part lacks some of its members");
  }
  return part;
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

Result<Side> ReadSide(std::string_view array) {
  TIDE_ASSIGN(const std::vector<int64_t> borders, Integers(array));
  if (borders.size() != 2) {
    return Fail(ErrorCode::kCorrupt, "a range has not two borders");
  }
  return Side{.start = borders[0], .stop = borders[1]};
}

Result<Piece> ReadPiece(std::string_view text) {
  Piece piece{.is_box = false, .place = {}, .text = text};
  if (const Result<std::string_view> range = JsonMemberOf(text, "range")) {
    TIDE_ASSIGN(const Side side, ReadSide(*range));
    piece.place.push_back(side);
    return piece;
  }
  piece.is_box = true;
  TIDE_ASSIGN(const std::string_view box, JsonMemberOf(text, "box"));
  TIDE_ASSIGN(const std::vector<std::string_view> sides, JsonElements(box));
  for (const std::string_view text_of_side : sides) {
    TIDE_ASSIGN(const Side side, ReadSide(text_of_side));
    piece.place.push_back(side);
  }
  return piece;
}

Result<Tensor> ReadTensor(const JsonMember& member) {
  Tensor tensor{.name = member.key, .dtype = {}, .shape = {}, .pieces = {}};
  TIDE_ASSIGN(tensor.dtype, JsonMemberOf(member.value, "dtype"));
  TIDE_ASSIGN(tensor.shape, JsonMemberOf(member.value, "shape"));
  TIDE_ASSIGN(const std::string_view parts, JsonMemberOf(member.value, "parts"));
  TIDE_ASSIGN(const std::vector<std::string_view> pieces, JsonElements(parts));
  for (const std::string_view piece : pieces) {
    TIDE_ASSIGN(Piece read, ReadPiece(piece));
    tensor.pieces.push_back(std::move(read));
  }
  return tensor;
}

std::string TensorName(const Tensor& tensor) {
  return JsonString(tensor.name).value_or(std::string(tensor.name));
}

// "F32[8,4]"
std::string KindOf(const Tensor& tensor) {
  return JsonString(tensor.dtype).value_or("") + std::string(tensor.shape);
}

// Nothing, or what is wrong with stretches, which are sorted.
std::string RangesFlaw(const Tensor& tensor, std::span<const int64_t> shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    elements *= size;
  }
  int64_t position = 0;
  for (const Piece& piece : tensor.pieces) {
    if (piece.place[0].start != position) {
      break;
    }
    position = piece.place[0].stop;
  }
  return position == elements ? ""
                              : "no rank wrote elements from " + std::to_string(position) + " of " +
                                    TensorName(tensor) + "; the ranks' replicated objects differ";
}

// The same of boxes, each once.
std::string BoxesFlaw(const Tensor& tensor, std::span<const int64_t> shape) {
  std::vector<Box> boxes;
  for (const Piece& piece : tensor.pieces) {
    boxes.push_back(piece.place);
  }
  const std::optional<BoxFlaw> flaw = FindFlaw(boxes, shape);
  if (!flaw) {
    return "";
  }
  return flaw->is_hole
             ? "no rank stored " + BoxText(flaw->where) + " of " + TensorName(tensor) +
                   "; the ranks' shards must fill its shape " + std::string(tensor.shape)
             : "several ranks stored " + BoxText(flaw->where) + " of " + TensorName(tensor) +
                   "; shards must not overlap, unless they are the same box";
}

// Puts the pieces in order. Errors: kConflict where they do not hold every element once.
Status Settle(Tensor& tensor, const std::string& directory) {
  TIDE_ASSIGN(const std::vector<int64_t> shape, Integers(tensor.shape));
  std::vector<Piece>& pieces = tensor.pieces;
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.place < b.place;
  });
  const auto boxes =
      std::count_if(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.is_box; });
  std::string flaw;
  if (std::cmp_equal(boxes, pieces.size())) {
    if (std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
          return piece.place.size() != shape.size();
        })) {
      return Fail(ErrorCode::kCorrupt,
                  "a box of " + TensorName(tensor) + " does not fit its shape");
    }
    // Copies of one box: the sort keeps the ranks' order, so the lowest rank's counts.
    pieces.erase(std::unique(pieces.begin(),
                             pieces.end(),
                             [](const Piece& a, const Piece& b) { return a.place == b.place; }),
                 pieces.end());
    flaw = BoxesFlaw(tensor, shape);
  } else if (boxes > 0) {
    flaw = TensorName(tensor) +
           " is a tide.Shard on some ranks and a whole tensor on others; give a Shard on all of "
           "them";
  } else {
    flaw = RangesFlaw(tensor, shape);
  }
  return flaw.empty() ? Status() : Fail(ErrorCode::kConflict, directory + ": " + flaw);
}

// All ranks' tensors in the order of their first mention.
class Tensors {
 public:
  Status Add(std::string_view object, size_t rank, const std::string& directory) {
    TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(object));
    for (const JsonMember& member : members) {
      TIDE_ASSIGN(Tensor tensor, ReadTensor(member));
      const auto [known, is_new] = places_.emplace(tensor.name, tensors_.size());
      if (is_new) {
        tensors_.push_back(std::move(tensor));
        continue;
      }
      Tensor& first = tensors_[known->second];
      if (first.dtype != tensor.dtype || first.shape != tensor.shape) {
        return Fail(ErrorCode::kConflict,
                    directory + ": ranks disagree about " + TensorName(tensor) + ": " +
                        KindOf(first) + " before rank " + std::to_string(rank) + ", whose is " +
                        KindOf(tensor));
      }
      first.pieces.insert(first.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
    }
    return {};
  }

  Result<std::string> Write(const std::string& directory) {
    std::string out;
    for (Tensor& tensor : tensors_) {
      TIDE_TRY(Settle(tensor, directory));
      std::string pieces;
      for (const Piece& piece : tensor.pieces) {
        AppendList(pieces, piece.text);
      }
      out.append(out.empty() ? "" : ",").append(tensor.name);
      out.append(":{\"dtype\":").append(tensor.dtype).append(",\"shape\":").append(tensor.shape);
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

// Errors: kConflict where ranks gave different objects that all must have.
Status CheckSame(const Group& group, size_t rank, const std::string& directory) {
  if (group.first == group.other || Sorted(group.first) == Sorted(group.other)) {
    return {};
  }
  const std::string_view advice =
      group.name == "replicated"
          ? "give what differs between ranks under local="
          : "give all ranks the same names and values; where a rank holds nothing of a tensor, a "
            "Shard without elements";
  return Fail(ErrorCode::kConflict,
              directory + ": ranks 0 and " + std::to_string(rank) + " have different " +
                  std::string(group.name) + " state; " + std::string(advice));
}

// Errors: kConflict naming the first tensor whose digests differ.
Status CompareDigests(std::string_view digests,
                      std::string_view first,
                      size_t rank,
                      const std::string& directory) {
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
      return Fail(ErrorCode::kConflict,
                  directory + ": ranks 0 and " + std::to_string(rank) +
                      " hold different values of " +
                      JsonString(member.key).value_or(std::string(member.key)) +
                      "; make them equal, or give what differs between ranks under local=");
    }
  }
  return {};
}

}  // namespace

Result<std::string> MergeParts(const Ticket& ticket, const std::vector<std::string>& parts) {
  Tensors tensors;
  std::string files;
  std::string ranks;
  Part first;
  int64_t bytes = 0;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    TIDE_ASSIGN(const Part part, ReadPart(parts[rank]));
    first = rank == 0 ? part : first;
    TIDE_TRY(CheckSame({"replicated", first.replicated, part.replicated}, rank, ticket.directory));
    TIDE_TRY(CheckSame({"sharded", first.sharded, part.sharded}, rank, ticket.directory));
    TIDE_TRY(CompareDigests(part.digests, first.digests, rank, ticket.directory));
    TIDE_ASSIGN(const int64_t more, BytesOf(part.files));
    bytes += more;
    AppendList(files, Inside(part.files));
    AppendList(ranks, part.local);
    TIDE_TRY(tensors.Add(part.tensors, rank, ticket.directory));
  }
  TIDE_ASSIGN(const std::string merged, tensors.Write(ticket.directory));
  std::string body = "{\"format\":\"" + std::string(kFormat) + "\",\"job\":" + ticket.job;
  body += ",\"attempt\":" + std::to_string(ticket.attempt) + ",\"start\":\"" + ticket.start +
          "\",\"step\":" + std::to_string(ticket.step);
  body += ",\"world\":" + std::to_string(ticket.world) + ",\"bytes\":" + std::to_string(bytes);
  body += ",\"chunk_bytes\":" + std::to_string(kChunkBytes) + ",\"files\":{" + files + "}";
  body += ",\"tensors\":{" + merged + "},\"objects\":{\"replicated\":";
  body.append(first.replicated).append(",\"global\":").append(first.global);
  body.append(",\"sharded\":").append(first.sharded);
  body += "},\"ranks\":[" + ranks + "]";
  return Seal(std::move(body));
}

}  // namespace tide::sdk
