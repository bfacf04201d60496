// tide-tick-bench [--quick]: what a tick costs where an agent's page has no order. Prints one line
// for tide-bench.

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "sdk/cpp/tide.h"

namespace {

constexpr int64_t kTicksInBlock = 200'000;
constexpr double kTargetNs = 10;

// As the agent makes it: magic, version, zeros.
void MakePage(const std::string& path) {
  std::string page("TIDE\1\0\0\0", 8);
  page.resize(4096);
  std::ofstream(path, std::ios::binary) << page;
}

// Nanoseconds a tick. The fastest block counts: a tick waits for nothing, so whatever else a block
// took was somebody else's.
double Measure(tide::Checkpoint& ck, int64_t blocks) {
  double best = std::numeric_limits<double>::infinity();
  int64_t step = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const auto begin = std::chrono::steady_clock::now();
    for (const int64_t end = step + kTicksInBlock; step < end;) {
      if (ck.tick(++step)) {
        return 0;  // never: nobody writes orders
      }
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / static_cast<double>(kTicksInBlock));
  }
  return best;
}

int Bench(const std::string& folder, int64_t blocks) {
  MakePage(folder + "/page");
  tide::Run run({{"TIDE_ATTEMPT", "1"},
                 {"TIDE_PAGE", folder + "/page"},
                 {"TIDE_CHECKPOINT_DIR", folder + "/checkpoints"}});
  std::vector<float> weights(16);
  tide::Checkpoint ck(run);
  ck.replicated("model.w", tide::Tensor::Of(weights.data(), {16}));
  std::printf(R"({"case": "C++, with an agent's page", "metric": "p50_ns", "value": %.3f, )"
              R"("n": %lld, "target": %.0f, "at_most": true})"
              "\n",
              Measure(ck, blocks),
              static_cast<long long>(blocks),
              kTargetNs);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  if (argc > (is_quick ? 2 : 1)) {
    std::fputs("usage: tide-tick-bench [--quick]\n", stderr);
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "tide-tick-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    std::perror("tide-tick-bench: cannot make a folder");
    return 1;
  }
  int code = 1;
  try {
    code = Bench(folder, is_quick ? 1 : 100);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tide-tick-bench: %s\n", error.what());
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return code;
}
