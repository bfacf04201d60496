#pragma once
// Names of secrets, and what a rank sees of them. Values are nowhere in a spec.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace tide {

inline constexpr size_t kSecretsOfJobMax = 32;
inline constexpr size_t kSecretNameMax = 63;
// Where a container shows them, one file each.
inline constexpr std::string_view kSecretsInContainer = "/run/secrets";

// A letter or digit of a-z, 0-9, then at most 62 of them and '-'.
[[nodiscard]] inline bool IsSecretName(std::string_view text) {
  const auto lower_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= kSecretNameMax && lower_or_digit(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return lower_or_digit(c) || c == '-'; });
}

// What IsSecretName wants, to stand behind "the name of a secret".
inline constexpr std::string_view kSecretNameRule =
    " must start with a letter or digit and hold at most 63 of a-z, 0-9 and '-'";

// The environment variable that holds it: "wandb-api-key" gives "WANDB_API_KEY".
[[nodiscard]] inline std::string SecretVariable(std::string_view name) {
  std::string variable(name);
  for (char& c : variable) {
    if (c == '-') {
      c = '_';
    } else if (c >= 'a' && c <= 'z') {
      c = static_cast<char>(c - 'a' + 'A');
    }
  }
  return variable;
}

// The token of the job, as a secret that each of its tasks has: TIDE_JOB_TOKEN. No user's has this
// name, as IsVariableOfTide.
inline constexpr std::string_view kJobTokenSecret = "tide-job-token";

// Does Tide itself give ranks this variable, so that no secret may?
[[nodiscard]] inline bool IsVariableOfTide(std::string_view variable) {
  constexpr std::array<std::string_view, 18> kOwn = {"CUDA_VISIBLE_DEVICES",
                                                     "HOME",
                                                     "LOCAL_RANK",
                                                     "LOCAL_WORLD_SIZE",
                                                     "LOGNAME",
                                                     "MARSV2_ROOM",
                                                     "MARSV2_SCHEDULE_ZONE",
                                                     "MASTER_ADDR",
                                                     "MASTER_PORT",
                                                     "NNODES",
                                                     "NODE_RANK",
                                                     "PATH",
                                                     "PYTHONPATH",
                                                     "PYTHONUNBUFFERED",
                                                     "RANK",
                                                     "TMPDIR",
                                                     "USER",
                                                     "WORLD_SIZE"};
  return variable.starts_with("TIDE_") || std::ranges::binary_search(kOwn, variable);
}

}  // namespace tide
