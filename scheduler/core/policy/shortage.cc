#include "scheduler/core/policy/shortage.h"

#include <algorithm>
#include <limits>

namespace tide {
namespace {

uint32_t TenthsOfGib(uint64_t bytes, Rounding rounding) {
  constexpr uint64_t kGib = 1ULL << 30U;
  const uint64_t extra = rounding == Rounding::kUp ? kGib - 1 : 0;
  const uint64_t tenths = bytes / kGib * 10 + (bytes % kGib * 10 + extra) / kGib;
  return static_cast<uint32_t>(std::min<uint64_t>(tenths, std::numeric_limits<uint32_t>::max()));
}

// "2.5" for 25.
std::string TenthsText(uint32_t tenths) {
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10));
}

void Count(Shortage& kind, uint32_t has, uint32_t wanted) {
  kind.wanted = std::max(kind.wanted, wanted);
  kind.all += std::min(has, std::numeric_limits<uint32_t>::max() - kind.all);
  kind.largest = std::max(kind.largest, has);
}

}  // namespace

bool ShortageSearch::Add(const Part& has, const Part& wanted) {
  auto& [gpus, cpus, memory] = found_;
  empty_ = false;
  Count(gpus, has.gpus, wanted.gpus);
  if (has.gpus < wanted.gpus) {
    return false;
  }
  is_short_[0] = false;
  Count(cpus, has.cpus, wanted.cpus);
  if (has.cpus < wanted.cpus) {
    return false;
  }
  is_short_[1] = false;
  Count(memory,
        TenthsOfGib(has.memory_bytes, Rounding::kDown),
        TenthsOfGib(wanted.memory_bytes, Rounding::kUp));
  if (has.memory_bytes < wanted.memory_bytes) {
    return false;
  }
  is_short_[2] = false;
  return true;
}

Shortage ShortageSearch::First() const {
  const auto first = std::ranges::find(is_short_, true);
  if (first != is_short_.end()) {
    return found_.at(static_cast<size_t>(first - is_short_.begin()));
  }
  return found_.at(found_[0].wanted > 0 ? 0 : 1);
}

uint32_t AmountIn(const Part& part, Lacking lacking) {
  switch (lacking) {
    case Lacking::kGpus:
      return part.gpus;
    case Lacking::kCpus:
      return part.cpus;
    case Lacking::kMemory:
      return TenthsOfGib(part.memory_bytes, Rounding::kDown);
  }
  return 0;
}

void SetAmount(JobSpec& spec, Lacking lacking, uint32_t amount) {
  switch (lacking) {
    case Lacking::kGpus:
      spec.gpus_per_node = amount;
      break;
    case Lacking::kCpus:
      spec.cpus_per_node = amount;
      break;
    case Lacking::kMemory:
      spec.memory_bytes_per_node = (uint64_t{amount} << 30U) / 10;
      break;
  }
}

std::string FieldOf(Lacking lacking) {
  switch (lacking) {
    case Lacking::kGpus:
      return "gpus_per_node";
    case Lacking::kCpus:
      return "cpus_per_node";
    case Lacking::kMemory:
      return "memory_gib";
  }
  return {};
}

std::string DiskText(uint64_t bytes, Rounding rounding) {
  return TenthsText(TenthsOfGib(bytes, rounding)) + " GiB";
}

std::string ModelText(const JobSpec& spec) {
  return spec.gpu_model.empty() ? "" : " with " + spec.gpu_model + " GPUs";
}

std::string KindText(const JobSpec& spec) {
  std::string text = ModelText(spec);
  if (spec.disk_bytes_per_node > 0) {
    text += (text.empty() ? " with " : " and ") +
            DiskText(spec.disk_bytes_per_node, Rounding::kUp) + " of disk";
  }
  return text;
}

std::string NumberText(Lacking lacking, uint32_t amount) {
  return lacking == Lacking::kMemory ? TenthsText(amount) : std::to_string(amount);
}

std::string AmountText(Lacking lacking, uint32_t amount) {
  const std::string number = NumberText(lacking, amount);
  if (lacking == Lacking::kMemory) {
    return number + " GiB of memory";
  }
  return number + (lacking == Lacking::kGpus ? " GPU" : " CPU") + (amount == 1 ? "" : "s");
}

}  // namespace tide
