#include "agent/server/fault_spool.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "agent/runtime/processes.h"
#include "common/base/file.h"
#include "common/log/log.h"

namespace tide::agent {
namespace {

// A storm of lines is one incident to the scheduler: with so many waiting, repeats are dropped, and
// with many more everything.
constexpr size_t kPendingMax = 1024;
// Cuts of a port after which it is not trusted any more.
constexpr size_t kFlashesLately = 2;
constexpr Duration kFlashSpan = Duration::Minutes(5);
constexpr size_t kFlashesToday = 3;
constexpr Duration kFlashDay = Duration::Minutes(24 * 60);
// A port is watched while samples come.
constexpr Duration kPortsWatched = Duration::Seconds(15);
// Counters may be older after a restart: then a cut that was reported before comes twice at most.
constexpr Duration kPortsSavedEvery = Duration::Minutes(10);
constexpr size_t kPendingHardMax = 4 * kPendingMax;

bool SameIncident(const tide::v1::Fault& a, const tide::v1::Fault& b) {
  return a.kind() == b.kind() && a.code() == b.code() && a.device() == b.device() &&
         a.gone() == b.gone();
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

tide::v1::Fault ToProto(const health::HardwareFault& fault) {
  tide::v1::Fault out;
  out.set_kind(static_cast<tide::v1::FaultKind>(fault.kind));
  out.set_device(fault.device);
  out.set_text(fault.text);
  out.set_ends(fault.kind != health::FaultKind::kLinkFlash &&
               fault.kind != health::FaultKind::kLinkUnsteady);
  out.set_seen_at(fault.seen_at.unix_nanos());
  return out;
}

nlohmann::json ToJson(const tide::v1::Fault& fault) {
  return {{"kind", static_cast<int>(fault.kind())},
          {"code", fault.code()},
          {"device", fault.device()},
          {"text", fault.text()},
          {"seen_at", fault.seen_at()},
          {"gone", fault.gone()},
          {"ends", fault.ends()}};
}

tide::v1::Fault FromJson(const nlohmann::json& json) {
  tide::v1::Fault fault;
  fault.set_kind(static_cast<tide::v1::FaultKind>(json.at("kind").get<int>()));
  fault.set_code(json.at("code"));
  fault.set_device(json.at("device").get<std::string>());
  fault.set_text(json.at("text").get<std::string>());
  fault.set_seen_at(json.at("seen_at"));
  fault.set_gone(json.value("gone", false));
  fault.set_ends(json.value("ends", false));
  return fault;
}

}  // namespace

Result<std::unique_ptr<FaultSpool>> FaultSpool::Open(const std::string& state_dir,
                                                     const std::string& kmsg,
                                                     uint32_t gpus) {
  std::unique_ptr<FaultSpool> spool(new FaultSpool());  // private constructor
  spool->path_ = state_dir + "/faults.json";
  spool->kmsg_ = kmsg;
  spool->boot_id_ = BootId();
  spool->gpus_ = health::GpuWatch(gpus);
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
      spool->LoadWatches(json.value("ports", ""), json.value("gpus", ""), gpus);
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

// Takes up what was known of the hardware. What another release wrote is left out: the next sample
// is a new baseline.
void FaultSpool::LoadWatches(const std::string& ports, const std::string& gpus, uint32_t declared) {
  if (!ports.empty()) {
    auto watch = health::PortWatch::Load(ports);
    if (watch) {
      ports_ = std::move(*watch);
    } else {
      log::Warning("What was known of network ports is not readable",
                   {{"File", path_}, {"Error", watch.error().message}});
    }
  }
  if (!gpus.empty()) {
    auto watch = health::GpuWatch::Load(gpus, declared);
    if (watch) {
      gpus_ = std::move(*watch);
    } else {
      log::Warning("What was known of GPUs is not readable",
                   {{"File", path_}, {"Error", watch.error().message}});
    }
  }
  if (declared == 0) {
    KeepAll(gpus_.Dismiss(), SystemNow());
  }
}

Result<bool> FaultSpool::ReadNew() {
  std::vector<health::KernelLine> lines;
  TIDE_TRY(reader_->Read(lines));
  bool found = false;
  for (const health::KernelLine& line : lines) {
    const auto fault = parser_.Feed(line.text);
    // Of a port that is watched a line tells nothing more: it reads the same for a cut of a second
    // and a broken cable.
    if (fault && (fault->kind != health::FaultKind::kLinkDown || !Watches(fault->device))) {
      Keep(ToProto(*fault, line.read_at));
      found = true;
    }
  }
  if (found) {
    TIDE_TRY(Save());
  }
  return found;
}

// Reports whether samples of ports come in.
bool FaultSpool::SeesPorts() const {
  return ports_seen_ns_ != 0 && MonotonicNanos() - ports_seen_ns_ < kPortsWatched.nanos();
}

bool FaultSpool::Watches(std::string_view device) const {
  return SeesPorts() && ports_.Knows(device);
}

std::vector<std::string> FaultSpool::UnwellPorts() const {
  return SeesPorts() ? ports_.Unwell() : std::vector<std::string>();
}

Result<bool> FaultSpool::TakePorts(Instant now, const std::vector<health::PortSample>& samples) {
  ports_seen_ns_ = MonotonicNanos();
  const health::HardwareEvents events = ports_.Feed(now, boot_id_, samples);
  KeepAll(events, now);
  const bool news = !events.faults.empty() || !events.cleared.empty();
  // Ports that were never saved have no baseline after a restart.
  if (news || samples.size() != ports_saved_ || now - ports_saved_at_ >= kPortsSavedEvery) {
    ports_saved_at_ = now;
    ports_saved_ = samples.size();
    TIDE_TRY(Save());
  }
  return news;
}

Result<bool> FaultSpool::TakeGpus(Instant now, const health::GpuReading& reading) {
  const health::HardwareEvents events = gpus_.Feed(now, boot_id_, reading);
  KeepAll(events, now);
  const bool news = !events.faults.empty() || !events.cleared.empty();
  // GPUs that were never saved have no baseline after a restart.
  if (news || reading.gpus.size() != gpus_saved_ || now - gpus_saved_at_ >= kPortsSavedEvery) {
    gpus_saved_at_ = now;
    gpus_saved_ = reading.gpus.size();
    TIDE_TRY(Save());
  }
  return news;
}

void FaultSpool::KeepAll(const health::HardwareEvents& events, Instant now) {
  for (const health::HardwareFault& fault : events.faults) {
    Keep(ToProto(fault));
    if (fault.kind == health::FaultKind::kLinkFlash) {
      KeepCut(fault);
    }
  }
  for (const health::HardwareCleared& cleared : events.cleared) {
    tide::v1::Fault fault = ToProto({cleared.kind, cleared.device, "", now});
    fault.set_gone(true);
    Keep(std::move(fault));
  }
}

// Cuts that come too often are a fault of their own.
void FaultSpool::KeepCut(const health::HardwareFault& flash) {
  const size_t lately = ports_.FlashesIn(flash.device, kFlashSpan);
  const size_t today = ports_.FlashesIn(flash.device, kFlashDay);
  if (lately >= kFlashesLately || today >= kFlashesToday) {
    Keep(ToProto({health::FaultKind::kLinkUnsteady,
                  flash.device,
                  std::to_string(today) + " cuts within a day, the last: " + flash.text,
                  flash.seen_at}));
  }
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
                         {"ports", ports_.Save()},
                         {"gpus", gpus_.Save()},
                         {"pending", nlohmann::json::array()}};
  for (const tide::v1::Fault& fault : pending_) {
    json["pending"].push_back(ToJson(fault));
  }
  return WriteFileDurably(path_,
                          json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace tide::agent
