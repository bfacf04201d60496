// Memory of a GpuWatch as a JSON object.

#include <nlohmann/json.hpp>
#include <utility>

#include "agent/health/gpu_watch.h"

namespace tide::health {
namespace {

using nlohmann::json;

constexpr int kGpusVersion = 1;

json ToJson(const std::string& device, const GpuRecord& gpu) {
  return {{"device", device},
          {"serial", gpu.serial},
          {"uuid", gpu.uuid},
          {"ecc", gpu.ecc ? json(*gpu.ecc) : json()},
          {"ecc_grew", gpu.ecc_grew},
          {"remap_failed", gpu.remap_failed},
          {"narrow", gpu.narrow},
          {"slow", gpu.slow}};
}

std::string SavedWordOf(const json& value) {
  auto word = value.get<std::string>();
  if (!IsGpuWord(word)) {
    throw json::other_error::create(501, "a word about a GPU is none", nullptr);
  }
  return word;
}

GpuRecord GpuRecordFrom(const json& value) {
  GpuRecord gpu;
  gpu.serial = SavedWordOf(value.at("serial"));
  gpu.uuid = SavedWordOf(value.at("uuid"));
  if (!value.at("ecc").is_null()) {
    gpu.ecc = value.at("ecc").get<uint64_t>();
  }
  gpu.ecc_grew = value.at("ecc_grew").get<bool>();
  gpu.remap_failed = value.at("remap_failed").get<bool>();
  gpu.narrow = value.at("narrow").get<bool>();
  gpu.slow = value.at("slow").get<bool>();
  return gpu;
}

}  // namespace

std::string GpuWatch::Save() const {
  json gpus = json::array();
  for (const auto& [device, record] : gpus_) {
    gpus.push_back(ToJson(device, record));
  }
  json saved = {{"version", kGpusVersion}, {"boot", boot_id_}, {"gpus", std::move(gpus)}};
  if (missing_) {
    saved["missing"] = {{"device", missing_device_}, {"found", missing_found_}};
  }
  return saved.dump(-1, ' ', true, json::error_handler_t::replace);
}

Result<GpuWatch> GpuWatch::Load(std::string_view saved, uint32_t declared) {
  GpuWatch watch(declared);
  if (saved.size() > kGpusSavedBytesMax) {
    return Fail(ErrorCode::kCorrupt, "the saved state of GPUs is too long");
  }
  try {
    const json value = json::parse(saved);
    const json& gpus = value.at("gpus");
    if (value.at("version") != kGpusVersion || !gpus.is_array() || gpus.size() > kGpusMax) {
      return Fail(ErrorCode::kCorrupt, "the saved state of GPUs is of another release");
    }
    watch.boot_id_ = value.at("boot").get<std::string>();
    for (const json& gpu : gpus) {
      watch.gpus_[SavedWordOf(gpu.at("device"))] = GpuRecordFrom(gpu);
    }
    if (value.contains("missing")) {
      const json& missing = value.at("missing");
      watch.missing_ = true;
      watch.missing_device_ = SavedWordOf(missing.at("device"));
      watch.missing_found_ = missing.at("found").get<uint32_t>();
    }
  } catch (const json::exception& error) {
    return Fail(ErrorCode::kCorrupt, std::string("the saved state of GPUs: ") + error.what());
  }
  return watch;
}

}  // namespace tide::health
