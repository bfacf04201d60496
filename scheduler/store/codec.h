#pragma once
// The model as JSON text and back, exactly: Decode(Encode(x)) == x for every value, whatever bytes
// its strings hold. Keys come in the order of the fields: equal values give equal text. A member
// that is zero – 0, false, empty, unset – and whose default is zero is left out (zeros.h). Decoding
// ignores unknown keys and leaves missing ones at their default: rows of older and newer versions
// load. It never throws.   Errors: kCorrupt, naming the key.

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "scheduler/core/model/event.h"
#include "scheduler/core/model/state.h"

namespace tide {

[[nodiscard]] std::string EncodeJob(const Job& job);
[[nodiscard]] Result<Job> DecodeJob(std::string_view text);

// Parts of a job kept in rows of their own: a job without its attempts, an attempt without its
// tasks. DecodeJob and DecodeAttempt read them.
[[nodiscard]] std::string EncodeJobRow(const Job& job);
[[nodiscard]] std::string EncodeAttemptRow(const Attempt& attempt);
[[nodiscard]] std::string EncodeTask(const Task& task);
[[nodiscard]] Result<Attempt> DecodeAttempt(std::string_view text);
[[nodiscard]] Result<Task> DecodeTask(std::string_view text);

[[nodiscard]] std::string EncodeNode(const Node& node);
[[nodiscard]] Result<Node> DecodeNode(std::string_view text);
[[nodiscard]] std::string EncodeIncident(const Incident& incident);
[[nodiscard]] Result<Incident> DecodeIncident(std::string_view text);

// What an owner's archived jobs have used.
struct OwnerUse {
  std::string project;
  std::string user;
  Account used;
  HeldTime held;
  bool operator==(const OwnerUse&) const = default;
};
[[nodiscard]] std::string EncodeOwnerUse(const OwnerUse& use);
[[nodiscard]] Result<OwnerUse> DecodeOwnerUse(std::string_view text);
[[nodiscard]] std::string EncodeOwnedRun(const OwnedRun& owned);
[[nodiscard]] Result<OwnedRun> DecodeOwnedRun(std::string_view text);

// The body alone; EventName(body) is its `type`.
[[nodiscard]] std::string EncodeEventBody(const EventBody& body);
[[nodiscard]] Result<EventBody> DecodeEventBody(std::string_view type, std::string_view text);

// The whole state without what RebuildDerived derives: for hashes, snapshots and tests.
[[nodiscard]] std::string EncodeState(const ClusterState& state);

}  // namespace tide
