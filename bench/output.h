#pragma once
// Figures as text: a JSON line each for machines, a table for people, Markdown for
// docs/measurements.md.

#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/machine.h"

namespace tide::bench {

// {"bench","case","metric","value","unit","n","target","machine"}, without a line break. `target`
// is "<= 5", ">= 5000" or null.
[[nodiscard]] std::string JsonLine(const Figure& figure, const Machine& machine);

// Three digits that matter, without an exponent: "0.0123", "4.57", "312", "98231".
[[nodiscard]] std::string FormatValue(double value);

// At most 80 columns: metric, value, target and whether it is met.
[[nodiscard]] std::string TableHeader();
[[nodiscard]] std::string TableRow(const Figure& figure);

// A table with one row for each case and one column for each metric; a target stands behind its
// value.
[[nodiscard]] std::string MarkdownTable(const std::vector<Figure>& figures);

[[nodiscard]] bool IsMet(const Figure& figure);  // true where there is no target

}  // namespace tide::bench
