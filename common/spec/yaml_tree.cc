#include "common/spec/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <istream>
#include <map>
#include <sstream>
#include <tuple>

#include "common/base/utf8.h"

namespace tide::yaml {
namespace {

constexpr size_t kMebibyte = 1U << 20U;
constexpr size_t kAnchorsMax = 100;
constexpr size_t kDepthMax = 100;  // before yaml-cpp's own limit, whose message says nothing

// Stops the parser; what() is for the user.
class Refusal : public YAML::Exception {
 public:
  Refusal(const YAML::Mark& place, const std::string& why) : YAML::Exception(place, why) {}
};

bool IsPlainTag(const std::string& tag) {
  constexpr std::array<std::string_view, 9> kKnown = {"",
                                                      "?",
                                                      "!",
                                                      "tag:yaml.org,2002:str",
                                                      "tag:yaml.org,2002:int",
                                                      "tag:yaml.org,2002:float",
                                                      "tag:yaml.org,2002:bool",
                                                      "tag:yaml.org,2002:map",
                                                      "tag:yaml.org,2002:seq"};
  return std::find(kKnown.begin(), kKnown.end(), tag) != kKnown.end();
}

// Builds the tree from yaml-cpp's events.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const DocumentKind& kind)
      : text_(text), mebibytes_max_(kind.mebibytes_max), items_max_(kind.items_max()) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (i % kBlock == 0) {
        characters_before_.push_back(characters_before_.back() + InBlockBefore(i));
      }
      if (text[i] == '\n') {
        line_starts_.push_back(i + 1);
      }
    }
  }

  [[nodiscard]] NodePtr root() const { return root_; }
  [[nodiscard]] const YAML::Mark& start() const { return start_; }

  // yaml-cpp counts bytes; people count characters.
  [[nodiscard]] std::pair<int, int> Place(const YAML::Mark& mark) const {
    if (mark.is_null()) {
      return {1, 1};
    }
    const auto line = std::min(static_cast<size_t>(mark.line), line_starts_.size() - 1);
    const size_t stop =
        std::min(line_starts_[line] + static_cast<size_t>(mark.column), text_.size());
    const size_t column = CharactersBefore(stop) - CharactersBefore(line_starts_[line]) + 1;
    return {mark.line + 1, static_cast<int>(column)};
  }

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = mark; }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto at = std::min(static_cast<size_t>(mark.pos), text_.size());
    const std::string_view here = text_.substr(at);
    const bool written = here.starts_with("~") || here.starts_with("null") ||
                         here.starts_with("Null") || here.starts_with("NULL");
    const auto node = Make(written ? Kind::kNull : Kind::kNothing, mark, anchor);
    if (!written && !stack_.empty() && stack_.back().key != nullptr) {
      // What is not there is best shown at its key.
      node->line = stack_.back().key->line;
      node->column = stack_.back().key->column;
    }
    Add(node);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      throw Refusal(mark, "an alias cannot refer to the value it is part of");
    }
    if (++aliases_ > kAnchorsMax) {
      throw Refusal(mark, "more than 100 aliases");
    }
    Spend(mark, Weight(*found->second));
    Add(found->second);
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    CheckTag(mark, tag);
    const auto node = Make(Kind::kScalar, mark, anchor);
    node->text = value;
    node->quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    Spend(mark, value.size() + 1);
    Add(node);
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    Open(Kind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    Open(Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Frame {
    std::shared_ptr<TreeNode> node;
    NodePtr key;  // of the entry whose value comes next
    YAML::anchor_t anchor = 0;
  };

  // A mebibyte may be one line of a hundred thousand values, each of which has its column: what
  // lies before is counted once, by blocks.
  static constexpr size_t kBlock = 256;

  // The characters that begin in a part of the text, which is UTF-8.
  [[nodiscard]] size_t CountCharacters(size_t begin, size_t end) const {
    const std::string_view part = text_.substr(begin, end - begin);
    return static_cast<size_t>(std::ranges::count_if(
        part, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
  }
  // Those of the block that ends at `end`, a multiple of kBlock.
  [[nodiscard]] size_t InBlockBefore(size_t end) const {
    return end == 0 ? 0 : CountCharacters(end - kBlock, end);
  }
  [[nodiscard]] size_t CharactersBefore(size_t pos) const {
    const size_t block = std::min(pos / kBlock + 1, characters_before_.size() - 1);
    const size_t begin = block == 0 ? 0 : (block - 1) * kBlock;
    return characters_before_[block] + CountCharacters(begin, pos);
  }

  static size_t Weight(const TreeNode& node) {
    size_t sum = node.text.size() + 1;
    for (const NodePtr& item : node.items) {
      sum += Weight(*item);
    }
    for (const auto& [key, value] : node.entries) {
      sum += Weight(*key) + Weight(*value);
    }
    return sum;
  }

  static void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (!IsPlainTag(tag)) {
      throw Refusal(mark, "tags such as `" + tag.substr(0, 40) + "` have no meaning here");
    }
  }

  void Spend(const YAML::Mark& mark, size_t bytes) {
    spent_ += bytes;
    if (spent_ > 2 * mebibytes_max_ * kMebibyte) {
      throw Refusal(
          mark, "the aliases make the text longer than " + std::to_string(mebibytes_max_) + " MiB");
    }
  }

  std::shared_ptr<TreeNode> Make(Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    auto node = std::make_shared<TreeNode>();
    node->kind = kind;
    std::tie(node->line, node->column) = Place(mark);
    newest_ = mark;
    if (anchor != 0 && ++anchors_seen_ > kAnchorsMax) {
      throw Refusal(mark, "more than 100 anchors");
    }
    if (anchor != 0 && kind != Kind::kMap && kind != Kind::kSequence) {
      anchors_[anchor] = node;
    }
    return node;
  }

  void Open(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    CheckTag(mark, tag);
    if (stack_.size() == kDepthMax) {
      throw Refusal(
          mark, "lists and groups are nested more than 100 deep here; no key takes such a value");
    }
    stack_.push_back({Make(kind, mark, anchor), nullptr, anchor});
  }

  void Close() {
    const Frame frame = std::move(stack_.back());
    stack_.pop_back();
    if (frame.anchor != 0) {
      anchors_[frame.anchor] = frame.node;
    }
    Add(frame.node);
  }

  void Add(NodePtr node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& top = stack_.back();
    if (top.node->items.size() + top.node->entries.size() == items_max_) {
      throw Refusal(newest_,
                    "a list or group has more than " + std::to_string(items_max_) +
                        " values; no key takes so many");
    }
    if (top.node->kind == Kind::kSequence) {
      top.node->items.push_back(std::move(node));
    } else if (top.key == nullptr) {
      top.key = std::move(node);
    } else {
      top.node->entries.emplace_back(std::move(top.key), std::move(node));
      top.key = nullptr;
    }
  }

  const std::string_view text_;
  const size_t mebibytes_max_;
  const size_t items_max_;
  std::vector<size_t> line_starts_ = {0};
  std::vector<size_t> characters_before_ = {0};  // [i + 1]: before the block i
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, NodePtr> anchors_;
  size_t anchors_seen_ = 0;
  size_t aliases_ = 0;
  size_t spent_ = 0;
  YAML::Mark start_;
  YAML::Mark newest_;  // of what was made last
  NodePtr root_;
};

Document Refuse(std::pair<int, int> place, std::string message) {
  return {nullptr, {{"", place.first, place.second, std::move(message), ""}}};
}

Document ParseChecked(std::string_view text, const DocumentKind& kind) {
  const std::string name(kind.name);
  TreeBuilder builder(text, kind);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder) || builder.root() == nullptr) {
      return Refuse({1, 1}, "the text is empty; a " + name + " begins with `version: 1`");
    }
    TreeBuilder second(text, kind);
    if (parser.HandleNextDocument(second)) {
      return Refuse(builder.Place(second.start()),
                    "a second document begins here; a " + name + " is one document");
    }
  } catch (const Refusal& refusal) {
    return Refuse(builder.Place(refusal.mark), refusal.msg);
  } catch (const YAML::Exception& error) {
    return Refuse(builder.Place(error.mark), "this is not YAML: " + error.msg);
  } catch (const std::exception& error) {
    return Refuse({1, 1}, std::string("this is not YAML: ") + error.what());
  }
  return {builder.root(), {}};
}

}  // namespace

Document Parse(std::string_view text, const DocumentKind& kind) {
  if (text.size() > kind.mebibytes_max * kMebibyte) {
    return Refuse({1, 1},
                  "the text has " + std::to_string(text.size()) + " bytes; at most " +
                      std::to_string(kind.mebibytes_max) + " MiB is read");
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  // yaml-cpp takes 250 bytes for each bracket that is open, and reads all of them before the first
  // is an event that can be refused.
  const auto brackets =
      static_cast<size_t>(std::ranges::count_if(text, [](char c) { return c == '[' || c == '{'; }));
  if (brackets > 2 * kind.items_max()) {
    return Refuse({1, 1},
                  "the text has " + std::to_string(brackets) + " opening brackets; at most " +
                      std::to_string(2 * kind.items_max()) + " are read");
  }
  if (const auto bad = FindInvalidUtf8(text)) {
    const auto before = text.substr(0, *bad);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    return Refuse({static_cast<int>(line), 1}, "this line is not UTF-8 text");
  }
  return ParseChecked(text, kind);
}

}  // namespace tide::yaml
