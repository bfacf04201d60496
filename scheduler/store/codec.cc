#include "scheduler/store/codec.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "scheduler/store/enum_names.h"
#include "scheduler/store/event_fields.h"
#include "scheduler/store/text.h"

namespace tide {
namespace {

using nlohmann::json;

constexpr const char* kBytesKey = "hex";  // of a string that is not UTF-8

template <typename T>
inline constexpr bool kIsId = false;
template <typename Tag, typename Rep>
inline constexpr bool kIsId<StrongId<Tag, Rep>> = true;

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

using StringMap = std::map<std::string, std::string>;

template <typename T>
json ToJson(const T& value);

// Writes the members of a struct into an object.
struct Writer {
  json& object;
  std::string_view skipped = {};

  template <typename T>
  void operator()(const char* key, const T& value) {
    if (key != skipped) {
      object[key] = ToJson(value);
    }
  }
};

template <typename T>
json StructToJson(const T& value, std::string_view skipped = {}) {
  json object = json::object();
  Writer writer{object, skipped};
  VisitFields(writer, value);
  return object;
}

json StringToJson(const std::string& value) {
  return IsUtf8(value) ? json(value) : json{{kBytesKey, ToHex(value)}};
}

// An object, or pairs when a key cannot be one.
json MapToJson(const StringMap& value) {
  json object = json::object();
  json pairs = json::array();
  bool plain = true;
  for (const auto& [key, text] : value) {
    plain = plain && IsUtf8(key);
    pairs.push_back({StringToJson(key), StringToJson(text)});
    if (plain) {
      object[key] = StringToJson(text);
    }
  }
  return plain ? object : pairs;
}

json DoubleToJson(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  return value;
}

template <typename T>
json EnumToJson(T value) {
  const std::string_view name = EnumText(value);
  return name.empty() ? json(std::to_underlying(value)) : json(name);
}

template <typename T>
json ToJson(const T& value) {
  if constexpr (std::same_as<T, std::string>) {
    return StringToJson(value);
  } else if constexpr (std::same_as<T, StringMap>) {
    return MapToJson(value);
  } else if constexpr (std::same_as<T, double>) {
    return DoubleToJson(value);
  } else if constexpr (std::integral<T>) {
    return value;
  } else if constexpr (std::is_enum_v<T>) {
    return EnumToJson(value);
  } else if constexpr (std::same_as<T, Instant>) {
    return value.unix_nanos();
  } else if constexpr (std::same_as<T, Duration>) {
    return value.nanos();
  } else if constexpr (kIsId<T>) {
    return value.value();
  } else if constexpr (kIsOptional<T>) {
    return value ? ToJson(*value) : json(nullptr);
  } else if constexpr (kIsVector<T>) {
    json array = json::array();
    for (const auto& each : value) {
      array.push_back(ToJson(each));
    }
    return array;
  } else if constexpr (std::same_as<T, JobPhase>) {
    json object = std::visit([](const auto& phase) { return StructToJson(phase); }, value);
    object["state"] = EnumText(static_cast<JobState>(value.index()));
    return object;
  } else {
    return StructToJson(value);
  }
}

// --- reading: these throw DecodeError, caught in Decode ----------------------------------------

struct DecodeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename T>
void FromJson(const json& in, T& out);

// Reads the members it finds, and names the path of what it cannot read.
struct Reader {
  const json& object;

