#include "bench/daemons/program.h"

#include <filesystem>

#include "common/base/check.h"

namespace tide::bench {

std::string ProgramBeside(const std::string& name) {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& folder : {here, here.parent_path() / "bin"}) {
    if (std::filesystem::exists(folder / name)) {
      return folder / name;
    }
  }
  TIDE_CHECK(false, "the programs lie beside tide-bench; build the target `programs`");
  return "";
}

}  // namespace tide::bench
