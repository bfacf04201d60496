#pragma once
// The story `tide dev` plays on its own cluster, told and checked through the API as any user
// would: a training run is suspended for an urgent job, resumed, hit by a hardware fault, resumed
// elsewhere, and ends with the same weights as an undisturbed run, bit for bit.
//
// Threads: one, its own.

#include <atomic>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/client.h"
#include "cli/dev/workspace.h"

namespace tide::cli {

struct Claim {
  std::string text;
  bool held = false;
  std::string evidence;
};

class Demo {
 public:
  using Say = std::function<void(const std::string& line)>;

  // stop: ends the story early when set.
  Demo(const Workspace& workspace, Say say, const std::atomic<bool>& stop);
  ~Demo();
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  // Plays to the end. Errors: what could not be done, or took too long.
  [[nodiscard]] Status Play();
  [[nodiscard]] const std::vector<Claim>& claims() const { return claims_; }

 private:
  struct Nouns;
  [[nodiscard]] Status WaitForNodes();
  [[nodiscard]] Status Vouch(const std::string& node);
  [[nodiscard]] Status Repair(const nlohmann::json& nodes);
  [[nodiscard]] Status TrainReference();
  [[nodiscard]] Status TrainUntilInterrupted();
  [[nodiscard]] Status InterruptForUrgentJob();
  [[nodiscard]] Status BreakANode();
  [[nodiscard]] Status FinishAndCompare();

  [[nodiscard]] Result<std::string> Submit(const std::string& spec);
  [[nodiscard]] Result<nlohmann::json> Get(const std::string& path);
  [[nodiscard]] Result<nlohmann::json> WaitForJob(
      const std::string& job,
      const std::string& what,
      const std::function<bool(const nlohmann::json&)>& done);
  [[nodiscard]] Result<std::string> FirstLogLine(const std::string& job, uint64_t attempt);
  [[nodiscard]] std::string TrainingSpec(const std::string& name, const std::string& priority);
  void Check(const std::string& text, bool held, const std::string& evidence);

  const Workspace& workspace_;
  const Client client_;
  const Say say_;
  const std::atomic<bool>& stop_;
  std::vector<Claim> claims_;
  std::string reference_;
  std::string training_;
  int64_t stop_step_ = -1;
  std::string broken_node_;
  std::set<std::string> repaired_;
};

}  // namespace tide::cli
