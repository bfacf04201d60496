#include "bench/daemons/faults.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/base/check.h"
#include "common/base/time.h"

namespace tide::bench {
namespace {

constexpr const char* kDevice = "0000:a1:00";

tide::v1::Fault Xid(int32_t code, std::string text) {
  tide::v1::Fault fault;
  fault.set_kind(tide::v1::FAULT_KIND_XID);
  fault.set_code(code);
  fault.set_device(kDevice);
  fault.set_text(std::move(text));
  fault.set_seen_at(SystemNow().unix_nanos());
  return fault;
}

}  // namespace

std::string LostGpuLine(const std::string& device) {
  return "NVRM: Xid (PCI:" + device +
         "): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
}

tide::v1::Fault LostGpu() {
  return Xid(79, LostGpuLine(kDevice));
}

tide::v1::Fault CountedFault() {
  return Xid(13, std::string("NVRM: Xid (PCI:") + kDevice + "): 13, pid=7, Graphics Exception");
}

LineFile::LineFile(const std::string& path)
    : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  TIDE_CHECK(fd_ >= 0, "the log can be written");
}

LineFile::~LineFile() {
  ::close(fd_);
}

void LineFile::Append(const std::string& lines) const {
  TIDE_CHECK(::write(fd_, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()),
             "the log takes lines whole");
}

}  // namespace tide::bench
