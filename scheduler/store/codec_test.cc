#include "scheduler/store/codec.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "scheduler/store/testing/random_model.h"
#include "scheduler/store/text.h"

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
