// JSON text to values. A start reads each row of the database, so the parser is simdjson: a start
// with 100,000 jobs takes half the time that it took with one that builds a tree of nodes.

#include <simdjson.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "scheduler/store/codec.h"
#include "scheduler/store/codec_types.h"
#include "scheduler/store/enum_names.h"
#include "scheduler/store/event_fields.h"
#include "scheduler/store/text.h"

namespace tide {
namespace {

using Json = simdjson::dom::element;

struct DecodeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename T>
void FromJson(Json in, T& out);

// Reads one member, and names the path of what it cannot read.
template <typename T>
void MemberFromJson(std::string_view key, Json in, T& value) {
  try {
    FromJson(in, value);
  } catch (const DecodeError& error) {
    throw DecodeError("/" + std::string(key) + error.what());
  }
}

// Reads the members that come in the order of the fields: as rows are written. Of a member that is
// not the next one it takes for granted that it was left out.
struct InOrder {
  simdjson::dom::object::iterator next;
  simdjson::dom::object::iterator end;

  template <typename T>
  void operator()(std::string_view key, T& value) {
    if (next != end && next.key_equals(key)) {
      MemberFromJson(key, next.value(), value);
      ++next;
    }
  }
};

// Reads the members wherever they are.
struct InAnyOrder {
  simdjson::dom::object object;

