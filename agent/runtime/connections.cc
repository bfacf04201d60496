#include "agent/runtime/connections.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/base/file.h"

namespace tide::agent {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kEstablished = 1;
constexpr uint32_t kTimerResends = 1;
// Times that a timer has sent the oldest data again since anything was acknowledged. Packets that
// are lost one by one are found missing by those behind them, and need no timer.
constexpr uint32_t kResentLeast = 2;

// Takes the next word of a line; "" at its end.
std::string_view TakeWord(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

template <typename T>
std::optional<T> NumberOf(std::string_view digits, int base) {
  T value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  return error == std::errc() && end == digits.data() + digits.size() ? std::optional(value)
                                                                      : std::nullopt;
}

// Reads "0100090A:9213": words of four bytes as this machine has them in memory. Returns "" for
// the node's own addresses.
std::string AddressOf(std::string_view field) {
  const std::string_view digits = field.substr(0, field.find(':'));
  std::array<uint32_t, 4> words{};
  const size_t count = digits.size() / 8;
  if (digits.size() % 8 != 0 || (count != 1 && count != 4)) {
    return "";
  }
  for (size_t i = 0; i < count; ++i) {
    const auto word = NumberOf<uint32_t>(digits.substr(i * 8, 8), 16);
    if (!word) {
      return "";
    }
    words.at(i) = *word;
  }
  const bool mapped = count == 4 && words[0] == 0 && words[1] == 0 && words[2] == htonl(0xffff);
  const uint32_t* const from = mapped ? &words[3] : words.data();
  const int family = count == 1 || mapped ? AF_INET : AF_INET6;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::inet_ntop(family, from, text.data(), text.size()) == nullptr) {
    return "";
  }
  const std::string address = text.data();
  return address.starts_with("127.") || address == "::1" ? "" : address;
}

struct Line {
  std::string own;
  std::string peer;
  bool unanswered = false;
  uint64_t socket = 0;
};

// Reads "sl: local remote state tx:rx timer:when resent uid timeout inode …" of one that stands.
std::optional<Line> ReadLine(std::string_view text) {
  std::array<std::string_view, 10> words;
  for (std::string_view& word : words) {
    word = TakeWord(text);
  }
  const auto state = NumberOf<uint32_t>(words[3], 16);
  const auto queued = NumberOf<uint32_t>(words[4].substr(0, words[4].find(':')), 16);
  const auto timer = NumberOf<uint32_t>(words[5].substr(0, words[5].find(':')), 16);
  const auto resent = NumberOf<uint32_t>(words[6], 16);
  const auto socket = NumberOf<uint64_t>(words[9], 10);
  if (state != kEstablished || !queued || !timer || !resent || !socket) {
    return std::nullopt;
  }
  return Line{.own = AddressOf(words[1]),
              .peer = AddressOf(words[2]),
              .unanswered = *queued > 0 && *timer == kTimerResends && *resent >= kResentLeast,
              .socket = *socket};
}

std::vector<std::string> FirstOf(const std::set<std::string>& all) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(all.size(), kAddressesMax));
  return {all.begin(), std::next(all.begin(), count)};
}

void AddSockets(const std::string& process, std::set<uint64_t>& sockets) {
  constexpr size_t kLooksMax = 16384;
  constexpr std::string_view kSocket = "socket:[";
  std::error_code error;
  size_t looks = 0;
  for (fs::directory_iterator it(process + "/fd", error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(it->path(), gone).string();
    if (!gone && target.starts_with(kSocket)) {
      const std::string_view digits =
          std::string_view(target).substr(kSocket.size(), target.size() - kSocket.size() - 1);
      if (const auto number = NumberOf<uint64_t>(digits, 10)) {
        sockets.insert(*number);
      }
    }
    if (++looks >= kLooksMax) {
      return;
    }
  }
}

std::string FolderOf(int32_t pid) {
  return "/proc/" + std::to_string(pid);
}

}  // namespace

Connections FindConnections(std::string_view table, const std::set<uint64_t>& sockets) {
  std::set<std::string> own;
  std::set<std::string> unanswered;
  while (!table.empty()) {
    const size_t end = std::min(table.find('\n'), table.size());
    const auto line = ReadLine(table.substr(0, end));
    table.remove_prefix(std::min(end + 1, table.size()));
    if (!line || line->own.empty() || line->peer.empty() || !sockets.contains(line->socket)) {
      continue;
    }
    own.insert(line->own);
    if (line->unanswered) {
      unanswered.insert(line->peer);
    }
  }
  return {FirstOf(own), FirstOf(unanswered)};
}

Connections ConnectionLook::Of(const std::vector<int32_t>& pids) {
  constexpr size_t kTableMax = 16U << 20U;  // of each kind: a hundred thousand connections
  if (pids.empty()) {
    return {};
  }
  const std::string process = FolderOf(pids.front());
  std::error_code error;
  const std::string space = fs::read_symlink(process + "/ns/net", error).string();
  if (error) {
    return {};
  }
  const auto [table, fresh] = tables_.try_emplace(space);
  if (fresh) {
    for (const char* name : {"/net/tcp", "/net/tcp6"}) {
      table->second += ReadFile(process + name, kTableMax).value_or("");
    }
  }
  std::set<uint64_t> sockets;
  for (const int32_t pid : pids) {
    AddSockets(FolderOf(pid), sockets);
  }
  return FindConnections(table->second, sockets);
}

}  // namespace tide::agent
