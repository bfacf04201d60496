#include "agent/server/fault_spool.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/file.h"

namespace tide::agent {
namespace {

// A storm of lines is one incident to the scheduler: with so many waiting, repeats are dropped, and
// with many more everything.
constexpr size_t kPendingMax = 1024;
constexpr size_t kPendingHardMax = 4 * kPendingMax;

bool SameIncident(const tide::v1::Fault& a, const tide::v1::Fault& b) {
  return a.kind() == b.kind() && a.code() == b.code() && a.device() == b.device();
}

tide::v1::Fault ToProto(const health::KernelFault& fault, Instant seen_at) {
  tide::v1::Fault out;
  out.set_kind(static_cast<tide::v1::FaultKind>(fault.kind));
  out.set_code(fault.code);
  out.set_device(fault.interface.empty() ? fault.device : fault.interface);
  out.set_text(fault.text);
  out.set_seen_at(seen_at.unix_nanos());
  return out;
}

nlohmann::json ToJson(const tide::v1::Fault& fault) {
  return {{"kind", static_cast<int>(fault.kind())},
          {"code", fault.code()},
          {"device", fault.device()},
          {"text", fault.text()},
          {"seen_at", fault.seen_at()}};
}

tide::v1::Fault FromJson(const nlohmann::json& json) {
  tide::v1::Fault fault;
  fault.set_kind(static_cast<tide::v1::FaultKind>(json.at("kind").get<int>()));
  fault.set_code(json.at("code"));
  fault.set_device(json.at("device").get<std::string>());
  fault.set_text(json.at("text").get<std::string>());
  fault.set_seen_at(json.at("seen_at"));
  return fault;
}

}  // namespace

Result<std::unique_ptr<FaultSpool>> FaultSpool::Open(const std::string& state_dir,
                                                     const std::string& kmsg) {
  std::unique_ptr<FaultSpool> spool(new FaultSpool());  // private constructor
  spool->path_ = state_dir + "/faults.json";
  spool->kmsg_ = kmsg;
  health::KmsgOptions options;
  options.path = kmsg;
  const auto text = ReadFile(spool->path_);
  if (!text && text.error().code != ErrorCode::kNotFound) {
    return std::unexpected(text.error());  // else faults that wait would be overwritten
  }
  if (text) {
    const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
    try {
      for (const auto& fault : json.at("pending")) {
        spool->pending_.push_back(FromJson(fault));
      }
      if (json.at("kmsg").get<std::string>() == kmsg) {
        options.position = json.at("position").get<std::string>();
      }
    } catch (const nlohmann::json::exception& error) {
      return Fail(ErrorCode::kCorrupt, spool->path_ + ": " + error.what() + "; remove it");
    }
  }
  if (!kmsg.empty()) {
    TIDE_ASSIGN(spool->reader_, health::KmsgReader::Open(options));
    TIDE_TRY(spool->Save());  // from now on nothing is missed
  }
  return spool;
}

Result<bool> FaultSpool::ReadNew() {
  std::vector<health::KernelLine> lines;
  TIDE_TRY(reader_->Read(lines));
  bool found = false;
  for (const health::KernelLine& line : lines) {
    if (const auto fault = parser_.Feed(line.text)) {
      Keep(ToProto(*fault, line.read_at));
      found = true;
    }
  }
  if (found) {
    TIDE_TRY(Save());
  }
  return found;
}

void FaultSpool::Keep(tide::v1::Fault fault) {
  const auto same = [&](const tide::v1::Fault& each) { return SameIncident(each, fault); };
  if (pending_.size() < kPendingMax ||
      (pending_.size() < kPendingHardMax && std::ranges::none_of(pending_, same))) {
    pending_.push_back(std::move(fault));
  }
}

Status FaultSpool::Acknowledge(size_t count) {
  pending_.erase(pending_.begin(),
                 pending_.begin() + static_cast<std::ptrdiff_t>(std::min(count, pending_.size())));
  return Save();
}

Status FaultSpool::Save() const {
  nlohmann::json json = {{"kmsg", kmsg_},
                         {"position", reader_ ? reader_->Position() : ""},
                         {"pending", nlohmann::json::array()}};
  for (const tide::v1::Fault& fault : pending_) {
    json["pending"].push_back(ToJson(fault));
  }
  return WriteFileDurably(path_,
                          json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace tide::agent
