#include "sdk/cpp/page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "common/base/file.h"

namespace tide::cpp {

PageOrders ReadOrders(const Page& page) {
  while (true) {
    PageOrders found{.seq = page.seq};
    found.order = page.order;
    found.at_step = page.at_step;
    found.state = page.state;
    found.deadline = page.deadline;
    if (page.seq == found.seq) {
      return found;
    }
  }
}

Result<MappedPage> MappedPage::Map(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd.valid()) {
    return FailErrno(
        "cannot open the rank's page " + path + " (unset TIDE_PAGE to run outside the platform)",
        errno);
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0 || info.st_size < static_cast<off_t>(kPageBytes)) {
    return Fail(ErrorCode::kSystem,
                "the rank's page " + path + " is shorter than 4096 bytes; restart the task");
  }
  void* const memory = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) {
    return FailErrno("cannot map the rank's page " + path, errno);
  }
  MappedPage mapped(static_cast<Page*>(memory));
  const Page& page = mapped.page();
  if (page.magic != kPageMagic || page.version != kPageVersion) {
    return Fail(ErrorCode::kNewerSchema,
                "the rank's page " + path + " has version " + std::to_string(page.version) +
                    ", this SDK speaks version " + std::to_string(kPageVersion) +
                    "; use the SDK that belongs to the node's agent");
  }
  return mapped;
}

Result<MappedPage> MappedPage::Local() {
  void* const memory =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return FailErrno("cannot map a page", errno);
  }
  MappedPage mapped(static_cast<Page*>(memory));
  mapped.page().magic = kPageMagic;
  mapped.page().version = kPageVersion;
  return mapped;
}

MappedPage::MappedPage(MappedPage&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}

MappedPage::~MappedPage() {
  if (page_ != nullptr) {
    ::munmap(page_, kPageBytes);
  }
}

}  // namespace tide::cpp
