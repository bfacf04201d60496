#pragma once
// Names of GPUs as jobs and rules give them.

#include <string_view>

namespace tide {

// Reports whether a GPU's name has the words of `wanted` side by side, whatever their case: "A100"
// is a model of "NVIDIA A100-SXM4-80GB" and not of "A1000". Nothing is wanted: any.
[[nodiscard]] bool IsModel(std::string_view model, std::string_view wanted);

}  // namespace tide
