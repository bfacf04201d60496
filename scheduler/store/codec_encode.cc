// Values to JSON text, written straight through: commits encode each row and event, so no tree of
// nodes is built first. Members that are zero are left out: two thirds of a waiting job's are, and
// a start reads all of them.

#include <array>
#include <charconv>
#include <cmath>
#include <ranges>
#include <utility>

#include "scheduler/store/codec.h"
#include "scheduler/store/codec_types.h"
#include "scheduler/store/enum_names.h"
#include "scheduler/store/event_fields.h"
#include "scheduler/store/text.h"
#include "scheduler/store/zeros.h"

namespace tide {
namespace {

template <typename T>
void Put(std::string& out, const T& value);

void PutString(std::string& out, const std::string& value) {
  if (IsUtf8(value)) {
    AppendJsonString(out, value);
  } else {
    out += "{\"";
    out += kBytesKey;
    out += "\":\"" + ToHex(value) + "\"}";
  }
}

template <typename T>
void PutNumber(std::string& out, T value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), end.ptr);
}

void PutDouble(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "\"nan\"";
  } else if (std::isinf(value)) {
    out += value > 0 ? "\"inf\"" : "\"-inf\"";
  } else {
    PutNumber(out, value);
  }
}

// Writes the members of a struct, each after a comma but for the first.
struct Writer {
  std::string& out;
  uint64_t written_zeros = 0;  // bit i = the i-th member is written even when it is zero
  std::string_view skipped = {};
  bool first = true;

  template <typename T>
  void operator()(std::string_view key, const T& value) {
    const bool is_written = (written_zeros & 1) != 0 || !IsZero(value);
    written_zeros >>= 1;
    if (is_written && key != skipped) {
      Write(key, value);
    }
  }

  template <typename T>
  void Write(std::string_view key, const T& value) {
    out += first ? "\"" : ",\"";
    first = false;
    out += key;
    out += "\":";
    Put(out, value);
  }
};

template <typename T>
void PutStruct(std::string& out, const T& value, std::string_view skipped = {}) {
  static const uint64_t written_zeros = NonZeroDefaults<T>();
  out += '{';
  Writer writer{out, written_zeros, skipped};
  VisitFields(writer, value);
  out += '}';
}

// An object, or pairs when a key cannot be one.
void PutMap(std::string& out, const StringMap& value) {
  bool plain = true;
  for (const auto& [key, text] : value) {
    plain = plain && IsUtf8(key);
  }
  out += plain ? '{' : '[';
  bool first = true;
  for (const auto& [key, text] : value) {
    out += first ? "" : ",";
    first = false;
    out += plain ? "" : "[";
    PutString(out, key);
    out += plain ? ':' : ',';
    PutString(out, text);
    out += plain ? "" : "]";
  }
  out += plain ? '}' : ']';
}

template <typename T>
void PutEnum(std::string& out, T value) {
  const std::string_view name = EnumText(value);
  if (name.empty()) {
    PutNumber(out, std::to_underlying(value));
  } else {
    AppendJsonString(out, name);
  }
}

void PutPhase(std::string& out, const JobPhase& value) {
  out += '{';
  Writer writer{out};
  writer.Write(kStateKey, static_cast<JobState>(value.index()));
  std::visit(
      [&writer]<typename T>(const T& phase) {
        static const uint64_t written_zeros = NonZeroDefaults<T>();
        writer.written_zeros = written_zeros;
        VisitFields(writer, phase);
      },
      value);
  out += '}';
}

// Of anything that can be gone through.
template <typename List>
void PutList(std::string& out, const List& list) {
  out += '[';
  bool first = true;
  for (const auto& each : list) {
    out += first ? "" : ",";
    first = false;
    Put(out, each);
  }
  out += ']';
}

template <typename T>
void Put(std::string& out, const T& value) {
  if constexpr (std::same_as<T, std::string>) {
    PutString(out, value);
  } else if constexpr (std::same_as<T, StringMap>) {
    PutMap(out, value);
  } else if constexpr (std::same_as<T, double>) {
    PutDouble(out, value);
  } else if constexpr (std::same_as<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::integral<T>) {
    PutNumber(out, value);
  } else if constexpr (std::is_enum_v<T>) {
    PutEnum(out, value);
  } else if constexpr (std::same_as<T, Instant>) {
    PutNumber(out, value.unix_nanos());
  } else if constexpr (std::same_as<T, Duration>) {
    PutNumber(out, value.nanos());
  } else if constexpr (kIsId<T>) {
    PutNumber(out, value.value());
  } else if constexpr (kIsOptional<T>) {
    if (value) {
      Put(out, *value);
    } else {
      out += "null";
    }
  } else if constexpr (kIsVector<T>) {
    PutList(out, value);
  } else if constexpr (std::same_as<T, JobPhase>) {
    PutPhase(out, value);
  } else {
    PutStruct(out, value);
  }
}

template <typename T>
std::string Encode(const T& value, std::string_view skipped = {}) {
  std::string out;
  out.reserve(512);
  PutStruct(out, value, skipped);
  return out;
}

}  // namespace

std::string EncodeJob(const Job& job) {
  return Encode(job);
}
std::string EncodeJobRow(const Job& job) {
  return Encode(job, "attempts");
}
std::string EncodeAttemptRow(const Attempt& attempt) {
  return Encode(attempt, "tasks");
}
std::string EncodeTask(const Task& task) {
  return Encode(task);
}
std::string EncodeNode(const Node& node) {
  return Encode(node);
}
std::string EncodeIncident(const Incident& incident) {
  return Encode(incident);
}
std::string EncodeOwnerUse(const OwnerUse& use) {
  return Encode(use);
}
std::string EncodeOwnedRun(const OwnedRun& owned) {
  return Encode(owned);
}
std::string EncodeEventBody(const EventBody& body) {
  return std::visit([](const auto& each) { return Encode(each); }, body);
}

std::string EncodeState(const ClusterState& state) {
  std::string out = "{\"jobs\":";
  PutList(out, std::views::values(state.jobs));
  out += ",\"nodes\":";
  PutList(out, state.nodes);
  out += ",\"incidents\":";
  PutList(out, std::views::values(state.incidents));
  Writer writer{.out = out, .first = false};
  writer.Write("next_job_id", state.next_job_id);
  writer.Write("next_incident_id", state.next_incident_id);
  out += ",\"archived_use\":";
  PutList(out, std::views::transform(state.archived_use, [](const auto& entry) {
            return OwnerUse{
                entry.first.first, entry.first.second, entry.second.lately, entry.second.held};
          }));
  out += ",\"archived_runs\":";
  PutList(out, std::views::values(state.archived_runs));
  return out + "}";
}

}  // namespace tide
