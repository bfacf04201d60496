#include "sdk/cpp/saver_link.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "common/base/time.h"
#include "sdk/native/slot.h"

namespace tide::cpp {
namespace {

constexpr size_t kAnswerBytes = 128U << 10U;
constexpr int kSaverFd = 3;

// A process of its own session, which signals of a terminal do not reach, with no file of the
// program's but `socket`.
Result<pid_t> Spawn(const std::string& program, const std::string& lock, int socket) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&files, socket, kSaverFd);
  ::posix_spawn_file_actions_addclosefrom_np(&files, kSaverFd + 1);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::array<std::string, 3> arguments = {program, std::to_string(kSaverFd), lock};
  std::array<char*, 4> argv = {
      arguments[0].data(), arguments[1].data(), arguments[2].data(), nullptr};
  pid_t process = 0;
  const int error =
      ::posix_spawn(&process, program.c_str(), &files, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return FailErrno("cannot start " + program, error);
  }
  return process;
}

// Reaps the process if it ends within this time. Nothing: it has not.
std::optional<int> Reap(pid_t process, int64_t timeout_ns) {
  const Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  pollfd wait{.fd = fd.get(), .events = POLLIN, .revents = 0};
  ::poll(&wait, fd.valid() ? 1 : 0, static_cast<int>(timeout_ns / 1'000'000));
  int status = 0;
  return ::waitpid(process, &status, WNOHANG) == process ? std::optional(status) : std::nullopt;
}

// Removes the first word and the space after it.
std::string_view TakeWord(std::string_view& text) {
  const size_t space = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, space);
  text.remove_prefix(std::min(space + 1, text.size()));
  return word;
}

uint64_t TakeNumber(std::string_view& text) {
  const std::string_view word = TakeWord(text);
  uint64_t number = 0;
  std::from_chars(word.data(), word.data() + word.size(), number);
  return number;
}

}  // namespace

Result<std::unique_ptr<SaverLink>> SaverLink::Start(const std::string& program,
                                                    const std::string& lock) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return FailErrno("cannot make a socket for " + program, errno);
  }
  Fd mine(ends[0]);
  const Fd theirs(ends[1]);
  TIDE_ASSIGN(const pid_t process, Spawn(program, lock, theirs.get()));
  return std::unique_ptr<SaverLink>(new SaverLink(std::move(mine), process));
}

SaverLink::~SaverLink() {
  socket_.Close();
  constexpr int64_t kIdleEndsNs = 50'000'000;
  if (!is_reaped_) {
    static_cast<void>(Reap(process_, kIdleEndsNs));
  }
}

Result<SaverLink::Staging> SaverLink::Stage(const sdk::Ticket& ticket,
                                            const Layout& layout,
                                            int64_t begun_ns) {
  const std::string text = sdk::FormatTicket(ticket);
  const StagingSlots::Taken taken = slots_.Take(SlotBytes(layout, text.size()));
  if (taken.slot == nullptr) {
    return Staging{.number = {}, .is_free = taken.is_free};
  }
  StagingSlot& slot = *taken.slot;
  slot.Fill(layout, text);
  if (!slot.known) {
    TIDE_TRY(Send("slot " + std::to_string(slot.index) + " " + std::to_string(slot.bytes),
                  slot.fd.get()));
    slot.known = true;
  }
  TIDE_TRY(Send("save " + std::to_string(next_) + " " + std::to_string(slot.index) + " " +
                std::to_string(layout.bytes) + " " + std::to_string(text.size())));
  StagedSave save{.number = next_++, .ticket = ticket, .slot = taken.slot, .begun_ns = begun_ns};
  sdk::DropPart(save.ticket);
  const uint64_t number = save.number;
  staged_.emplace(number, std::move(save));
  return Staging{.number = number, .is_free = true};
}

Status SaverLink::Skip(sdk::Ticket ticket) {
  ticket.file = "none";  // a ticket has one; nothing is written
  return Send("skip 0\n" + sdk::FormatTicket(ticket));
}

Status SaverLink::Introduce(sdk::Ticket ticket) {
  ticket.file = "none";
  return Send("start 0\n" + sdk::FormatTicket(ticket));
}

