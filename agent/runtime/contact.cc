#include "agent/runtime/contact.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <sstream>
#include <string_view>

#include "agent/runtime/processes.h"
#include "common/base/file.h"
#include "common/base/fnv1a.h"

namespace tide::agent {

namespace {

// The file holds the same record twice, one after the other. It is overwritten in place, as a full
// tmpfs has no room for a new file and the lease must not end for that. A reader may come in the
// middle: then one of the two is whole. What a task of a gang has besides stands behind the first
// check word, under a second one: supervisors of before read no further than the first.
constexpr size_t kRecordBytes = 256;
constexpr size_t kFileBytesMax = 4096;  // one page: it has its room from the first write on

uint64_t CheckWord(std::string_view text) {
  Fnv1a hash;
  hash.AddBytes(text);
  return hash.value();
}

std::string Encode(const Contact& contact) {
  std::string record = BootId() + " " + std::to_string(contact.heard_ns) + " " +
                       std::to_string(contact.isolation_ms);
  record += " " + std::to_string(CheckWord(record));
  if (contact.witness_ms > 0) {
    record += " " + std::to_string(contact.witness_ms) + " " + std::to_string(contact.witnessed_ns);
    record += " " + std::to_string(CheckWord(record));
  }
  record += "\n";
  record.resize(kRecordBytes, '\0');
  return record;
}

// Where the text read so far ends.
size_t EndOf(std::istringstream& in, size_t size) {
  return in.eof() ? size : static_cast<size_t>(in.tellg());
}

// What follows the first check word: nothing, or a witness under a check word of its own.
bool DecodeWitness(std::istringstream& in, std::string_view record, Contact& read) {
  const std::string_view rest = record.substr(EndOf(in, record.size()));
  if (rest.find_first_not_of(std::string_view("\n\0", 2)) == std::string_view::npos) {
    return true;
  }
  uint64_t check = 0;
  if (!(in >> read.witness_ms >> read.witnessed_ns)) {
    return false;
  }
  const size_t end = EndOf(in, record.size());
  return in >> check && check == CheckWord(record.substr(0, end)) && read.witness_ms > 0;
}

std::optional<Contact> Decode(std::string_view record, int64_t now_ns) {
  std::istringstream in{std::string(record)};
  std::string boot_id;
  Contact read;
  uint64_t check = 0;
  if (!(in >> boot_id >> read.heard_ns >> read.isolation_ms)) {
    return std::nullopt;
  }
  const size_t end = EndOf(in, record.size());
  // Older agents replaced the file as a whole, without a check word.
  const bool whole =
      in >> check ? check == CheckWord(record.substr(0, end)) && DecodeWitness(in, record, read)
                  : record.size() < kRecordBytes;
  const bool of_now = read.heard_ns <= now_ns && read.witnessed_ns <= now_ns;
  if (whole && boot_id == BootId() && of_now && read.isolation_ms > 0) {
    return read;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Contact> ReadContact(const std::string& path, int64_t now_ns) {
  const auto text = ReadFile(path, kFileBytesMax);
  if (!text) {
    return std::nullopt;
  }
  const std::string_view records = *text;
  const std::optional<Contact> first = Decode(records.substr(0, kRecordBytes), now_ns);
  return first || records.size() <= kRecordBytes ? first
                                                 : Decode(records.substr(kRecordBytes), now_ns);
}

Status WriteContact(const std::string& path, const Contact& contact) {
  TIDE_TRY(MakeDirs(path.substr(0, path.rfind('/')), 0711));
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return FailErrno("cannot open " + path, errno);
  }
  const std::string record = Encode(contact);
  for (const off_t at : {off_t{0}, static_cast<off_t>(kRecordBytes)}) {
    const ssize_t written = ::pwrite(fd.get(), record.data(), record.size(), at);
    if (written != static_cast<ssize_t>(record.size())) {
      return FailErrno("cannot write " + path, written < 0 ? errno : ENOSPC);
    }
  }
  return {};  // not flushed: it only counts within one boot
}

}  // namespace tide::agent
