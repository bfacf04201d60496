#include "common/spec/field_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/spec/span_text.h"
#include "common/spec/suggest.h"

namespace tide {
namespace {

constexpr size_t kFindingsMax = 100;
constexpr size_t kShownMax = 60;  // bytes of a wrong value in a message
constexpr double kGibibytesMax = 1024.0 * 1024.0;

std::string Shown(const yaml::TreeNode& node) {
  switch (node.kind) {
    case yaml::Kind::kNothing:
      return "nothing";
    case yaml::Kind::kNull:
      return "null";
    case yaml::Kind::kSequence:
      return "a list";
    case yaml::Kind::kMap:
      return "a group of keys";
    case yaml::Kind::kScalar:
      break;
  }
  const std::string text =
      node.text.size() > kShownMax ? node.text.substr(0, kShownMax) + "…" : node.text;
  return node.quoted || text.empty() ? "\"" + text + "\"" : text;
}

std::string UnknownKeyAdvice(const std::string& key,
                             const std::vector<FieldReader::Field>& fields,
                             const FieldReader::Elsewhere& elsewhere) {
  const auto misplaced = elsewhere.find(key);
  if (misplaced != elsewhere.end()) {
    return "`" + key + "` belongs under `" + std::string(misplaced->second) + "`";
  }
  std::vector<std::string_view> known;
  known.reserve(fields.size());
  for (const FieldReader::Field& field : fields) {
    known.push_back(field.key);
  }
  const std::string near = NearestWord(key, known);
  return near.empty() ? "" : "did you mean `" + near + "`?";
}

}  // namespace

// "/resources/nodes" as people say it: resources.nodes.
std::string FieldReader::Spoken(const std::string& pointer) const {
  if (pointer.empty()) {
    return document_;
  }
  std::string name = pointer.substr(1);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

void FieldReader::Add(const Value& value, std::string message, std::string suggestion) {
  findings_.push_back({value.pointer,
                       value.node->line,
                       value.node->column,
                       std::move(message),
                       std::move(suggestion)});
}

void FieldReader::Entries(const Value& value, const ReadEntry& read) {
  places_[value.pointer] = {value.node->line, value.node->column};
  if (value.node->kind != yaml::Kind::kMap) {
    Add(value, Spoken(value.pointer) + " must be a group of keys, not " + Shown(*value.node));
    return;
  }
  std::map<std::string, int> first_line;
  for (const auto& [key, entry] : value.node->entries) {
    if (key->kind != yaml::Kind::kScalar || key->text.size() > 256) {
      Add({key.get(), value.pointer}, "a key must be a word, not " + Shown(*key));
      continue;
    }
    const Value at_key{key.get(), value.pointer + "/" + PointerStep(key->text)};
    const auto [known, fresh] = first_line.emplace(key->text, key->line);
    if (!fresh) {
      Add(at_key,
          "key `" + key->text + "` is given twice, first in line " + std::to_string(known->second));
      continue;
    }
    places_[at_key.pointer] = {entry->line, entry->column};
    read(at_key, {entry.get(), at_key.pointer});
  }
}

void FieldReader::Map(const Value& value,
                      const std::vector<Field>& fields,
                      const Elsewhere& elsewhere) {
  Entries(value, [&](const Value& at_key, const Value& entry) {
    const std::string& key = at_key.node->text;
    const auto field = std::find_if(
        fields.begin(), fields.end(), [&](const Field& each) { return each.key == key; });
    if (field != fields.end()) {
      if (entry.node->kind != yaml::Kind::kNull) {
        field->read(entry);
      }
      return;
    }
    Add(at_key, "unknown key `" + key + "`", UnknownKeyAdvice(key, fields, elsewhere));
  });
}

void FieldReader::Require(const Value& value, const std::vector<std::string_view>& keys) {
  if (value.node->kind != yaml::Kind::kMap) {
    return;
  }
  const auto& all = value.node->entries;
  for (const std::string_view key : keys) {
    const bool there = std::any_of(all.begin(), all.end(), [&](const auto& each) {
      return each.first->text == key && each.second->kind != yaml::Kind::kNull;
    });
    if (!there) {
      Add(value, Spoken(value.pointer) + " lacks the key `" + std::string(key) + "`");
    }
  }
}

bool FieldReader::IsScalar(const Value& value, std::string_view wanted) {
  if (value.node->kind == yaml::Kind::kScalar) {
    return true;
  }
  Add(value,
      Spoken(value.pointer) + " must be " + std::string(wanted) + ", not " + Shown(*value.node));
  return false;
}

void FieldReader::Text(const Value& value, std::string& out) {
  if (IsScalar(value, "a text")) {
    out = value.node->text;
  }
}

void FieldReader::List(const Value& value, const std::function<void(const Value&)>& read) {
  places_[value.pointer] = {value.node->line, value.node->column};
  if (value.node->kind != yaml::Kind::kSequence) {
    Add(value, Spoken(value.pointer) + " must be a list, not " + Shown(*value.node));
    return;
  }
  for (size_t i = 0; i < value.node->items.size(); ++i) {
    const Value item{value.node->items[i].get(), value.pointer + "/" + std::to_string(i)};
    places_[item.pointer] = {item.node->line, item.node->column};
    read(item);
  }
}

void FieldReader::TextList(const Value& value, std::vector<std::string>& out) {
  std::vector<std::string> words;
  List(value, [&](const Value& item) { Text(item, words.emplace_back()); });
  out = std::move(words);
}

void FieldReader::TextMap(const Value& value, std::map<std::string, std::string>& out) {
  Entries(value, [&](const Value& key, const Value& entry) { Text(entry, out[key.node->text]); });
}

void FieldReader::Flag(const Value& value, bool& out) {
  const bool is_word = value.node->kind == yaml::Kind::kScalar && !value.node->quoted;
  if (is_word && (value.node->text == "true" || value.node->text == "false")) {
    out = value.node->text == "true";
    return;
  }
  Add(value, Spoken(value.pointer) + " must be true or false, not " + Shown(*value.node));
}

void FieldReader::Whole(const Value& value, Bounds bounds, uint32_t& out) {
  const std::string& text = value.node->text;
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = value.node->kind == yaml::Kind::kScalar && !value.node->quoted &&
                         error == std::errc() && stop == text.data() + text.size();
  if (is_number && number >= bounds.low && number <= bounds.high) {
    out = static_cast<uint32_t>(number);
    return;
  }
  Add(value,
      Spoken(value.pointer) + " must be a whole number from " + std::to_string(bounds.low) +
          " to " + std::to_string(bounds.high) + ", not " + Shown(*value.node));
}

void FieldReader::Span(const Value& value, Duration& out) {
  if (!IsScalar(value, "a duration such as 60s")) {
    return;
  }
  const auto span = ParseSpan(value.node->text);
  if (span) {
    out = *span;
    return;
  }
  const std::string& text = value.node->text;
  const bool unitless = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
  Add(value,
      Spoken(value.pointer) + ": " + span.error().message,
      unitless && text.size() < 10 ? "write `" + text + "s` for seconds" : "");
}

void FieldReader::Gibibytes(const Value& value, uint64_t& bytes) {
  const std::string& text = value.node->text;
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = value.node->kind == yaml::Kind::kScalar && !value.node->quoted &&
                         error == std::errc() && stop == text.data() + text.size();
  if (is_number && std::isfinite(number) && number >= 0 && number <= kGibibytesMax) {
    bytes = static_cast<uint64_t>(std::llround(number * static_cast<double>(kGibibyte)));
    return;
  }
  Add(value,
      Spoken(value.pointer) + " must be a number of GiB from 0 to 1048576, not " +
          Shown(*value.node));
}

FieldReader::Position FieldReader::PlaceOf(std::string pointer) const {
  while (true) {
    const auto found = places_.find(pointer);
    if (found != places_.end()) {
      return found->second;
    }
    if (pointer.empty()) {
      return {};
    }
    pointer.erase(pointer.rfind('/'));
  }
}

void FieldReader::Place(std::vector<SpecFinding> findings) {
  for (SpecFinding& finding : findings) {
    const bool known =
        std::any_of(findings_.begin(), findings_.end(), [&](const SpecFinding& other) {
          return !other.pointer.empty() && (other.pointer == finding.pointer ||
                                            other.pointer.starts_with(finding.pointer + "/"));
        });
    if (known) {
      continue;
    }
    const Position place = PlaceOf(finding.pointer);
    finding.line = place.line;
    finding.column = place.column;
    findings_.push_back(std::move(finding));
  }
}

std::vector<SpecFinding> FieldReader::Take() {
  std::stable_sort(
      findings_.begin(), findings_.end(), [](const SpecFinding& a, const SpecFinding& b) {
        return std::pair(a.line, a.column) < std::pair(b.line, b.column);
      });
  if (findings_.size() > kFindingsMax) {
    const size_t more = findings_.size() - kFindingsMax;
    findings_.resize(kFindingsMax);
    SpecFinding last = findings_.back();
    last.message = "and " + std::to_string(more) + " more mistakes after this line";
    last.suggestion.clear();
    findings_.push_back(std::move(last));
  }
  places_.clear();
  return std::exchange(findings_, {});
}

}  // namespace tide
