#include "sdk/native/node_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "common/base/time.h"
#include "sdk/native/data_file.h"
#include "sdk/native/nap.h"

namespace tide::sdk {
namespace {

constexpr uint64_t kMagic = 0x31474e4952454454;  // "TDERING1"
constexpr uint64_t kHasLeft = std::numeric_limits<uint64_t>::max();
constexpr size_t kLine = 64;
constexpr size_t kPage = 4096;
constexpr int64_t kMadeWithinNs = 1'000'000'000;
// Flags of what is in a slot. A chunk that could not be read is bad: who wants it reads it himself.
constexpr uint64_t kBad = uint64_t{1} << 63U;
constexpr uint64_t kBusy = uint64_t{1} << 62U;

// Names a chunk, for a slot.
uint64_t NameOf(uint64_t chunk) {
  return chunk + 1;
}

uint64_t WithoutFlags(uint64_t value) {
  return value & ~(kBad | kBusy);
}

// Returns how many slots there are: some more than are being read, so that no rank has to wait for
// each of the others each time.
uint64_t SlotsFor(uint32_t ranks, uint64_t chunks) {
  return std::min(uint64_t{ranks} + 4, chunks);
}

}  // namespace

struct NodeRing::Counter {
  alignas(kLine) std::atomic<uint64_t> value;
};

struct NodeRing::Header {
  alignas(kLine) std::atomic<uint64_t> magic;  // last of all
  uint64_t load;
  uint64_t chunks;
  uint64_t ranks;
  std::atomic<uint64_t> joined;
};

namespace {

constexpr size_t kHeaderBytes = 4 * kLine;

size_t DataAt(uint32_t ranks, uint64_t slots) {
  return (kHeaderBytes + kLine * (ranks + 2 * slots) + kPage - 1) / kPage * kPage;
}

struct OpenedRing {
  Fd fd;
  bool is_new = false;
};

// Opens the file, or makes it with all its memory: what is not there would be a SIGBUS later.
Result<OpenedRing> OpenRing(const std::string& path, size_t bytes) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  Fd fd(::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0600));
  if (fd.valid()) {
    if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); error != 0) {
      ::unlink(path.c_str());
      return FailErrno("cannot make room for " + path, error);
    }
    return OpenedRing{.fd = std::move(fd), .is_new = true};
  }
  fd = Fd(::open(path.c_str(), kFlags));
  struct stat info{};
  const int64_t until = MonotonicNanos() + kMadeWithinNs;
  for (Nap nap;; nap.Take()) {
    if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
      return FailErrno("cannot open " + path, errno);
    }
    if (info.st_uid != ::geteuid() || !S_ISREG(info.st_mode)) {
      return Fail(ErrorCode::kConflict, path + " is somebody else's");
    }
    if (std::cmp_equal(info.st_size, bytes)) {
      return OpenedRing{.fd = std::move(fd), .is_new = false};
    }
    if (MonotonicNanos() > until) {
      return Fail(ErrorCode::kConflict, path + " has another size");
    }
  }
}

}  // namespace

Result<std::unique_ptr<NodeRing>> NodeRing::Join(const RingPlace& place,
                                                 uint64_t load,
                                                 uint64_t chunks,
                                                 int64_t patience_ns) {
  const uint64_t slots = SlotsFor(place.ranks, chunks);
  const size_t bytes = DataAt(place.ranks, slots) + slots * kChunkBytes;
  TIDE_ASSIGN(const OpenedRing opened, OpenRing(place.path, bytes));
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened.fd.get(), 0);
  if (memory == MAP_FAILED) {
    return FailErrno("cannot map " + place.path, errno);
  }
  auto& header = *static_cast<Header*>(memory);
  if (opened.is_new) {  // all zeros
    header.load = load;
    header.chunks = chunks;
    header.ranks = place.ranks;
    header.magic = kMagic;
  }
  const int64_t until = MonotonicNanos() + kMadeWithinNs;
  for (Nap nap; header.magic != kMagic && MonotonicNanos() < until; nap.Take()) {
  }
  if (header.magic != kMagic || header.load != load || header.chunks != chunks ||
      header.ranks != place.ranks) {
    ::munmap(memory, bytes);
    return Fail(ErrorCode::kConflict, place.path + " is of another load");
  }
  std::unique_ptr<NodeRing> ring(
      new NodeRing(place, patience_ns, static_cast<char*>(memory), bytes, slots));
  ring->Progress(place.rank).value = 1;
  // Once all have mapped it nobody needs its name, and it goes with the last of them.
  if (++header.joined == place.ranks) {
    ::unlink(place.path.c_str());
  }
  return ring;
}

