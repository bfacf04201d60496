#include "agent/fabric/region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "common/base/file.h"

namespace tide::allreduce {
namespace {

constexpr size_t kPage = 4096;
// Buffers begin at different places of their pages: equal ones share the sets of a cache.
constexpr size_t kStagger = 320;

size_t Pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

size_t Stride(const Work& work) {
  return Pages(work.elements * sizeof(float)) + kStagger;
}

Status Validate(const Work& work) {
  if (work.elements == 0 || work.elements > (uint64_t{1} << 31U)) {
    return Fail(ErrorCode::kInvalidArgument, "a vector has 1 to 2^31 elements");
  }
  if (work.chunk < 2 || work.chunk > (uint64_t{1} << 28U)) {
    return Fail(ErrorCode::kInvalidArgument, "a chunk has 2 to 2^28 elements");
  }
  if (work.ranks == 0 || work.ranks > kMostLocalRanks) {
    return Fail(ErrorCode::kInvalidArgument, "a node has 1 to 64 ranks");
  }
  if (work.nodes == 0 || work.node >= work.nodes || work.nodes > kMostRanks / work.ranks) {
    return Fail(ErrorCode::kInvalidArgument, "there are 1 to 4096 ranks; nodes count from 0");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Region>> Region::Make(const Work& work) {
  TIDE_TRY(Validate(work));
  const size_t bytes = Pages(sizeof(Control)) + Pages(work.ranks * Stride(work));
  const Fd file(::memfd_create("tide-allreduce", MFD_CLOEXEC));
  if (!file.valid() || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return FailErrno("cannot make memory for the ranks", errno);
  }
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    return FailErrno("cannot map memory for the ranks", errno);
  }
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // where the kernel allows it for shared memory
  return std::unique_ptr<Region>(new Region(work, memory, bytes));
}

Region::Region(const Work& work, void* memory, size_t bytes)
    : work_(work), memory_(memory), bytes_(bytes), control_(new(memory) Control) {}

Region::~Region() {
  ::munmap(memory_, bytes_);
}

std::span<float> Region::buffer(uint32_t rank) {
  char* const bytes = static_cast<char*>(memory_) + Pages(sizeof(Control)) + rank * Stride(work_);
  return {reinterpret_cast<float*>(bytes), work_.elements};
}

}  // namespace tide::allreduce