Status SaverLink::Leave() {
  return Send("leave 0");
}

Status SaverLink::Hurry(int64_t deadline_ns) {
  return Send("hurry " + std::to_string(deadline_ns));
}

Result<std::vector<SaveAnswer>> SaverLink::Poll(int64_t timeout_ns) {
  std::vector<SaveAnswer> answers;
  std::string packet(kAnswerBytes, '\0');
  while (busy()) {
    pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    constexpr int64_t kMostNs = 3'600'000'000'000;  // what poll() takes; callers look again
    const int64_t timeout_ms = (std::min(timeout_ns, kMostNs) + 999'999) / 1'000'000;
    const int ready = ::poll(&wait, 1, static_cast<int>(timeout_ms));
    if (ready == 0 || (ready < 0 && errno == EINTR)) {
      break;
    }
    const ssize_t n = ::recv(socket_.get(), packet.data(), packet.size(), 0);
    if (n <= 0) {
      return Gone();
    }
    if (std::optional<SaveAnswer> answer =
            Understand(std::string_view(packet).substr(0, static_cast<size_t>(n)))) {
      answers.push_back(std::move(*answer));
    }
    timeout_ns = 0;
  }
  return answers;
}

bool SaverLink::CallOff(uint64_t number) {
  const auto save = staged_.find(number);
  return save != staged_.end() &&
         sdk::SettleSlot(save->second.slot->memory, sdk::SlotVerdict::kCalledOff);
}

std::vector<StagedSave> SaverLink::Abandoned() {
  std::vector<StagedSave> left;
  for (auto& [number, save] : staged_) {
    left.push_back(std::move(save));
  }
  staged_.clear();
  tidying_.clear();
  return left;
}

Status SaverLink::Send(const std::string& text, int fd) {
  iovec part{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = ancillary.data();
    message.msg_controllen = ancillary.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? Status(Gone()) : Status();
}

std::unexpected<tide::Error> SaverLink::Gone() {
  constexpr int64_t kEndsNs = 1'000'000'000;
  socket_.Close();
  is_gone_ = true;
  const std::optional<int> status = Reap(process_, kEndsNs);
  is_reaped_ = status.has_value();
  std::string how = "its connection broke";
  if (status && WIFSIGNALED(*status)) {
    how = "signal " + std::to_string(WTERMSIG(*status));
  } else if (status) {
    how = "exit code " + std::to_string(WEXITSTATUS(*status));
  }
  return Fail(ErrorCode::kUnavailable, "the saver of this rank has ended (" + how + ")");
}

std::optional<SaveAnswer> SaverLink::Understand(std::string_view text) {
  const std::string_view word = TakeWord(text);
  const uint64_t number = TakeNumber(text);
  if (word == "over") {
    tidying_.erase(number);
    return std::nullopt;
  }
  tidying_.insert(number);
  const auto found = staged_.find(number);
  if (found == staged_.end()) {
    return std::nullopt;
  }
  SaveAnswer answer{.save = std::move(found->second), .error = {}, .bytes = 0};
  staged_.erase(found);
  answer.save.slot->busy = false;
  if (word == "done") {
    answer.bytes = TakeNumber(text);
  } else {
    const auto os_error = static_cast<int>(TakeNumber(text));
    answer.error = tide::Error{.code = os_error != 0 ? ErrorCode::kSystem : ErrorCode::kConflict,
                               .message = std::string(text),
                               .os_error = os_error};
  }
  return answer;
}

std::optional<std::string> FindSaver(const std::string& native, const std::string& path) {
  std::vector<std::string> folders;
  if (!native.empty()) {
    folders = {native};
  } else {
    std::error_code unknown;
    folders.push_back(std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path());
    std::istringstream list(path);
    for (std::string folder; std::getline(list, folder, ':');) {
      folders.push_back(folder);
    }
  }
  for (const std::string& folder : folders) {
    std::string program = folder + "/tide-saver";
    if (native != "0" && !folder.empty() && ::access(program.c_str(), X_OK) == 0) {
      return program;
    }
  }
  return std::nullopt;
}

}  // namespace tide::cpp