NodeRing::NodeRing(RingPlace place, int64_t patience_ns, char* memory, size_t bytes, uint64_t slots)
    : place_(std::move(place)),
      patience_ns_(patience_ns),
      memory_(memory),
      bytes_(bytes),
      slots_(slots),
      joined_ns_(MonotonicNanos()),
      silent_(place_.ranks) {}

NodeRing::~NodeRing() {
  Progress(place_.rank).value = kHasLeft;
  auto& header = *reinterpret_cast<Header*>(memory_);
  if (header.joined < place_.ranks) {
    ::unlink(place_.path.c_str());  // who comes now finds nobody
  }
  ::munmap(memory_, bytes_);
}

NodeRing::Counter& NodeRing::Progress(uint32_t rank) const {
  return reinterpret_cast<Counter*>(memory_ + kHeaderBytes)[rank];
}

NodeRing::Counter& NodeRing::Ready(uint64_t chunk) const {
  return reinterpret_cast<Counter*>(memory_ + kHeaderBytes)[place_.ranks + chunk % slots_];
}

NodeRing::Counter& NodeRing::Skipped(uint64_t chunk) const {
  return reinterpret_cast<Counter*>(memory_ + kHeaderBytes)[place_.ranks + slots_ + chunk % slots_];
}

char* NodeRing::Data(uint64_t chunk) const {
  return memory_ + DataAt(place_.ranks, slots_) + chunk % slots_ * kChunkBytes;
}

int64_t NodeRing::PatienceEnds(uint32_t rank) const {
  return (Progress(rank).value == 0 ? joined_ns_ : MonotonicNanos()) + patience_ns_;
}

char* NodeRing::Begin(uint64_t chunk) {
  for (uint32_t rank = 0; rank < place_.ranks; ++rank) {
    uint64_t seen = Progress(rank).value;
    int64_t until = PatienceEnds(rank);
    const auto is_behind = [&] { return seen < kHasLeft && seen + slots_ <= chunk + 1; };
    for (Nap nap; !silent_[rank] && is_behind(); nap.Take()) {
      if (is_closed_) {
        return nullptr;
      }
      const uint64_t now = Progress(rank).value;
      if (now != seen) {
        seen = now;
        until = PatienceEnds(rank);
      } else if (MonotonicNanos() > until) {
        silent_[rank] = true;
      }
    }
  }
  // Only a slot whose last writer has ended may be written, and only with something newer.
  std::atomic<uint64_t>& ready = Ready(chunk).value;
  uint64_t last = ready;
  while ((last & kBusy) == 0 && WithoutFlags(last) < NameOf(chunk)) {
    if (ready.compare_exchange_weak(last, NameOf(chunk) | kBusy)) {
      return Data(chunk);
    }
  }
  std::atomic<uint64_t>& skipped = Skipped(chunk).value;
  uint64_t newest = skipped;
  while (newest < NameOf(chunk) && !skipped.compare_exchange_weak(newest, NameOf(chunk))) {
  }
  return nullptr;
}

void NodeRing::End(uint64_t chunk, bool is_read) {
  Ready(chunk).value = NameOf(chunk) | (is_read ? 0 : kBad);
}

bool NodeRing::Take(uint64_t chunk, const std::function<void(char*)>& use) {
  const auto reader = static_cast<uint32_t>(chunk % place_.ranks);
  std::atomic<uint64_t>& ready = Ready(chunk).value;
  const std::atomic<uint64_t>& skipped = Skipped(chunk).value;
  const auto may_come = [&](uint64_t value) {
    return WithoutFlags(value) < NameOf(chunk) || value == (NameOf(chunk) | kBusy);
  };
  const int64_t until = PatienceEnds(reader);
  for (Nap nap; may_come(ready) && skipped < NameOf(chunk); nap.Take()) {
    if (silent_[reader] || Progress(reader).value == kHasLeft) {
      break;
    }
    if (MonotonicNanos() > until) {
      silent_[reader] = true;
    }
  }
  bool is_taken = ready == NameOf(chunk);  // perhaps by its reader's last act
  if (is_taken) {
    use(Data(chunk));
    // A read-modify-write, so that nothing is copied after it.
    is_taken = ready.fetch_add(0) == NameOf(chunk);
  }
  Progress(place_.rank).value = chunk + 2;
  return is_taken;
}

}  // namespace tide::sdk
