// log-search: a rank's output searched as the agent does it, by one thread, in the page cache; and
// what the C library's memmem takes for the same file, read the same way, with nothing around it.

#include "agent/logs/log_search.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/runtime/log_segments.h"
#include "bench/benches.h"
#include "bench/daemons/task_place.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/time.h"

namespace tide::bench {
namespace {

constexpr const char* kNeedle = "loss is NaN";
// No literal stands at its beginning, so nothing can be skipped.
constexpr const char* kExpression = "[Ll]oss (is NaN|[0-9]{3,}\\.)";
constexpr size_t kEvery = 1'000'000;  // lines between two that match
constexpr size_t kLinesOfRecord = 2000;

// Lines as training writes them, with a record for some of them each. Returns their bytes.
uint64_t WriteLog(const std::string& folder, uint64_t bytes) {
  const agent::LogSegment segment = agent::MakeLogSegment(folder, 0, 0);
  const Fd log(::open(segment.log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const Fd index(::open(segment.index.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  TIDE_CHECK(log.valid() && index.valid(), "the log can be made");
  uint64_t written = 0;
  for (uint64_t line = 1; written < bytes;) {
    std::string text;
    for (size_t i = 0; i < kLinesOfRecord; ++i, ++line) {
      text += "epoch 3 step " + std::to_string(line) + " ";
      text +=
          line % kEvery == 0 ? kNeedle : "loss " + std::to_string(1.0 / static_cast<double>(line));
      text += " lr 3.0e-04 tokens/s 184203 grad_norm 0.8731\n";
    }
    const agent::LogRecord record{.offset = written,
                                  .at = static_cast<int64_t>(line),
                                  .length = static_cast<uint32_t>(text.size()),
                                  .stream = agent::kStdoutStream};
    const auto* bytes_of = reinterpret_cast<const char*>(&record);
    TIDE_CHECK(WriteAll(log.get(), text) && WriteAll(index.get(), {bytes_of, sizeof(record)}),
               "the log can be written");
    written += text.size();
  }
  return written;
}

// Returns how many lines match.
size_t Search(const std::string& folder, const agent::LinePattern& pattern) {
  agent::LogFile log(folder, 0);
  TIDE_CHECK(log.Refresh().has_value(), "the log is there");
  const auto matcher = agent::LineMatcher::Make(pattern);
  const auto end = log.End();
  TIDE_CHECK(matcher.has_value() && end.has_value(), "the search can begin");
  agent::LogSearch search(log, *matcher, 0);
  std::vector<agent::FoundLine> found;
  while (true) {
    const auto more = search.Step(*end, true, 1000, found);
    TIDE_CHECK(more.has_value(), "the log can be read");
    if (!*more) {
      return found.size();
    }
  }
}

// The limit: the same reads, and memmem.
size_t Scan(const std::string& folder) {
  const Fd log(::open(agent::MakeLogSegment(folder, 0, 0).log.c_str(), O_RDONLY | O_CLOEXEC));
  std::string buffer(agent::LogSearch::kBlockBytes, '\0');
  size_t found = 0;
  while (true) {
    const ssize_t n = ::read(log.get(), buffer.data(), buffer.size());
    if (n <= 0) {
      return found;
    }
    const char* const end = buffer.data() + n;
    for (const char* at = buffer.data(); at < end; ++found) {
      const void* hit = ::memmem(at, static_cast<size_t>(end - at), kNeedle, std::strlen(kNeedle));
      if (hit == nullptr) {
        break;
      }
      at = static_cast<const char*>(hit) + 1;
    }
  }
}

}  // namespace

void RunLogSearch(Run& run) {
  const std::string size = run.quick() ? "4 MiB" : "1 GiB";
  if (!run.Wants(size + ", text") && !run.Wants(size + ", expression")) {
    return;
  }
  const TaskPlace place;
  const uint64_t bytes = WriteLog(place.path(), (run.quick() ? 4ULL : 1024ULL) << 20U);
  const size_t matches = Scan(place.path());
  Samples limit;
  Samples text;
  Samples expression;
  for (int round = 0; round < (run.quick() ? 1 : 5); ++round) {
    const auto timed = [&](Samples& samples, auto search) {
      const int64_t start = MonotonicNanos();
      const size_t found = search();
      samples.Add(MonotonicNanos() - start);
      TIDE_CHECK(found == matches, "every line that matches is found");
    };
    timed(limit, [&] { return Scan(place.path()); });
    timed(text, [&] { return Search(place.path(), {kNeedle}); });
    timed(expression, [&] { return Search(place.path(), {kExpression}); });
  }
  run.AddTimes(size + ", memmem alone", limit);
  run.AddTimes(size + ", text", text, {.p50_ms = {}, .p99_ms = {}, .max_ms = 2000});
  run.AddTimes(size + ", expression", expression, {.p50_ms = {}, .p99_ms = {}, .max_ms = 2000});
  run.Add(size + ", text / memmem",
          Metric::kRatio,
          text.PercentileMs(50) / limit.PercentileMs(50),
          text.size());
  run.Add(size + ", text, MiB/s",
          Metric::kPerS,
          static_cast<double>(bytes >> 20U) / (text.PercentileMs(50) / 1000),
          text.size(),
          AtLeast(512));
}

}  // namespace tide::bench
