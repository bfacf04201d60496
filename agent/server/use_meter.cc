#include "agent/server/use_meter.h"

namespace tide::agent {
namespace {

constexpr int64_t kPauseNs = 10'000'000'000;
constexpr int64_t kFirstPauseNs = 2'000'000'000;  // until something is known
constexpr uint64_t kMebibyte = uint64_t{1} << 20U;

}  // namespace

std::optional<TaskUse> UseMeter::Of(const std::string& key, int64_t now_ns) {
  const auto [found, is_new] = samples_.try_emplace(key);
  Sample& last = found->second;
  if (!is_new && now_ns - last.at_ns < (last.use ? kPauseNs : kFirstPauseNs)) {
    return last.use;
  }
  Sample next;
  next.at_ns = now_ns;
  next.counted = read_(key);
  if (last.counted && next.counted && next.counted->cpu_ns >= last.counted->cpu_ns) {
    const double cpus = static_cast<double>(next.counted->cpu_ns - last.counted->cpu_ns) /
                        static_cast<double>(now_ns - last.at_ns);
    TaskUse use;
    use.memory_bytes = next.counted->memory_bytes / kMebibyte * kMebibyte;
    use.cpu_millis = static_cast<uint32_t>(cpus * 1000);
    next.use = use;
  }
  last = next;
  return last.use;
}

}  // namespace tide::agent
