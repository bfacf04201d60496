#include "agent/images/blob_copy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "common/base/file.h"
#include "common/digest/sha256.h"

namespace tide::agent {
namespace {

constexpr size_t kPieceBytes = 1U << 20U;
constexpr uint64_t kAskEvery = 16U << 20U;

std::unexpected<Error> CannotOpen(const std::string& path, int error) {
  return Fail(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kPermissionDenied,
              FailErrno("cannot open " + path, error).error().message);
}

Result<Fd> OpenSource(const BlobCopy& copy, const Owner& owner) {
  const OwnerEyes eyes(owner);
  Fd source(::open(copy.source.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!source.valid()) {
    return CannotOpen(copy.source, errno);
  }
  struct stat info{};
  if (::fstat(source.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument, copy.source + " is no file");
  }
  if (static_cast<uint64_t>(info.st_size) != copy.size) {
    return Fail(ErrorCode::kCorrupt,
                "a layer is broken: " + copy.source + " has " + std::to_string(info.st_size) +
                    " bytes, its manifest says " + std::to_string(copy.size));
  }
  return source;
}

}  // namespace

Status NeedFile(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return CannotOpen(path, errno);
  }
  return S_ISREG(info.st_mode) ? Status()
                               : Status(Fail(ErrorCode::kInvalidArgument, path + " is no file"));
}

Status CopyBlob(const BlobCopy& copy, const Owner& owner, const std::function<bool()>& go_on) {
  TIDE_ASSIGN(const Fd source, OpenSource(copy, owner));
  const Fd part(::open(copy.part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!part.valid()) {
    return FailErrno("cannot create " + copy.part, errno);
  }
  std::vector<char> piece(kPieceBytes);
  Sha256 digest;
  uint64_t done = 0;
  while (done < copy.size) {
    if (done % kAskEvery == 0 && !go_on()) {
      return Fail(ErrorCode::kUnavailable, "called off");
    }
    const ssize_t n = ::read(source.get(), piece.data(), piece.size());
    if (n <= 0) {
      return FailErrno("cannot read " + copy.source, n == 0 ? EIO : errno);
    }
    const std::string_view text(piece.data(), static_cast<size_t>(n));
    digest.Add(text);
    TIDE_TRY(WriteAll(part.get(), text));
    done += text.size();
    if (done > copy.size) {
      break;  // it grows
    }
  }
  if ("sha256:" + digest.TakeHex() != copy.digest) {
    return Fail(ErrorCode::kCorrupt, "a layer is broken: it is not what its digest says");
  }
  if (::fsync(part.get()) != 0) {
    return FailErrno("cannot write out " + copy.part, errno);
  }
  return {};
}

}  // namespace tide::agent
