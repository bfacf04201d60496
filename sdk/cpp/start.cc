#include "sdk/cpp/start.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/file.h"
#include "common/base/time.h"
#include "sdk/cpp/store.h"
#include "sdk/native/crc32.h"
#include "sdk/native/folder.h"
#include "sdk/native/json_text.h"
#include "sdk/native/nap.h"
#include "sdk/native/save.h"

namespace tide::cpp {
namespace {

constexpr std::string_view kNotePrefix = ".start-";
constexpr std::string_view kGonePrefix = ".gone-";  // sdk::GonePath

std::string Hex8(uint32_t value) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", value);
  return text.data();
}

Result<std::string> RandomHex8() {
  uint32_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) {
    return FailErrno("cannot get random bytes", errno);
  }
  return Hex8(value);
}

std::string NonceOf(const std::string& start) {
  return Hex8(sdk::Crc32(0, start.data(), start.size()));
}

std::string NotePath(const std::string& folder, std::string_view nonce) {
  return folder + "/" + std::string(kNotePrefix) + std::string(nonce);
}

std::string TokenPath(const std::string& folder, int64_t rank) {
  return folder + "/.rank-" + FiveDigits(rank);
}

std::string NoteText(const Start& start, const std::vector<std::string>& tokens) {
  std::string list;
  for (const std::string& token : tokens) {
    list += (list.empty() ? "" : ",") + sdk::JsonQuote(token);
  }
  std::string generations;
  for (const auto& [step, last] : start.generations) {
    generations +=
        (generations.empty() ? "\"" : ",\"") + std::to_string(step) + "\":" + std::to_string(last);
  }
  return "{\"number\":" + std::to_string(start.number) + ",\"nonce\":\"" + start.nonce +
         "\",\"checkpoint\":" + sdk::JsonQuote(start.checkpoint) + ",\"generations\":{" +
         generations + "}" + ",\"tokens\":[" + list + "]}";
}

std::string TextMember(const std::string& record, std::string_view key) {
  const Result<std::string_view> value = sdk::JsonMemberOf(record, key);
  return value ? sdk::JsonString(*value).value_or("") : "";
}

int64_t NumberMember(const std::string& record, std::string_view key) {
  const Result<std::string_view> value = sdk::JsonMemberOf(record, key);
  return value ? sdk::JsonInteger(*value).value_or(0) : 0;
}

bool HasToken(const std::string& note, const std::string& token) {
  const Result<std::string_view> list = sdk::JsonMemberOf(note, "tokens");
  return list && list->find("\"" + token + "\"") != std::string_view::npos;
}

// A note or token; nullopt while there is none. Files are put in place whole.
std::optional<std::string> ReadRecord(const std::string& path) {
  Result<std::string> text = ReadFile(path);
  return text ? std::optional(std::move(*text)) : std::nullopt;
}

std::map<int64_t, int64_t> NotedGenerations(const std::string& note) {
  std::map<int64_t, int64_t> generations;
  const Result<std::string_view> object = sdk::JsonMemberOf(note, "generations");
  const auto members = object ? sdk::JsonMembers(*object) : Result<std::vector<sdk::JsonMember>>();
  for (const sdk::JsonMember& member : members.value_or(std::vector<sdk::JsonMember>())) {
    const std::string step = sdk::JsonString(member.key).value_or("");
    generations[sdk::JsonInteger(step).value_or(-1)] = sdk::JsonInteger(member.value).value_or(0);
  }
  return generations;
}

Start NotedStart(const std::string& note) {
  return {.number = NumberMember(note, "number"),
          .nonce = TextMember(note, "nonce"),
          .checkpoint = TextMember(note, "checkpoint"),
          .generations = NotedGenerations(note)};
}

std::unexpected<tide::Error> RankZeroIsLate(const std::string& folder) {
  return Fail(
      ErrorCode::kDeadlineExceeded,
      folder + ": rank 0 did not say in time what this start resumes from; its log says why");
}

// Rank 0: removes what earlier starts left.
void Clean(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kNotePrefix) || name.starts_with(kGonePrefix)) {
      ::unlink(entry.path().c_str());
    }
  }
}

// The note that this rank took, remembered for the life of its task.
class Taken {
 public:
  explicit Taken(const StartRank& self) {
    if (!self.scratch.empty()) {
      std::error_code unknown;
      const std::string folder = std::filesystem::canonical(self.folder, unknown).string();
      path_ = self.scratch + "/.tide-start-" + std::to_string(self.rank) + "-" +
              NonceOf(self.start + " " + folder);
      before_ = ReadRecord(path_).value_or("");
    }
  }
  [[nodiscard]] bool IsNew(const std::string& note) const { return before_ != note; }
  void Note(const std::string& note) const {
    if (!path_.empty()) {
      static_cast<void>(ReplaceFile(path_, note, 0600));
    }
  }