  template <typename T>
  void operator()(const char* key, T& value) {
    const auto it = object.find(key);
    if (it == object.end()) {
      return;
    }
    try {
      FromJson(*it, value);
    } catch (const DecodeError& error) {
      throw DecodeError(std::string("/") + key + error.what());
    }
  }
};

template <typename T>
T IntegerFromJson(const json& in) {
  if (in.is_number_unsigned()) {
    const auto number = in.get<uint64_t>();
    if (std::in_range<T>(number)) {
      return static_cast<T>(number);
    }
  } else if (in.is_number_integer()) {
    const auto number = in.get<int64_t>();
    if (std::in_range<T>(number)) {
      return static_cast<T>(number);
    }
  }
  throw DecodeError(" is not a whole number in range");
}

std::string StringFromJson(const json& in) {
  if (in.is_string()) {
    return in.get<std::string>();
  }
  std::string bytes;
  if (in.is_object() && in.contains(kBytesKey) && in[kBytesKey].is_string() &&
      FromHex(in[kBytesKey].get_ref<const std::string&>(), bytes)) {
    return bytes;
  }
  throw DecodeError(" is not a string");
}

void MapFromJson(const json& in, StringMap& out) {
  out.clear();
  if (in.is_object()) {
    for (const auto& [key, value] : in.items()) {
      out[key] = StringFromJson(value);
    }
    return;
  }
  if (!in.is_array()) {
    throw DecodeError(" is not a map");
  }
  for (const json& pair : in) {
    if (!pair.is_array() || pair.size() != 2) {
      throw DecodeError(" is not a map");
    }
    out[StringFromJson(pair[0])] = StringFromJson(pair[1]);
  }
}

double DoubleFromJson(const json& in) {
  if (in.is_number()) {
    return in.get<double>();
  }
  if (in == "nan") {
    return std::nan("");
  }
  if (in == "inf" || in == "-inf") {
    return in == "inf" ? HUGE_VAL : -HUGE_VAL;
  }
  throw DecodeError(" is not a number");
}

template <typename T>
T EnumFromJson(const json& in) {
  if (!in.is_string()) {
    return static_cast<T>(IntegerFromJson<std::underlying_type_t<T>>(in));
  }
  const auto& text = in.get_ref<const std::string&>();
  if (const auto value = EnumFromText<T>(text)) {
    return *value;
  }
  throw DecodeError(" has the unknown value \"" + text + "\"");
}

// Not inlined: g++ 12 then believes the claim of a fresh Queued to be read uninitialized.
template <size_t I = 0>
[[gnu::noinline]] void PhaseFromJson(const json& in, JobState state, JobPhase& out) {
  if constexpr (I < std::variant_size_v<JobPhase>) {
    if (std::to_underlying(state) == I) {
      FromJson(in, out.emplace<I>());
    } else {
      PhaseFromJson<I + 1>(in, state, out);
    }
  } else {
    throw DecodeError("/state is unknown");
  }
}

template <typename T>
void FromJson(const json& in, T& out) {
  if constexpr (std::same_as<T, std::string>) {
    out = StringFromJson(in);
  } else if constexpr (std::same_as<T, StringMap>) {
    MapFromJson(in, out);
  } else if constexpr (std::same_as<T, double>) {
    out = DoubleFromJson(in);
  } else if constexpr (std::same_as<T, bool>) {
    if (!in.is_boolean()) {
      throw DecodeError(" is not true or false");
    }
    out = in.get<bool>();
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
    if (!in.is_array()) {
      throw DecodeError(" is not a list");
    }
    out.clear();
    for (const json& each : in) {
      FromJson(each, out.emplace_back());
    }
  } else {
    if (!in.is_object()) {
      throw DecodeError(" is not an object");
    }
    if constexpr (std::same_as<T, JobPhase>) {
      PhaseFromJson(in, EnumFromJson<JobState>(in.value("state", json("queued"))), out);
    } else {
      Reader reader{in};
      VisitFields(reader, out);
    }
  }
}

template <typename T>
Result<T> Decode(std::string_view text) {
  Result<T> value(std::in_place);
  try {
    FromJson(json::parse(text), *value);
    return value;
  } catch (const DecodeError& error) {
    return Fail(ErrorCode::kCorrupt, error.what());
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kCorrupt, std::string("not JSON: ") + error.what());
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

std::string EncodeJob(const Job& job) {
  return ToJson(job).dump();
}
Result<Job> DecodeJob(std::string_view text) {
  return Decode<Job>(text);
}
std::string EncodeJobRow(const Job& job) {
  return StructToJson(job, "attempts").dump();
}
std::string EncodeAttemptRow(const Attempt& attempt) {
  return StructToJson(attempt, "tasks").dump();
}
std::string EncodeTask(const Task& task) {
  return ToJson(task).dump();
}
Result<Attempt> DecodeAttempt(std::string_view text) {
  return Decode<Attempt>(text);
}
Result<Task> DecodeTask(std::string_view text) {
  return Decode<Task>(text);
}
std::string EncodeNode(const Node& node) {
  return ToJson(node).dump();
}
Result<Node> DecodeNode(std::string_view text) {
  return Decode<Node>(text);
}
std::string EncodeIncident(const Incident& incident) {
  return ToJson(incident).dump();
}
Result<Incident> DecodeIncident(std::string_view text) {
  return Decode<Incident>(text);
}
std::string EncodeEventBody(const EventBody& body) {
  return std::visit([](const auto& each) { return ToJson(each).dump(); }, body);
}
Result<EventBody> DecodeEventBody(std::string_view type, std::string_view text) {
  return DecodeBody(type, text);
}

std::string EncodeState(const ClusterState& state) {
  json jobs = json::array();
  for (const auto& [id, job] : state.jobs) {
    jobs.push_back(ToJson(job));
  }
  json incidents = json::array();
  for (const auto& [id, incident] : state.incidents) {
    incidents.push_back(ToJson(incident));
  }
  return json{{"jobs", std::move(jobs)},
              {"nodes", ToJson(state.nodes)},
              {"incidents", std::move(incidents)},
              {"next_job_id", state.next_job_id},
              {"next_incident_id", state.next_incident_id}}
      .dump();
}

}  // namespace tide
