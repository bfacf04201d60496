#include "agent/health/port_noise.h"

#include <algorithm>
#include <cstdio>
#include <optional>

namespace tide::health {
namespace {

constexpr int64_t kPointsPerWindow = 10;
constexpr uint64_t kGrowthMax = 1'000'000'000'000;  // more is as bad, and products stay in range

std::string NoiseText(const NoiseLimit& limit, uint64_t grown, Duration age) {
  const bool minutes = limit.span == Duration::Minutes(1);
  const char* const unit = minutes ? "min" : "s";
  std::array<char, 160> text{};
  std::snprintf(text.data(),
                text.size(),
                "%s %.1f/%s over %.0f s (limit %llu/%s)",
                std::string(PortCounterName(limit.counter)).c_str(),
                static_cast<double>(grown) * limit.span.seconds() / age.seconds(),
                unit,
                age.seconds(),
                static_cast<unsigned long long>(limit.count),
                unit);
  return text.data();
}

bool IsOver(const NoiseLimit& limit, uint64_t grown, Duration age) {
  return grown * static_cast<uint64_t>(limit.span.millis()) >
         limit.count * static_cast<uint64_t>(age.millis());
}

}  // namespace

std::string NoiseWindows::Take(Instant now, const PortSample& sample) {
  std::string over;
  for (size_t i = 0; i < kNoiseLimits.size(); ++i) {
    const NoiseLimit& limit = kNoiseLimits[i];
    const std::optional<uint64_t>& count = sample.at(limit.counter);
    if (!count) {
      continue;
    }
    std::vector<Point>& points = points_[i];
    if (!points.empty() && *count < points.back().count) {
      points.clear();
    }
    const Duration window = std::max(kNoiseWindow, limit.span);
    while (points.size() > 1 && now - points[1].at >= window) {
      points.erase(points.begin());
    }
    if (!points.empty() && now - points.front().at >= window) {
      const uint64_t grown = std::min(*count - points.front().count, kGrowthMax);
      const Duration age = now - points.front().at;
      if (IsOver(limit, grown, age)) {
        over += (over.empty() ? "" : ", ") + NoiseText(limit, grown, age);
      }
    }
    if (points.empty() || (now - points.back().at) * kPointsPerWindow >= window) {
      points.push_back({now, *count});
    }
  }
  return over;
}

void NoiseWindows::Restart() {
  for (std::vector<Point>& points : points_) {
    points.clear();
  }
}

}  // namespace tide::health
