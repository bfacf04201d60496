#include "scheduler/store/codec.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "scheduler/store/testing/random_model.h"
#include "scheduler/store/text.h"
#include "scheduler/store/zeros.h"

namespace tide {
namespace {

using testing::RandomModel;

constexpr int kRounds = 300;

TEST_CASE("every value of the model survives encoding", "[codec]") {
  RandomModel random(1);
  for (int i = 0; i < kRounds; ++i) {
    const auto job = random.Make<Job>();
    const auto decoded_job = DecodeJob(EncodeJob(job));
    REQUIRE(decoded_job);
    REQUIRE(*decoded_job == job);

    const auto node = random.Make<Node>();
    REQUIRE(DecodeNode(EncodeNode(node)) == node);
    const auto incident = random.Make<Incident>();
    REQUIRE(DecodeIncident(EncodeIncident(incident)) == incident);
    const auto task = random.Make<Task>();
    REQUIRE(DecodeTask(EncodeTask(task)) == task);
  }
}

TEST_CASE("a job is whole again from its rows", "[codec]") {
  RandomModel random(2);
  for (int i = 0; i < kRounds; ++i) {
    const auto job = random.Make<Job>();
    auto rebuilt = DecodeJob(EncodeJobRow(job));
    REQUIRE(rebuilt);
    REQUIRE(rebuilt->attempts.empty());
    for (const Attempt& attempt : job.attempts) {
      auto row = DecodeAttempt(EncodeAttemptRow(attempt));
      REQUIRE(row);
      REQUIRE(row->tasks.empty());
      for (const Task& task : attempt.tasks) {
        row->tasks.push_back(*DecodeTask(EncodeTask(task)));
      }
      rebuilt->attempts.push_back(std::move(*row));
    }
    REQUIRE(*rebuilt == job);
  }
}

TEST_CASE("every kind of event survives encoding", "[codec]") {
  RandomModel random(3);
  for (uint64_t kind = 0; kind < std::variant_size_v<EventBody>; ++kind) {
    for (int i = 0; i < 50; ++i) {
      const auto body = random.MakeAlternative<EventBody>(kind);
      REQUIRE(body.index() == kind);
      const std::string text = EncodeEventBody(body);
      const auto decoded = DecodeEventBody(EventName(body), text);
      REQUIRE(decoded);
      REQUIRE(*decoded == body);
    }
  }
}

// Adds up where the visited members lie: a member without a key leaves a hole.
struct Coverage {
  const char* base;
  std::vector<std::pair<size_t, size_t>> spans = {};  // offset, size
  size_t next = 0;
  bool holes = false;

  template <typename T>
  void operator()(const char* /*key*/, T& value) {
    const auto offset = static_cast<size_t>(reinterpret_cast<const char*>(&value) - base);
    const size_t expected = (next + alignof(T) - 1) / alignof(T) * alignof(T);
    holes = holes || offset != expected;
    next = offset + sizeof(T);
  }
  // Covers the pointer: the spec itself lies elsewhere.
  void Shared(const char* key, SharedSpec& value) { (*this)(key, value); }
};

template <typename T>
bool IsCovered() {
  T value{};
  Coverage coverage{reinterpret_cast<const char*>(&value)};
  VisitFields(coverage, value);
  const size_t end = (coverage.next + alignof(T) - 1) / alignof(T) * alignof(T);
  return !coverage.holes && end == sizeof(T);
}

template <size_t... I>
void CheckEventsCovered(std::index_sequence<I...> /*indices*/) {
  const bool all = (IsCovered<std::variant_alternative_t<I, EventBody>>() && ...);
  CHECK(all);
}

TEST_CASE("no member is forgotten in the field lists", "[codec]") {
  CHECK(IsCovered<MountSpec>());
  CHECK(IsCovered<Dependency>());
  CHECK(IsCovered<JobSpec>());
  CHECK(IsCovered<TaskExit>());
  CHECK(IsCovered<Task>());
  CHECK(IsCovered<Allocation>());
  CHECK(IsCovered<Claim>());
  CHECK(IsCovered<Queued>());
  CHECK(IsCovered<Held>());
  CHECK(IsCovered<Starting>());
  CHECK(IsCovered<Running>());
  CHECK(IsCovered<Saving>());
  CHECK(IsCovered<Stopping>());
  CHECK(IsCovered<Finished>());
  CHECK(IsCovered<Attempt>());
  CHECK(IsCovered<Checkpoint>());
  CHECK(IsCovered<Job>());
  CHECK(IsCovered<NodeCapacity>());
  CHECK(IsCovered<NodeIdentity>());
  CHECK(IsCovered<Verdict>());
  CHECK(IsCovered<Node>());
  CHECK(IsCovered<Incident>());
  CheckEventsCovered(std::make_index_sequence<std::variant_size_v<EventBody>>());
}

// Names the members of a default value that are not zero.
struct NonZeroNames {
  std::string prefix;
  std::string names = {};

