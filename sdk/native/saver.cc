#include "sdk/native/saver.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/time.h"
#include "sdk/native/nap.h"
#include "sdk/native/save.h"
#include "sdk/native/slot.h"

namespace tide::sdk {
namespace {

// With its rank gone, a save waits no longer than this for other ranks: they are ending, too.
constexpr int64_t kOrphanedNs = 30'000'000'000;
constexpr size_t kPacketBytes = 128U << 10U;

struct Packet {
  std::string text;
  Fd fd;
};

// The next packet; nullopt at the end. Errors: kSystem.
Result<std::optional<Packet>> Receive(int socket) {
  std::string text(kPacketBytes, '\0');
  iovec part{.iov_base = text.data(), .iov_len = text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> ancillary{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();
  ssize_t n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (n < 0 && errno == ECONNRESET) {
    // The rank is gone and had answers to read. That is said once; after it comes what it sent.
    n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  }
  if (n < 0) {
    return FailErrno("cannot receive from the rank", errno);
  }
  if (n == 0) {
    return std::nullopt;
  }
  text.resize(static_cast<size_t>(n));
  Packet packet{.text = std::move(text), .fd = {}};
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    packet.fd = Fd(fd);
  }
  return packet;
}

// "save 3 0 4096 120" → {3, 0, 4096, 120}, if the word and the count are these.
std::optional<std::vector<uint64_t>> Numbers(std::string_view text,
                                             std::string_view word,
                                             size_t count) {
  if (!text.starts_with(word) || !text.substr(word.size()).starts_with(' ')) {
    return std::nullopt;
  }
  std::vector<uint64_t> numbers;
  const char* at = text.data() + word.size();
  const char* const last = text.data() + text.size();
  while (at != last && *at == ' ' && numbers.size() < count) {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(at + 1, last, number);
    if (error != std::errc()) {
      return std::nullopt;
    }
    numbers.push_back(number);
    at = end;
  }
  return numbers.size() == count && at == last ? std::optional(std::move(numbers)) : std::nullopt;
}

// "HOST PID START": the rank, by what tells it from a later process with its pid. START is in ticks
// since boot, 0 if it has ended.
std::string NameOfRank() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const pid_t pid = ::getppid();
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat").value_or("");
  // The program's name, in brackets, may hold anything; 19 fields later comes the time.
  constexpr int kFieldsToStart = 20;
  size_t at = stat.rfind(')');
  for (int field = 0; field < kFieldsToStart && at != std::string::npos; ++field) {
    at = stat.find(' ', at + 1);
  }
  const std::string start =
      at == std::string::npos ? "0" : stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
  return std::string(host.data()) + " " + std::to_string(pid) + " " + start + "\n";
}

// Locks held while anything is under way. A lock that cannot be had is done without: it protects a
// later start from looking too early, not the data.
class BusyLocks {
 public:
  explicit BusyLocks(const std::vector<std::string>& paths) : paths_(paths) {}

  void Begin() {
    const std::lock_guard lock(mutex_);
    if (count_++ > 0) {
      return;
    }
    for (const std::string& path : paths_) {
      Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
      if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
        if (::ftruncate(fd.get(), 0) == 0) {
          static_cast<void>(WriteAll(fd.get(), rank_));
        }
        held_.emplace_back(path, std::move(fd));
      }
    }
  }

  void End() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) {
      for (const auto& [path, fd] : held_) {
        ::unlink(path.c_str());
      }
      held_.clear();
    }
  }

 private:
  const std::vector<std::string> paths_;
  const std::string rank_ = NameOfRank();
  std::mutex mutex_;
  int count_ = 0;
  std::vector<std::pair<std::string, Fd>> held_;
};

class Saver {
 public:
  Saver(Fd socket, const std::vector<std::string>& locks)
      : socket_(std::move(socket)), locks_(locks) {}

