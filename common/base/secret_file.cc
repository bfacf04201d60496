#include "common/base/secret_file.h"

#include <sys/stat.h>

#include <cerrno>

#include "common/base/file.h"

namespace tide {
namespace {

constexpr size_t kLeast = 16;
constexpr size_t kMost = 4096;

}  // namespace

Result<std::string> ReadSecretFile(const std::string& what, const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) {
    return FailErrno("cannot read " + what + " " + path, errno);
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                what + " " + path + " can be read by others; chmod 600 " + path);
  }
  TIDE_ASSIGN(std::string secret, ReadFile(path, kMost));
  secret.resize(secret.find_last_not_of(" \t\r\n") + 1);
  if (secret.size() < kLeast) {
    return Fail(ErrorCode::kInvalidArgument, what + " " + path + " has fewer than 16 characters");
  }
  return secret;
}

}  // namespace tide
