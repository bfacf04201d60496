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
  // `document`: how messages call the whole text.
  explicit FieldReader(std::string_view document = "the spec") : document_(document) {}

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

  // Hands each entry of a group whose keys are names to `read`, with the key's own place.
  // Duplicate and non-text keys are findings.
  using ReadEntry = std::function<void(const Value& key, const Value& entry)>;
  void Entries(const Value& value, const ReadEntry& read);
  // Adds a finding for each of `keys` that the group lacks; none for what is no group.
  void Require(const Value& value, const std::vector<std::string_view>& keys);

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

  [[nodiscard]] size_t count() const { return findings_.size(); }
  // All findings in the order of the text; the object is empty afterwards.
  [[nodiscard]] std::vector<SpecFinding> Take();

 private:
  struct Position {
    int line = 1;
    int column = 1;
  };
  [[nodiscard]] Position PlaceOf(std::string pointer) const;
  [[nodiscard]] std::string Spoken(const std::string& pointer) const;

  const std::string document_;
  std::vector<SpecFinding> findings_;
  std::map<std::string, Position> places_;  // by pointer
};

}  // namespace tide
