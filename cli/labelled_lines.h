#pragma once
// "Label:   value" lines, one below the other: how a single object is shown.

#include <string>

#include "cli/style.h"

namespace tide::cli {

class LabelledLines {
 public:
  explicit LabelledLines(const Style& style) : style_(style) {}
  // Adds nothing for an empty value.
  void Add(const std::string& label, const std::string& value) {
    if (value.empty()) {
      return;
    }
    const std::string mark = label + ":";
    const size_t used = mark.size() + 1;
    const std::string blanks(
        style_.accessible || used > kLabelWidth ? 1 : kLabelWidth - mark.size(), ' ');
    out_ += style_.Paint(Tone::kDim, mark) + blanks + value + "\n";
  }
  [[nodiscard]] const std::string& text() const { return out_; }

 private:
  static constexpr size_t kLabelWidth = 13;
  const Style style_;
  std::string out_;
};

}  // namespace tide::cli
