#pragma once
// Reads the values of a YAML tree into C++ fields and notes every mistake with its place; a
// mistake leaves the field as it was. Belongs to one thread.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/time.h"
#include "common/spec/job_spec.h"
#include "common/spec/yaml_tree.h"

namespace tide {

struct Value {
  const yaml::TreeNode* node = nullptr;
  std::string pointer;  // JSON pointer, "" for the whole document
};

class FieldReader {
 public:
  struct Field {
    std::string_view key;
    std::function<void(const Value&)> read;
  };
  struct Bounds {
    int64_t low = 0;
    int64_t high = 0;
  };
  // Where a key belongs that stands in the wrong place: key → the section.
  using Elsewhere = std::multimap<std::string_view, std::string_view>;

  // Hands each entry to its field. Unknown, duplicate and non-text keys are findings; a value
  // written as null counts as absent.
  void Map(const Value& value, const std::vector<Field>& fields, const Elsewhere& elsewhere = {});

  void Text(const Value& value, std::string& out);
  void TextList(const Value& value, std::vector<std::string>& out);
  void TextMap(const Value& value, std::map<std::string, std::string>& out);
  void Flag(const Value& value, bool& out);
  void Whole(const Value& value, Bounds bounds, uint32_t& out);
  void Span(const Value& value, Duration& out);
  // A number of GiB, whole or with a fraction.
  void Gibibytes(const Value& value, uint64_t& bytes);
  // Hands each item of a list to `read`.
  void List(const Value& value, const std::function<void(const Value&)>& read);
  [[nodiscard]] bool IsScalar(const Value& value, std::string_view wanted);

  void Add(const Value& value, std::string message, std::string suggestion = "");
  // Adds findings without a place, each at the nearest value that was read; a value that already
  // has a finding gets no second one.
  void Place(std::vector<SpecFinding> findings);

  // All findings in the order of the text; the object is empty afterwards.
  [[nodiscard]] std::vector<SpecFinding> Take();

 private:
  struct Position {
    int line = 1;
    int column = 1;
  };
  void Entries(const Value& value,
               const std::function<void(const std::string& key, const Value&)>& read);
  [[nodiscard]] Position PlaceOf(std::string pointer) const;

  std::vector<SpecFinding> findings_;
  std::map<std::string, Position> places_;  // by pointer
};

}  // namespace tide
