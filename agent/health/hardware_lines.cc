#include "agent/health/hardware_lines.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace tide::health {
namespace {

using nlohmann::json;

template <typename T>
json OrNull(const std::optional<T>& value) {
  if constexpr (std::is_enum_v<T>) {
    return value ? json(std::to_underlying(*value)) : json();
  } else {
    return value ? json(*value) : json();
  }
}

template <typename T>
std::optional<T> NumberOf(const json& value, uint64_t most) {
  if (value.is_null()) {
    return std::nullopt;
  }
  const auto number = value.get<uint64_t>();
  if (!value.is_number_unsigned() || number > most) {
    throw json::other_error::create(501, "a number is out of bounds", nullptr);
  }
  return static_cast<T>(number);
}

json ToJson(const PortSample& sample) {
  json counters = json::array();
  for (const auto& counter : sample.counters) {
    counters.push_back(OrNull(counter));
  }
  return {{"name", sample.name},
          {"device", sample.device},
          {"model", sample.model},
          {"rdma", sample.rdma},
          {"layer", OrNull(sample.link_layer)},
          {"state", OrNull(sample.state)},
          {"phys", sample.phys_state},
          {"rate", OrNull(sample.rate_mbps)},
          {"lanes", OrNull(sample.lanes)},
          {"counters", std::move(counters)}};
}

PortSample FromJson(const json& value) {
  PortSample sample;
  sample.name = value.at("name").get<std::string>();
  sample.device = value.at("device").get<std::string>();
  sample.model = value.at("model").get<std::string>();
  sample.rdma = value.at("rdma").get<bool>();
  sample.link_layer =
      NumberOf<LinkLayer>(value.at("layer"), std::to_underlying(LinkLayer::kEthernet));
  sample.state = NumberOf<PortState>(value.at("state"), std::to_underlying(PortState::kActive));
  sample.phys_state = value.at("phys").get<std::string>();
  sample.rate_mbps = NumberOf<uint64_t>(value.at("rate"), kPortRateMbpsMax);
  sample.lanes = NumberOf<uint32_t>(value.at("lanes"), UINT32_MAX);
  const json& counters = value.at("counters");
  for (size_t i = 0; i < kPortCounters; ++i) {
    sample.counters[i] = NumberOf<uint64_t>(counters.at(i), UINT64_MAX);
  }
  return sample;
}

json ToJson(const GpuSample& gpu) {
  return {{"device", gpu.device},
          {"serial", gpu.serial},
          {"uuid", gpu.uuid},
          {"model", gpu.model},
          {"lost", gpu.lost},
          {"lanes", OrNull(gpu.lanes)},
          {"lanes_max", OrNull(gpu.lanes_max)},
          {"ecc", OrNull(gpu.ecc_uncorrected)},
          {"remap_failed", OrNull(gpu.remap_failed)},
          {"slowed", OrNull(gpu.slowed)},
          {"celsius", OrNull(gpu.celsius)}};
}

std::string GpuWordOf(const json& value) {
  auto word = value.get<std::string>();
  if (!IsGpuWord(word)) {
    throw json::other_error::create(501, "a word about a GPU is none", nullptr);
  }
  return word;
}

std::optional<bool> FlagOf(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<bool>());
}

GpuSample GpuFromJson(const json& value) {
  GpuSample gpu;
  gpu.device = GpuWordOf(value.at("device"));
  gpu.serial = GpuWordOf(value.at("serial"));
  gpu.uuid = GpuWordOf(value.at("uuid"));
  gpu.model = GpuWordOf(value.at("model"));
  gpu.lost = value.at("lost").get<bool>();
  gpu.lanes = NumberOf<uint32_t>(value.at("lanes"), UINT32_MAX);
  gpu.lanes_max = NumberOf<uint32_t>(value.at("lanes_max"), UINT32_MAX);
  gpu.ecc_uncorrected = NumberOf<uint64_t>(value.at("ecc"), UINT64_MAX);
  gpu.remap_failed = FlagOf(value.at("remap_failed"));
  gpu.slowed = FlagOf(value.at("slowed"));
  gpu.celsius = NumberOf<uint32_t>(value.at("celsius"), UINT32_MAX);
  return gpu;
}

// A list of at most so many samples.
const json& ListOf(const json& value, size_t most) {
  if (!value.is_array() || value.size() > most) {
    throw json::other_error::create(
        501, "no list of at most " + std::to_string(most) + " samples", nullptr);
  }
  return value;
}

}  // namespace

std::string EncodeHardware(const HardwareSample& sample) {
  json line = json::object();
  if (sample.ports) {
    json& ports = line["ports"] = json::array();
    for (const PortSample& port : *sample.ports) {
      ports.push_back(ToJson(port));
    }
  }
  if (sample.gpus) {
    json found = json::array();
    for (const GpuSample& gpu : sample.gpus->gpus) {
      found.push_back(ToJson(gpu));
    }
    line["gpus"] = {
        {"driver", sample.gpus->driver}, {"nvml", sample.gpus->nvml}, {"found", std::move(found)}};
  }
  return line.dump(-1, ' ', true, json::error_handler_t::replace);
}

Result<HardwareSample> DecodeHardware(std::string_view line) {
  HardwareSample sample;
  try {
    const json value = json::parse(line);
    if (value.contains("ports")) {
      sample.ports.emplace();
      for (const json& port : ListOf(value.at("ports"), kPortsMax)) {
        sample.ports->push_back(FromJson(port));
      }
    }
    if (value.contains("gpus")) {
      const json& gpus = value.at("gpus");
      sample.gpus.emplace();
      sample.gpus->driver = gpus.at("driver").get<bool>();
      sample.gpus->nvml = gpus.at("nvml").get<bool>();
      for (const json& gpu : ListOf(gpus.at("found"), kGpusMax)) {
        sample.gpus->gpus.push_back(GpuFromJson(gpu));
      }
    }
  } catch (const json::exception& error) {
    return Fail(ErrorCode::kCorrupt, std::string("no sample of hardware: ") + error.what());
  }
  if (!sample.ports && !sample.gpus) {
    return Fail(ErrorCode::kCorrupt, "no sample of hardware: neither ports nor GPUs");
  }
  return sample;
}

}  // namespace tide::health