  template <typename T>
  void operator()(std::string_view key, T& value) {
    Json found;
    if (object.at_key(key).get(found) == simdjson::SUCCESS) {
      MemberFromJson(key, found, value);
    }
  }
};

// Reads the members of a struct.
//   first: the member to begin with; those before it are none of `out`.
template <typename T>
void MembersFromJson(simdjson::dom::object object, simdjson::dom::object::iterator first, T& out) {
  InOrder in_order{first, object.end()};
  VisitFields(in_order, out);
  if (in_order.next != in_order.end) {  // another order, or keys of another version
    InAnyOrder in_any_order{object};
    VisitFields(in_any_order, out);
  }
}

template <typename T>
T IntegerFromJson(Json in) {
  int64_t number = 0;
  uint64_t large = 0;
  if (in.get(number) == simdjson::SUCCESS) {
    if (std::in_range<T>(number)) {
      return static_cast<T>(number);
    }
  } else if (in.get(large) == simdjson::SUCCESS && std::in_range<T>(large)) {
    return static_cast<T>(large);
  }
  throw DecodeError(" is not a whole number in range");
}

std::string StringFromJson(Json in) {
  std::string_view text;
  if (in.get(text) == simdjson::SUCCESS) {
    return std::string(text);
  }
  std::string bytes;
  if (in.is_object() && in[kBytesKey].get(text) == simdjson::SUCCESS && FromHex(text, bytes)) {
    return bytes;
  }
  throw DecodeError(" is not a string");
}

void MapFromJson(Json in, StringMap& out) {
  out.clear();
  simdjson::dom::object object;
  if (in.get(object) == simdjson::SUCCESS) {
    for (const auto [key, value] : object) {
      out[std::string(key)] = StringFromJson(value);
    }
    return;
  }
  simdjson::dom::array pairs;
  if (in.get(pairs) != simdjson::SUCCESS) {
    throw DecodeError(" is not a map");
  }
  for (const Json each : pairs) {
    simdjson::dom::array pair;
    if (each.get(pair) != simdjson::SUCCESS || pair.size() != 2) {
      throw DecodeError(" is not a map");
    }
    out[StringFromJson(pair.at(0))] = StringFromJson(pair.at(1));
  }
}

double DoubleFromJson(Json in) {
  double number = 0;
  if (in.get(number) == simdjson::SUCCESS) {
    return number;
  }
  std::string_view text;
  const bool is_word = in.get(text) == simdjson::SUCCESS;
  if (is_word && text == "nan") {
    return std::nan("");
  }
  if (is_word && (text == "inf" || text == "-inf")) {
    return text == "inf" ? HUGE_VAL : -HUGE_VAL;
  }
  throw DecodeError(" is not a number");
}

template <typename T>
T EnumFromJson(Json in) {
  std::string_view text;
  if (in.get(text) != simdjson::SUCCESS) {
    return static_cast<T>(IntegerFromJson<std::underlying_type_t<T>>(in));
  }
  if (const auto value = EnumFromText<T>(text)) {
    return *value;
  }
  throw DecodeError(" has the unknown value \"" + std::string(text) + "\"");
}

JobState StateFromJson(simdjson::dom::object in) {
  Json state;
  return in[kStateKey].get(state) == simdjson::SUCCESS ? EnumFromJson<JobState>(state)
                                                       : JobState::kQueued;
}

// Not inlined: g++ 12 then believes the claim of a fresh Queued to be read uninitialized.
template <size_t I = 0>
[[gnu::noinline]] void PhaseFromJson(simdjson::dom::object in, JobState state, JobPhase& out) {
  if constexpr (I < std::variant_size_v<JobPhase>) {
    if (std::to_underlying(state) == I) {
      auto first = in.begin();
      if (first != in.end() && first.key_equals(kStateKey)) {
        ++first;
      }
      MembersFromJson(in, first, out.emplace<I>());
    } else {
      PhaseFromJson<I + 1>(in, state, out);
    }
  } else {
    throw DecodeError("/state is unknown");
  }
}

template <typename T>
void FromJson(Json in, T& out) {
  if constexpr (std::same_as<T, std::string>) {
    out = StringFromJson(in);
  } else if constexpr (std::same_as<T, StringMap>) {
    MapFromJson(in, out);
  } else if constexpr (std::same_as<T, double>) {
    out = DoubleFromJson(in);
  } else if constexpr (std::same_as<T, bool>) {
    if (in.get(out) != simdjson::SUCCESS) {
      throw DecodeError(" is not true or false");
    }
  } else if constexpr (std::integral<T>) {
    out = IntegerFromJson<T>(in);
  } else if constexpr (std::is_enum_v<T>) {
    out = EnumFromJson<T>(in);
  } else if constexpr (std::same_as<T, Instant>) {
    out = Instant::FromUnixNanos(IntegerFromJson<int64_t>(in));
  } else if constexpr (std::same_as<T, Duration>) {
    out = Duration::Nanos(IntegerFromJson<int64_t>(in));
  } else if constexpr (kIsId<T>) {
    out = T(IntegerFromJson<std::remove_cvref_t<decltype(out.value())>>(in));
  } else if constexpr (kIsOptional<T>) {
    out.reset();
    if (!in.is_null()) {
      FromJson(in, out.emplace());
    }
  } else if constexpr (kIsVector<T>) {
    simdjson::dom::array list;
    if (in.get(list) != simdjson::SUCCESS) {
      throw DecodeError(" is not a list");
    }
    out.clear();
    out.reserve(list.size());
    for (const Json each : list) {
      FromJson(each, out.emplace_back());
    }
  } else {
    simdjson::dom::object object;
    if (in.get(object) != simdjson::SUCCESS) {
      throw DecodeError(" is not an object");
    }
    if constexpr (std::same_as<T, JobPhase>) {
      PhaseFromJson(object, StateFromJson(object), out);
    } else {
      MembersFromJson(object, object.begin(), out);
    }
  }
}

template <typename T>
Result<T> Decode(std::string_view text) {
  // Kept between calls: their memory is used again.
  static thread_local simdjson::dom::parser parser;
  static thread_local std::string padded;
  padded.assign(text);
  padded.resize(text.size() + simdjson::SIMDJSON_PADDING);
  Json root;
  if (const auto error = parser.parse(padded.data(), text.size(), false).get(root)) {
    return Fail(ErrorCode::kCorrupt, std::string("not JSON: ") + simdjson::error_message(error));
  }
  Result<T> value(std::in_place);
  try {
    FromJson(root, *value);
    return value;
  } catch (const DecodeError& error) {
    return Fail(ErrorCode::kCorrupt, error.what());
  }
}

template <size_t I = 0>
Result<EventBody> DecodeBody(std::string_view type, std::string_view text) {
  if constexpr (I < std::variant_size_v<EventBody>) {
    using Body = std::variant_alternative_t<I, EventBody>;
    if (EventName(Body{}) != type) {
      return DecodeBody<I + 1>(type, text);
    }
    TIDE_ASSIGN(Body body, Decode<Body>(text));
    return EventBody(std::in_place_index<I>, std::move(body));
  } else {
    return Fail(ErrorCode::kCorrupt, "unknown event type \"" + std::string(type) + "\"");
  }
}

}  // namespace

Result<Job> DecodeJob(std::string_view text) {
  return Decode<Job>(text);
}
Result<Attempt> DecodeAttempt(std::string_view text) {
  return Decode<Attempt>(text);
}
Result<Task> DecodeTask(std::string_view text) {
  return Decode<Task>(text);
}
Result<Node> DecodeNode(std::string_view text) {
  return Decode<Node>(text);
}
Result<Incident> DecodeIncident(std::string_view text) {
  return Decode<Incident>(text);
}
Result<OwnerUse> DecodeOwnerUse(std::string_view text) {
  return Decode<OwnerUse>(text);
}
Result<OwnedRun> DecodeOwnedRun(std::string_view text) {
  return Decode<OwnedRun>(text);
}
Result<EventBody> DecodeEventBody(std::string_view type, std::string_view text) {
  return DecodeBody(type, text);
}

}  // namespace tide
