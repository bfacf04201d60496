#include "sdk/native/manifest.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "sdk/native/data_file.h"
#include "sdk/native/folder.h"
#include "sdk/native/json_text.h"

namespace tide::sdk {
namespace {

// A stretch of a tensor's elements, or a box of them, in a data file.
struct Piece {
  std::vector<int64_t> place;  // first and last + 1 element; of a box in each dimension
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
};

Result<Part> ReadPart(std::string_view text) {
  TIDE_ASSIGN(const std::vector<JsonMember> members, JsonMembers(text));
  Part part;
  const std::map<std::string_view, std::string_view*> wanted = {
      {"\"files\"", &part.files},
      {"\"tensors\"", &part.tensors},
      {"\"local\"", &part.local},
      {"\"replicated\"", &part.replicated},
      {"\"global\"", &part.global}};
  size_t found = 0;
  for (const JsonMember& member : members) {
    if (const auto place = wanted.find(member.key); place != wanted.end()) {
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

Result<Piece> ReadPiece(std::string_view text) {
  TIDE_ASSIGN(const std::string_view range, JsonMemberOf(text, "range"));
  TIDE_ASSIGN(std::vector<int64_t> place, Integers(range));
  if (place.size() != 2) {
    return Fail(ErrorCode::kCorrupt, "a range has not two borders");
  }
  return Piece{.place = std::move(place), .text = text};
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

// Errors: kConflict where the pieces, sorted, do not follow one another up to the last element.
Status CheckCovered(const Tensor& tensor, const std::string& directory) {
  TIDE_ASSIGN(const std::vector<int64_t> shape, Integers(tensor.shape));
  int64_t elements = 1;
  for (const int64_t size : shape) {
    elements *= size;
  }
  int64_t position = 0;
  for (const Piece& piece : tensor.pieces) {
    if (piece.place[0] != position) {
      break;
    }
    position = piece.place[1];
  }
  if (position != elements) {
    TIDE_ASSIGN(const std::string name, JsonString(tensor.name));
    return Fail(ErrorCode::kConflict,
                directory + ": no rank wrote elements from " + std::to_string(position) + " of " +
                    name + "; the ranks' replicated objects differ");
  }
  return {};
}

// All ranks' tensors in the order of their first mention.
class Tensors {
 public:
  Status Add(std::string_view object, const std::string& directory) {
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
        TIDE_ASSIGN(const std::string name, JsonString(tensor.name));
        return Fail(ErrorCode::kConflict,
                    directory + ": ranks disagree about the shape of " + name);
      }
      first.pieces.insert(first.pieces.end(), tensor.pieces.begin(), tensor.pieces.end());
    }
    return {};
  }

  Result<std::string> Write(const std::string& directory) {
    std::string out;
    for (Tensor& tensor : tensors_) {
      std::stable_sort(tensor.pieces.begin(),
                       tensor.pieces.end(),
                       [](const Piece& a, const Piece& b) { return a.place < b.place; });
      TIDE_TRY(CheckCovered(tensor, directory));
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

bool IsSame(std::string_view a, std::string_view b) {
  return a == b || Sorted(a) == Sorted(b);
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
    if (rank == 0) {
      first = part;
    } else if (!IsSame(part.replicated, first.replicated)) {
      return Fail(
          ErrorCode::kConflict,
          ticket.directory + ": ranks 0 and " + std::to_string(rank) +
              " have different replicated state; give what differs between ranks under local=");
    }
    TIDE_ASSIGN(const int64_t more, BytesOf(part.files));
    bytes += more;
    AppendList(files, Inside(part.files));
    AppendList(ranks, part.local);
    TIDE_TRY(tensors.Add(part.tensors, ticket.directory));
  }
  TIDE_ASSIGN(const std::string merged, tensors.Write(ticket.directory));
  std::string body = "{\"format\":\"" + std::string(kFormat) + "\",\"job\":" + ticket.job;
  body +=
      ",\"attempt\":" + std::to_string(ticket.attempt) + ",\"step\":" + std::to_string(ticket.step);
  body += ",\"world\":" + std::to_string(ticket.world) + ",\"bytes\":" + std::to_string(bytes);
  body += ",\"chunk_bytes\":" + std::to_string(kChunkBytes) + ",\"files\":{" + files + "}";
  body += ",\"tensors\":{" + merged + "},\"objects\":{\"replicated\":";
  body.append(first.replicated).append(",\"global\":").append(first.global);
  body += "},\"ranks\":[" + ranks + "]";
  return Seal(std::move(body));
}

}  // namespace tide::sdk
