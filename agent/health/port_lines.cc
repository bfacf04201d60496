#include "agent/health/port_lines.h"

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

}  // namespace

std::string EncodePorts(const std::vector<PortSample>& samples) {
  json ports = json::array();
  for (const PortSample& sample : samples) {
    ports.push_back(ToJson(sample));
  }
  return json{{"ports", std::move(ports)}}.dump(-1, ' ', true, json::error_handler_t::replace);
}

Result<std::vector<PortSample>> DecodePorts(std::string_view line) {
  std::vector<PortSample> samples;
  try {
    const json value = json::parse(line);
    const json& ports = value.at("ports");
    if (ports.size() > kPortsMax) {
      return Fail(ErrorCode::kCorrupt, "more than " + std::to_string(kPortsMax) + " ports");
    }
    for (const json& port : ports) {
      samples.push_back(FromJson(port));
    }
  } catch (const json::exception& error) {
    return Fail(ErrorCode::kCorrupt, std::string("no sample of ports: ") + error.what());
  }
  return samples;
}

}  // namespace tide::health