  Status Run() {
    // The rank may have left its end of the socket to children; its own end is what counts.
    const Fd rank(static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0)));
    Status served = Serve(rank.get());
    orphaned_at_ns_ = MonotonicNanos();
    NoteEnd();
    saves_.clear();  // waits for them
    return served;
  }

 private:
  Status Serve(int rank) {
    std::array<pollfd, 2> wait = {{{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = rank, .events = POLLIN, .revents = 0}}};
    while (true) {
      if (::poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR) {
        return FailErrno("cannot wait for the rank", errno);
      }
      // What it sent before it was gone still counts.
      if (wait[0].revents != 0) {
        TIDE_ASSIGN(std::optional<Packet> packet, Receive(socket_.get()));
        if (!packet) {
          return {};
        }
        TIDE_TRY(Handle(std::move(*packet)));
      } else if (wait[1].revents != 0) {
        return {};
      }
    }
  }

  Status Handle(Packet packet) {
    if (const auto slot = Numbers(packet.text, "slot", 2)) {
      return AddSlot((*slot)[0], (*slot)[1], packet.fd.get());
    }
    if (const auto save = Numbers(packet.text, "save", 4)) {
      locks_.Begin();
      has_left_ = false;
      NoteUnknownStep(1);
      saves_.remove_if([](const Running& running) { return running.over.load(); });
      Running& running = saves_.emplace_back();
      running.thread = std::jthread([this, numbers = *save, &running] {
        Save(running, numbers[0], numbers[1], numbers[2], numbers[3]);
        locks_.End();
        Say("over " + std::to_string(numbers[0]));
        running.over = true;
      });
      return {};
    }
    if (const auto hurry = Numbers(packet.text, "hurry", 1)) {
      for (Running& running : saves_) {
        running.not_after_ns = static_cast<int64_t>((*hurry)[0]);
      }
      return {};
    }
    const size_t line = packet.text.find('\n');
    const std::string_view head = std::string_view(packet.text).substr(0, line);
    if (Numbers(head, "start", 1)) {
      TIDE_ASSIGN(const Ticket ticket, ParseTicket(std::string_view(packet.text).substr(line + 1)));
      NoteTicket(ticket);
      return {};
    }
    if (Numbers(head, "leave", 1)) {
      has_left_ = true;
      return {};
    }
    if (const auto skip = Numbers(head, "skip", 1)) {
      TIDE_ASSIGN(const Ticket ticket, ParseTicket(std::string_view(packet.text).substr(line + 1)));
      MarkFailed(ticket);
      return {};
    }
    return Fail(ErrorCode::kInvalidArgument, "unknown packet from the rank");
  }

  // A slot that grew comes again under its number; saves out of the old one keep theirs.
  Status AddSlot(uint64_t index, uint64_t bytes, int fd) {
    TIDE_ASSIGN(Slot slot, Slot::Map(fd, bytes));
    const std::lock_guard lock(mutex_);
    slots_[index] = std::make_shared<Slot>(std::move(slot));
    return {};
  }

  struct Running {
    std::atomic<bool> over = false;
    // CLOCK_MONOTONIC; set when the rank needs this save's slot for one that matters more.
    std::atomic<int64_t> not_after_ns = std::numeric_limits<int64_t>::max();
    std::jthread thread;
  };

  void Save(const Running& running,
            uint64_t id,
            uint64_t index,
            uint64_t data_bytes,
            uint64_t ticket_bytes) {
    const std::shared_ptr<Slot> slot = FindSlot(index);
    const Result<Ticket> ticket = slot == nullptr
                                      ? Fail(ErrorCode::kInvalidArgument, "no such slot")
                                      : ReadTicket(*slot, data_bytes, ticket_bytes);
    if (!ticket) {
      NoteUnknownStep(-1);
      Answer(id, std::unexpected(ticket.error()));
    } else {
      NoteTicket(*ticket);
      const SavingMark mark(*this, *ticket);
      const SaveControl control{
          .deadline_ns = [&] { return Deadline(*ticket, running); },
          .publish = [&slot] { return slot->Settle(SlotVerdict::kPublished); },
          .orphaned = [this] { return orphaned_at_ns_ != 0; }};
      const Result<SaveOutcome> outcome =
          CarryOut(*ticket, *slot->Data(data_bytes), writing_, control);
      // From here on the rank may fill the slot again.
      Answer(id, outcome);
      const std::optional<std::vector<int64_t>> saving = StepsBeingSaved();
      if (outcome && ticket->rank == 0 && saving) {
        Warn(CollectGarbage(*ticket, *saving));
      }
    }
  }

  std::shared_ptr<Slot> FindSlot(uint64_t index) {
    const std::lock_guard lock(mutex_);
    const auto found = slots_.find(index);
    return found == slots_.end() ? nullptr : found->second;
  }

  static Result<Ticket> ReadTicket(const Slot& slot, uint64_t data_bytes, uint64_t ticket_bytes) {
    TIDE_ASSIGN(const std::string_view text, slot.TicketText(data_bytes, ticket_bytes));
    return ParseTicket(text);
  }

  [[nodiscard]] int64_t Deadline(const Ticket& ticket, const Running& running) const {
    const int64_t deadline_ns = std::min(ticket.deadline_ns, running.not_after_ns.load());
    const int64_t orphaned = orphaned_at_ns_;
    return orphaned == 0 ? deadline_ns : std::min(deadline_ns, orphaned + kOrphanedNs);
  }

  void Answer(uint64_t id, const Result<SaveOutcome>& outcome) {
    std::string text;
    if (outcome) {
      std::array<char, 128> line{};
      std::snprintf(line.data(),
                    line.size(),
                    "done %llu %llu %.6f %.6f",
                    static_cast<unsigned long long>(id),
                    static_cast<unsigned long long>(outcome->bytes),
                    outcome->written_s,
                    outcome->total_s);
      text = line.data();
    } else {
      text = "failed " + std::to_string(id) + " " + std::to_string(outcome.error().os_error) + " " +
             outcome.error().message;
    }
    Say(text);
  }

  // The rank may be gone: then nobody needs to know.
  void Say(const std::string& text) {
    static_cast<void>(::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }

  class SavingMark {
   public:
    SavingMark(Saver& saver, const Ticket& ticket)
        : saver_(saver), name_(IdOf(ticket)), step_(ticket.step) {
      const std::lock_guard lock(saver_.mutex_);
      saver_.saving_.emplace(name_, step_);
      --saver_.unknown_steps_;
    }
    ~SavingMark() {
      const std::lock_guard lock(saver_.mutex_);
      saver_.saving_.erase(name_);
    }
    SavingMark(const SavingMark&) = delete;
    SavingMark& operator=(const SavingMark&) = delete;

   private:
    Saver& saver_;
    const std::string name_;
    const int64_t step_;
  };

  void NoteTicket(const Ticket& ticket) {
    const std::lock_guard lock(mutex_);
    like_ = ticket;
    DropPart(*like_);
  }

  // Leaves a note where the rank did not say that it was leaving: the savers of its gang, which end
  // with it, must not wait for what it would have saved next.
  void NoteEnd() {
    for (Nap nap; !StepsBeingSaved(); nap.Take()) {
    }
    std::vector<std::string> names;
    std::optional<Ticket> like;
    {
      const std::lock_guard lock(mutex_);
      like = like_;
      for (const auto& [name, step] : saving_) {
        names.push_back(name);
      }
    }
    if (!has_left_ && like && like->world > 1) {
      NoteGone(*like, names);
    }
  }

  // nullopt while a save's thread has not said its step yet: what other ranks have written for it
  // must not be taken for a leftover. The next commit removes what stays.
  std::optional<std::vector<int64_t>> StepsBeingSaved() {
    const std::lock_guard lock(mutex_);
    if (unknown_steps_ > 0) {
      return std::nullopt;
    }
    std::vector<int64_t> steps;
    for (const auto& [name, step] : saving_) {
      steps.push_back(step);
    }
    return steps;
  }

  // Says once on stderr, which is the rank's, that old checkpoints stay: the disk fills up.
  void Warn(const Status& collected) {
    if (!collected && !has_warned_.exchange(true)) {
      std::fprintf(stderr,
                   "tide: old checkpoints stay: %s; whoever they belong to has to remove them\n",
                   collected.error().message.c_str());
    }
  }

  void NoteUnknownStep(int change) {
    const std::lock_guard lock(mutex_);
    unknown_steps_ += change;
  }

  Fd socket_;
  BusyLocks locks_;
  std::atomic<bool> has_warned_ = false;
  bool has_left_ = false;  // the rank leaves, and saves no more
  std::mutex writing_;     // one data file at a time
  std::atomic<int64_t> orphaned_at_ns_ = 0;
  std::mutex mutex_;  // the rest
  std::map<uint64_t, std::shared_ptr<Slot>> slots_;
  std::map<std::string, int64_t> saving_;  // checkpoints being saved, and their steps
  int unknown_steps_ = 0;                  // saves that are not among them yet
  std::optional<Ticket> like_;             // the last one, or that of the start
  std::list<Running> saves_;               // last: its threads use the rest
};

}  // namespace

Status RunSaver(Fd socket, const std::vector<std::string>& locks) {
  return Saver(std::move(socket), locks).Run();
}

}  // namespace tide::sdk