  template <typename T>
  void operator()(const char* key, const T& value) {
    if constexpr (!std::same_as<T, JobPhase>) {
      if (!IsZero(value)) {
        names += prefix + key + ' ';
      }
    }
  }
};

template <typename T>
std::string NonZeroDefaultsOf(const char* name) {
  NonZeroNames visit{std::string(name) + '.'};
  VisitFields(visit, static_cast<const T&>(T{}));
  return visit.names;
}

template <size_t... I>
std::string NonZeroDefaultsOfEvents(std::index_sequence<I...> /*indices*/) {
  return (NonZeroDefaultsOf<std::variant_alternative_t<I, EventBody>>(
              EventName(std::variant_alternative_t<I, EventBody>{}).data()) +
          ...);
}

// Rows leave out what is zero, so a default that was zero stays zero: another one would change
// every row written before. Only a new member may be added here.
TEST_CASE("defaults that were zero are zero", "[codec]") {
  const std::string names =
      NonZeroDefaultsOf<MountSpec>("mount") + NonZeroDefaultsOf<Dependency>("after") +
      NonZeroDefaultsOf<JobSpec>("spec") + NonZeroDefaultsOf<TaskExit>("exit") +
      NonZeroDefaultsOf<Task>("task") + NonZeroDefaultsOf<Part>("part") +
      NonZeroDefaultsOf<Allocation>("allocation") + NonZeroDefaultsOf<Claim>("claim") +
      NonZeroDefaultsOf<Queued>("queued") + NonZeroDefaultsOf<Held>("held") +
      NonZeroDefaultsOf<Starting>("starting") + NonZeroDefaultsOf<Running>("running") +
      NonZeroDefaultsOf<Saving>("saving") + NonZeroDefaultsOf<Stopping>("stopping") +
      NonZeroDefaultsOf<Finished>("finished") + NonZeroDefaultsOf<Attempt>("attempt") +
      NonZeroDefaultsOf<Checkpoint>("checkpoint") + NonZeroDefaultsOf<Job>("job") +
      NonZeroDefaultsOf<NodeCapacity>("capacity") + NonZeroDefaultsOf<NodeIdentity>("identity") +
      NonZeroDefaultsOf<Verdict>("verdict") + NonZeroDefaultsOf<Leftover>("leftover") +
      NonZeroDefaultsOf<Node>("node") + NonZeroDefaultsOf<Incident>("incident") +
      NonZeroDefaultsOf<Account>("account") + NonZeroDefaultsOf<OwnerUse>("use") +
      NonZeroDefaultsOf<PastRun>("run") + NonZeroDefaultsOf<OwnedRun>("owned");
  CHECK(names ==
        "spec.project spec.image spec.group spec.nodes spec.ranks_per_node spec.zone spec.priority "
        "spec.suspend_notice spec.suspend_signal spec.retry_hardware_max spec.retry_backoff "
        "spec.count exit.rank task.state task.exit task.saved_step held.next_start saving.cause "
        "stopping.cause attempt.stop_step checkpoint.step job.spec job.checkpoint job.resume_step "
        "identity.group node.identity node.after_validation incident.kind incident.count ");
  const auto events = std::make_index_sequence<std::variant_size_v<EventBody>>();
  CHECK(NonZeroDefaultsOfEvents(events) ==
        "job_submitted.spec release_requested.resume_step suspend_requested.cause "
        "task_reported.state task_reported.exit task_reported.stop_step "
        "task_reported.saved_step node_joined.identity fault_observed.kind job_noted.step ");
}

// A member that is a struct begins, where it is read, as the type's default does: what it leaves
// out is read as that.
struct NestedDefaults {
  bool agree = true;

