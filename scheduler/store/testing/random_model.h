#pragma once
// Random values of every stored struct, through the same field lists the codec uses. Strings hold
// any bytes, numbers sit at their limits often.

#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "common/base/prng.h"
#include "scheduler/store/enum_names.h"
#include "scheduler/store/event_fields.h"

namespace tide::testing {

class RandomModel {
 public:
  explicit RandomModel(uint64_t seed) : prng_(seed) {}

  Prng& prng() { return prng_; }

  template <typename T>
  T Make() {
    T value{};
    Fill(value);
    return value;
  }

  // The visitor.
  template <typename T>
  void operator()(const char* /*key*/, T& value) {
    Fill(value);
  }

  EventBody MakeEvent() {
    return MakeAlternative<EventBody>(prng_.Below(std::variant_size_v<EventBody>));
  }

  template <typename Variant, size_t I = 0>
  Variant MakeAlternative(uint64_t index) {
    if constexpr (I + 1 < std::variant_size_v<Variant>) {
      if (index != I) {
        return MakeAlternative<Variant, I + 1>(index);
      }
    }
    return Make<std::variant_alternative_t<I, Variant>>();
  }

 private:
  void Fill(std::string& value) {
    static constexpr const char* kParts[] = {"", "node", "\"", "\\", "\n", "ü", "𝄞", "€", "\x7f"};
    value.clear();
    for (uint64_t n = prng_.Below(5); n > 0; --n) {
      value += kParts[prng_.Below(std::size(kParts))];
    }
    if (prng_.Below(4) == 0) {
      value += static_cast<char>(prng_.Below(256));  // NUL, or half a character
    }
  }

  void Fill(double& value) {
    static constexpr double kValues[] = {0.0,
                                         -0.0,
                                         0.1,
                                         1e300,
                                         5e-324,
                                         std::numeric_limits<double>::infinity(),
                                         -std::numeric_limits<double>::infinity()};
    value = kValues[prng_.Below(std::size(kValues))];
  }

  void Fill(bool& value) { value = prng_.Below(2) == 1; }

  template <typename T>
    requires std::integral<T>
  void Fill(T& value) {
    switch (prng_.Below(4)) {
      case 0:
        value = std::numeric_limits<T>::max();
        break;
      case 1:
        value = std::numeric_limits<T>::min();
        break;
      default:
        value = static_cast<T>(prng_.Next());
    }
  }

  template <typename T>
    requires std::is_enum_v<T>
  void Fill(T& value) {
    value = kEnumNames<T>[prng_.Below(std::size(kEnumNames<T>))].first;
  }

  void Fill(Instant& value) { value = Instant::FromUnixNanos(Make<int64_t>()); }
  void Fill(Duration& value) { value = Duration::Nanos(Make<int64_t>()); }

  template <typename Tag, typename Rep>
  void Fill(StrongId<Tag, Rep>& value) {
    value = StrongId<Tag, Rep>(Make<Rep>());
  }

  template <typename T>
  void Fill(std::optional<T>& value) {
    if (prng_.Below(2) == 1) {
      value = Make<T>();
    }
  }

  template <typename T>
  void Fill(std::vector<T>& value) {
    value.resize(prng_.Below(4));
    for (T& each : value) {
      Fill(each);
    }
  }

  void Fill(std::map<std::string, std::string>& value) {
    for (uint64_t n = prng_.Below(4); n > 0; --n) {
      auto key = Make<std::string>();
      value[std::move(key)] = Make<std::string>();
    }
  }

  void Fill(JobPhase& value) { value = MakeAlternative<JobPhase>(prng_.Below(kJobStateCount)); }

  template <typename T>
    requires(std::is_class_v<T> && !std::is_integral_v<T>)
  void Fill(T& value) {
    VisitFields(*this, value);
  }

  Prng prng_;
};

}  // namespace tide::testing
