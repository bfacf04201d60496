// docs/state_machines is generated from the tables, docs/guide/reasons.md lists every reason code.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "scheduler/core/fsm/job_fsm.h"
#include "scheduler/core/fsm/node_fsm.h"
#include "scheduler/core/policy/reasons.h"

namespace tide::testing {
namespace {

const std::string kRoot = TIDE_SOURCE_DIR;

std::string ReadText(const std::string& path) {
  std::ifstream file(kRoot + "/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void Compare(const std::string& path, const std::string& expected) {
  if (std::getenv("TIDE_UPDATE_DOCS") != nullptr) {
    std::ofstream(kRoot + "/" + path) << expected;
  }
  INFO(path << " differs; TIDE_UPDATE_DOCS=1 writes it. It should be:\n" << expected);
  CHECK(ReadText(path) == expected);
}

// Arrows of one pair of states share a line.
class Diagram {
 public:
  Diagram(const std::string& title, const std::string& source, const std::string& start) {
    text_ = "# " + title + "\n\nGenerated from `" + source +
            "` by `core_test`; an event that is not listed is an error.\n\n```mermaid\n"
            "stateDiagram-v2\n  [*] --> " +
            start + "\n";
  }
  void Add(std::string_view from, std::string_view event, std::string_view to) {
    const std::string arrow = std::string(from) + " --> " + std::string(to);
    if (!events_.contains(arrow)) {
      order_.push_back(arrow);
    }
    std::string& label = events_[arrow];
    label += (label.empty() ? "" : ", ") + std::string(event);
    rows_ +=
        "| " + std::string(from) + " | " + std::string(event) + " | " + std::string(to) + " |\n";
  }
  [[nodiscard]] std::string Text(const std::string& terminal) const {
    std::string text = text_;
    for (const std::string& arrow : order_) {
      text += "  " + arrow + ": " + events_.at(arrow) + "\n";
    }
    if (!terminal.empty()) {
      text += "  " + terminal + " --> [*]\n";
    }
    return text + "```\n\n| state | event | next |\n|---|---|---|\n" + rows_;
  }

 private:
  std::string text_;
  std::string rows_;
  std::vector<std::string> order_;
  std::map<std::string, std::string> events_;
};

std::string_view NodeEventWords(NodeEvent event) {
  switch (event) {
    case NodeEvent::kAdmitted:
      return "admitted";
    case NodeEvent::kHeard:
      return "heard";
    case NodeEvent::kHeardOnProbation:
      return "heard, on probation";
    case NodeEvent::kSilent:
      return "silent";
    case NodeEvent::kLost:
      return "lost";
    case NodeEvent::kDrainRequested:
      return "drain";
    case NodeEvent::kEmptied:
      return "empty";
    case NodeEvent::kUndrainRequested:
      return "undrain";
    case NodeEvent::kUndrainedOnProbation:
      return "undrain, on probation";
    case NodeEvent::kUndrainedWhileLost:
      return "undrain, lost";
    case NodeEvent::kBroken:
      return "broken";
    case NodeEvent::kValidationRequested:
      return "validation requested";
    case NodeEvent::kValidationPassed:
      return "passed";
    case NodeEvent::kValidationPassedAfterFault:
      return "passed after a fault";
    case NodeEvent::kValidationPassedWhileHeld:
      return "passed while held";
    case NodeEvent::kValidationFailed:
      return "failed";
    case NodeEvent::kProbationOver:
      return "probation over";
    case NodeEvent::kRemoveRequested:
      return "removed";
  }
  return "";
}

// Every word between `open` and `close`.
std::set<std::string> CodesIn(const std::string& text,
                              const std::string& open,
                              const std::string& close) {
  std::set<std::string> codes;
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at + 1)) {
    const size_t begin = at + open.size();
    codes.insert(text.substr(begin, text.find(close, begin) - begin));
  }
  return codes;
}

}  // namespace

TEST_CASE("the state machines in docs are the ones in the code") {
  Diagram job("States of a job", "scheduler/core/fsm/job_fsm.h", "queued");
  for (const JobTransition& row : kJobTransitions) {
    job.Add(JobStateName(row.from), JobEventName(row.event), JobStateName(row.to));
  }
  Compare("docs/state_machines/job.md", job.Text("finished"));
  Diagram node("States of a node", "scheduler/core/fsm/node_fsm.h", "joining");
  for (const NodeTransition& row : kNodeTransitions) {
    node.Add(NodeStateName(row.from), NodeEventWords(row.event), NodeStateName(row.to));
  }
  Compare("docs/state_machines/node.md", node.Text(""));
}

TEST_CASE("every reason code is documented, and no other") {
  const std::string code = ReadText("scheduler/core/policy/reasons.cc");
  const std::set<std::string> in_code = CodesIn(code, "return \"", "\"");
  const std::set<std::string> in_docs = CodesIn(ReadText("docs/guide/reasons.md"), "\n| `", "`");
  CHECK(in_code.size() == 17);
  CHECK(in_docs == in_code);
}

}  // namespace tide::testing