  template <typename T>
  void operator()(const char* /*key*/, const T& value) {
    if constexpr (requires(NestedDefaults& visit, const T& each) { VisitFields(visit, each); }) {
      agree = agree && value == T{};
      VisitFields(*this, value);
    }
  }
};

template <typename T>
bool NestedDefaultsAgree() {
  NestedDefaults visit;
  VisitFields(visit, static_cast<const T&>(T{}));
  return visit.agree;
}

template <size_t... I>
bool NestedDefaultsOfEventsAgree(std::index_sequence<I...> /*indices*/) {
  return (NestedDefaultsAgree<std::variant_alternative_t<I, EventBody>>() && ...);
}

TEST_CASE("a struct in a struct begins with its type's defaults", "[codec]") {
  CHECK(NestedDefaultsAgree<Job>());
  CHECK(NestedDefaultsAgree<Attempt>());
  CHECK(NestedDefaultsAgree<Task>());
  CHECK(NestedDefaultsAgree<Node>());
  CHECK(NestedDefaultsAgree<Incident>());
  CHECK(NestedDefaultsAgree<OwnerUse>());
  CHECK(NestedDefaultsAgree<OwnedRun>());
  CHECK(NestedDefaultsAgree<Saving>());
  CHECK(NestedDefaultsAgree<Stopping>());
  CHECK(NestedDefaultsOfEventsAgree(std::make_index_sequence<std::variant_size_v<EventBody>>()));
}

TEST_CASE("what is zero is left out where a reader gives zero", "[codec]") {
  CHECK(EncodeTask(Task{}) == R"({"state":"assigned","exit":{"rank":-1},"saved_step":-1})");
  Job job;
  job.spec.Edit([](JobSpec& spec) { spec.nodes = 0; });  // its default is 1
  job.checkpoint = Checkpoint{};
  const auto decoded = DecodeJob(EncodeJob(job));
  REQUIRE(decoded);
  CHECK(*decoded == job);
}

TEST_CASE("members come in any order, beside unknown ones", "[codec]") {
  const auto job = DecodeJob(
      R"({"user": "ada", "later": 1, "spec": {"nodes": 3, "x": [], "name": "n"}, "id": 7,
          "phase": {"exit_code": 4, "state": "finished", "outcome": "failed"}})");
  REQUIRE(job);
  Job expected;
  expected.id = JobId(7);
  expected.user = "ada";
  expected.spec.Edit([](JobSpec& spec) {
    spec.nodes = 3;
    spec.name = "n";
  });
  expected.phase = Finished{.outcome = Outcome::kFailed, .exit_code = 4};
  CHECK(*job == expected);
}

TEST_CASE("stored words are those people see", "[codec]") {
  for (const auto& [state, name] : kEnumNames<JobState>) {
    CHECK(name == JobStateName(state));
  }
  for (const auto& [state, name] : kEnumNames<NodeState>) {
    CHECK(name == NodeStateName(state));
  }
  for (const auto& [cause, name] : kEnumNames<StopCause>) {
    CHECK((cause == StopCause::kNone || name == StopCauseName(cause)));
  }
}

TEST_CASE("rows of other versions load", "[codec]") {
  const auto job = DecodeJob(R"({"id": 7, "from_the_future": {"a": [1, 2]}})");
  REQUIRE(job);
  Job expected;
  expected.id = JobId(7);
  CHECK(*job == expected);
  CHECK(DecodeNode("{}") == Node{});
}

TEST_CASE("decoding answers every text and never throws", "[codec]") {
  const auto message = [](std::string_view text) { return DecodeJob(text).error().message; };
  CHECK(message(R"({"id": -1})") == "/id is not a whole number in range");
  CHECK(message(R"({"spec": {"nodes": 4294967296}})") ==
        "/spec/nodes is not a whole number in range");
  CHECK(message(R"({"spec": {"env": {"A": 1}}})") == "/spec/env is not a string");
  CHECK(message(R"({"phase": {"state": "asleep"}})") == "/phase has the unknown value \"asleep\"");
  CHECK(message(R"({"phase": {"state": 12}})") == "/phase/state is unknown");
  CHECK(message("[]") == " is not an object");
  CHECK(DecodeJob("").error().code == ErrorCode::kCorrupt);
  CHECK(DecodeEventBody("dance", "{}").error().message == "unknown event type \"dance\"");

  RandomModel random(4);
  for (int i = 0; i < kRounds; ++i) {
    std::string text = EncodeJob(random.Make<Job>());
    text[random.prng().Below(text.size())] = static_cast<char>(random.prng().Below(256));
    text.resize(random.prng().Below(4) == 0 ? random.prng().Below(text.size()) : text.size());
    const auto job = DecodeJob(text);
    CHECK((job || job.error().code == ErrorCode::kCorrupt));
  }
}

TEST_CASE("not-a-number is kept", "[codec]") {
  Verdict verdict;
  verdict.value = std::nan("");
  Node node;
  node.verdicts = {verdict};
  const auto decoded = DecodeNode(EncodeNode(node));
  REQUIRE(decoded);
  CHECK(std::isnan(decoded->verdicts.at(0).value));
}

TEST_CASE("text for columns is UTF-8 without NUL", "[text]") {
  CHECK(IsUtf8("naïve €𝄞"));
  CHECK_FALSE(IsUtf8("\xc3"));
  CHECK_FALSE(IsUtf8("\xc0\x80"));          // overlong
  CHECK_FALSE(IsUtf8("\xed\xa0\x80"));      // surrogate
  CHECK_FALSE(IsUtf8("\xf4\x90\x80\x80"));  // beyond U+10FFFF
  CHECK(ReadableText(std::string("a\0b\xff€", 7)) == "a?b?€");
  std::string bytes;
  CHECK(FromHex(ToHex(std::string("\x00\xff", 2)), bytes));
  CHECK(bytes == std::string("\x00\xff", 2));
  CHECK_FALSE(FromHex("0", bytes));
  CHECK_FALSE(FromHex("0g", bytes));
}

}  // namespace
}  // namespace tide
