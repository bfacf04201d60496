// /dev/kmsg: one record per read; EAGAIN at the end; EPIPE when records were overwritten before
// they were read (the kernel then goes on at the oldest one). Sequence numbers start at 0 at boot.

#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "agent/health/sources.h"
#include "common/health/cursor.h"
#include "common/health/kernel_log.h"

namespace tide::health {
namespace {

// The kernel refuses (EINVAL) buffers smaller than the record; its own limit is 8 KiB.
constexpr size_t kRecordBuffer = 16384;
constexpr int kMaxErrorsPerRead = 64;
constexpr size_t kMaxRecordsAtStart = 1'000'000;

struct Record {
  uint64_t sequence = 0;
  std::string_view text;
};

std::optional<Record> ParseRecord(std::string_view raw) {
  Cursor c(raw);
  if (!c.TakeNumber(6) || !c.Take(",")) {
    return std::nullopt;
  }
  const auto sequence = c.TakeNumber(18);
  const size_t semicolon = c.rest().find(';');
  if (!sequence || semicolon == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view text = c.rest().substr(semicolon + 1);
  return Record{static_cast<uint64_t>(*sequence), text.substr(0, text.find('\n'))};
}

class KmsgDevice final : public LineSource {
 public:
  KmsgDevice(Fd fd, std::string boot_id) : fd_(std::move(fd)), boot_id_(std::move(boot_id)) {}

  // Nothing that is in the buffer now is handed out. Reading beats SEEK_END: it yields the
  // sequence number that the position needs.
  Status SkipToEnd() {
    for (size_t n = 0; n < kMaxRecordsAtStart; ++n) {
      TIDE_ASSIGN(const auto record, NextRecord());
      if (!record) {
        break;
      }
      next_ = record->sequence + 1;
    }
    gaps_ = 0;
    return {};
  }

  void ResumeAt(uint64_t next) { next_ = next; }

  Result<bool> Read(size_t max_lines, std::vector<std::string>& lines) override {
    for (size_t n = 0; n < max_lines;) {
      TIDE_ASSIGN(const auto record, NextRecord());
      if (!record) {
        return false;
      }
      if (record->sequence < next_) {
        continue;  // handed out before the restart
      }
      gaps_ += record->sequence > next_ ? 1 : 0;
      next_ = record->sequence + 1;
      lines.push_back(UnescapeKmsg(record->text.substr(0, kMaxLine)));
      ++n;
    }
    return true;
  }

  [[nodiscard]] int fd() const override { return fd_.get(); }
  [[nodiscard]] std::string Position() const override {
    return "kmsg " + boot_id_ + " " + std::to_string(next_);
  }
  [[nodiscard]] uint64_t gaps() const override { return gaps_; }

 private:
  // The next record, or nothing at the end. Its text lives until the next call.
  Result<std::optional<Record>> NextRecord() {
    for (int errors = 0; errors < kMaxErrorsPerRead;) {
      const ssize_t n = ::read(fd_.get(), buffer_.data(), buffer_.size());
      if (n > 0) {
        if (auto record = ParseRecord({buffer_.data(), static_cast<size_t>(n)})) {
          return record;
        }
        ++errors;
        continue;
      }
      if (n == 0 || errno == EAGAIN) {
        return std::nullopt;
      }
      ++errors;
      if (errno != EPIPE && errno != EINTR && errno != EINVAL) {
        return FailErrno("cannot read the kernel log", errno);
      }
      // After EPIPE and EINVAL the next record's number shows that some are missing.
    }
    return std::nullopt;
  }

  Fd fd_;
  std::string boot_id_;
  uint64_t next_ = 0;  // sequence number
  uint64_t gaps_ = 0;
  std::array<char, kRecordBuffer> buffer_{};
};

// "kmsg <boot id> <number>"
std::optional<std::pair<std::string_view, uint64_t>> ParseBootPosition(std::string_view text) {
  Cursor c(text);
  if (!c.Take("kmsg ")) {
    return std::nullopt;
  }
  const std::string_view boot_id = c.TakeWhile([](char ch) { return ch != ' '; });
  if (boot_id.empty() || !c.Take(" ")) {
    return std::nullopt;
  }
  const auto next = c.TakeNumber(18);
  if (!next || !c.AtEnd()) {
    return std::nullopt;
  }
  return std::pair(boot_id, static_cast<uint64_t>(*next));
}

}  // namespace

Result<std::unique_ptr<LineSource>> OpenKmsgDevice(Fd fd,
                                                   const std::string& position,
                                                   const std::string& boot_id) {
  auto device = std::make_unique<KmsgDevice>(std::move(fd), boot_id);
  const auto saved = ParseBootPosition(position);
  if (!saved) {
    TIDE_TRY(device->SkipToEnd());
  } else if (saved->first == boot_id) {
    device->ResumeAt(saved->second);
  }
  // Another boot: everything since its start is new.
  return device;
}

}  // namespace tide::health
