#pragma once
// What encoding and decoding must agree on about types (codec.h).

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"

namespace tide {

inline constexpr const char* kBytesKey = "hex";    // of a string that is not UTF-8
inline constexpr const char* kStateKey = "state";  // of a phase: which one it is

template <typename T>
inline constexpr bool kIsId = false;
template <typename Tag, typename Rep>
inline constexpr bool kIsId<StrongId<Tag, Rep>> = true;

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

using StringMap = std::map<std::string, std::string>;

}  // namespace tide