 private:
  std::string path_;
  std::string before_;
};

// The platform has named this start, so that rank 0's note cannot be one of another. Where ranks
// are started again under one name, each waits for another note than it took before.
Result<Start> AgreeByName(const StartRank& self,
                          const std::function<Result<Start>(std::string)>& decide,
                          int64_t deadline_ns) {
  const std::string nonce = NonceOf(self.start);
  const std::string path = NotePath(self.folder, nonce);
  if (self.rank == 0) {
    TIDE_ASSIGN(Start start, decide(nonce));
    TIDE_ASSIGN(std::string token, RandomHex8());
    TIDE_TRY(sdk::PutFile(path, NoteText(start, {std::move(token)})));
    return start;
  }
  const Taken taken(self);
  for (sdk::Nap nap;; nap.Take()) {
    const std::optional<std::string> note = ReadRecord(path);
    if (note && taken.IsNew(*note)) {
      taken.Note(*note);
      return NotedStart(*note);
    }
    if (MonotonicNanos() >= deadline_ns) {
      return RankZeroIsLate(self.folder);
    }
  }
}

// Rank 0: writes the note anew until every rank has taken it. Tokens of an earlier start are taken
// for ours until their ranks replace them.
Result<Start> Collect(const StartRank& self,
                      const std::string& path,
                      Start start,
                      int64_t deadline_ns) {
  std::vector<std::string> told;
  for (sdk::Nap nap;; nap.Take()) {
    std::vector<std::string> tokens;
    std::vector<int64_t> missing;
    for (int64_t rank = 1; rank < self.world; ++rank) {
      const std::optional<std::string> record = ReadRecord(TokenPath(self.folder, rank));
      if (record && NumberMember(*record, "world") == self.world) {
        tokens.push_back(TextMember(*record, "token"));
        if (TextMember(*record, "taken") == start.nonce) {
          continue;
        }
      }
      missing.push_back(rank);
    }
    if (missing.empty()) {
      ::unlink(path.c_str());
      for (int64_t rank = 1; rank < self.world; ++rank) {
        ::unlink(TokenPath(self.folder, rank).c_str());
      }
      return start;
    }
    if (std::cmp_equal(tokens.size(), self.world - 1) && tokens != told) {
      TIDE_TRY(sdk::PutFile(path, NoteText(start, tokens)));
      told = tokens;
    }
    if (MonotonicNanos() >= deadline_ns) {
      return Fail(ErrorCode::kDeadlineExceeded,
                  self.folder + ": " + sdk::RanksText(missing) + " of " +
                      std::to_string(self.world) + " did not call resume() in time");
    }
  }
}

Result<Start> AgreeByTokens(const StartRank& self,
                            const std::function<Result<Start>(std::string)>& decide,
                            int64_t deadline_ns) {
  const std::string path = NotePath(self.folder, "local");
  if (self.rank == 0) {
    TIDE_ASSIGN(std::string nonce, RandomHex8());
    TIDE_ASSIGN(Start start, decide(std::move(nonce)));
    return Collect(self, path, std::move(start), deadline_ns);
  }
  TIDE_ASSIGN(const std::string first, RandomHex8());
  TIDE_ASSIGN(const std::string second, RandomHex8());
  const std::string mine = first + second;
  const auto leave_token = [&](const std::string& taken) {
    return sdk::PutFile(TokenPath(self.folder, self.rank),
                        "{\"token\":\"" + mine + "\",\"world\":" + std::to_string(self.world) +
                            ",\"taken\":\"" + taken + "\"}");
  };
  TIDE_TRY(leave_token(""));
  for (sdk::Nap nap;; nap.Take()) {
    const std::optional<std::string> note = ReadRecord(path);
    if (note && HasToken(*note, mine)) {
      Start start = NotedStart(*note);
      TIDE_TRY(leave_token(start.nonce));
      return start;
    }
    if (MonotonicNanos() >= deadline_ns) {
      return RankZeroIsLate(self.folder);
    }
  }
}

}  // namespace

Result<Start> AgreeOnStart(const StartRank& self,
                           const std::function<Result<Start>(std::string)>& decide,
                           int64_t deadline_ns) {
  if (self.rank == 0) {
    Clean(self.folder);
  }
  if (self.world == 1) {
    TIDE_ASSIGN(std::string nonce,
                self.start.empty() ? RandomHex8() : Result<std::string>(NonceOf(self.start)));
    return decide(std::move(nonce));
  }
  return self.start.empty() ? AgreeByTokens(self, decide, deadline_ns)
                            : AgreeByName(self, decide, deadline_ns);
}

}  // namespace tide::cpp
