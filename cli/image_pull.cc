#include "cli/image_pull.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/interrupt.h"
#include "common/cluster/node_set.h"

namespace tide::cli {
namespace {

// The server sends something every few seconds.
constexpr Duration kSilence = Duration::Minutes(1);
constexpr size_t kLineMax = size_t{1} << 20U;
constexpr std::string_view kRewind = "\r\x1b[K";

// "n3, n7, a-l01-n[01-20]"
std::string NamesInShort(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& part : ShortenNodes({names.begin(), names.end()})) {
    text += (text.empty() ? "" : ", ") + Printable(part);
  }
  return text;
}

// What the server has said so far.
class PullProgress {
 public:
  PullProgress(Context& context, std::string image)
      : context_(context), image_(std::move(image)), style_(context.ErrStyle()) {
    line_ = style_.terminal && !style_.accessible && !context.options.quiet;
  }

  // Whole lines of it; the rest of a line waits for more.
  void Take(std::string_view data) {
    unfinished_ += data;
    for (size_t end = 0; (end = unfinished_.find('\n')) != std::string::npos;) {
      TakeLine(unfinished_.substr(0, end));
      unfinished_.erase(0, end + 1);
    }
    if (unfinished_.size() > kLineMax) {
      unfinished_.clear();  // no line of the API
    }
    ShowLine();
  }

  // Exit code. whole: the answer came to its end.
  int Finish(bool whole) {
    HideLine();
    PrintResult();
    int code = kExitOk;
    for (const auto& [error, names] : failed_) {
      code =
          context_.Report({kExitFailed, NamesInShort(names) + ": " + Printable(error), {}, false});
    }
    if (!whole || !done_) {
      return context_.Report({kExitFailed,
                              "the connection broke; " + Amount() +
                                  " the image by then; what the others have fetched stays: run "
                                  "the same again",
                              {},
                              false});
    }
    return code;
  }

 private:
  void TakeLine(const std::string& text) {
    const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object()) {
      return;
    }
    if (context_.format() == Format::kJsonl) {
      context_.PrintJson(line);
    }
    const std::string node = Text(line, "node");
    done_ = done_ || Flag(line, "done");
    nodes_ = Number(line, "nodes", nodes_);
    if (const std::string digest = Text(line, "digest"); !digest.empty()) {
      fetching_.erase(node);
      has_[digest].insert(node);
    } else if (const std::string error = Text(line, "error"); !error.empty()) {
      fetching_.erase(node);
      failed_[error].insert(node);
      failures_.push_back(line);
    } else if (!node.empty()) {
      fetching_[node] = Text(line, "progress");
      last_ = node;
    }
  }

  [[nodiscard]] int64_t Has() const {
    int64_t count = 0;
    for (const auto& [digest, names] : has_) {
      count += static_cast<int64_t>(names.size());
    }
    return count;
  }
  // "3 of 8 nodes have"
  [[nodiscard]] std::string Amount() const {
    const int64_t has = Has();
    return std::to_string(has) + " of " + Count(nodes_, "node") + (has == 1 ? " has" : " have");
  }

  void ShowLine() {
    if (!line_ || done_ || nodes_ == 0) {
      return;
    }
    std::string text = Amount() + " it";
    if (!failures_.empty()) {
      text += ", " + std::to_string(failures_.size()) + " failed";
    }
    if (const auto last = fetching_.find(last_); last != fetching_.end()) {
      text += "; " + Printable(last->first) + ": " + Printable(last->second);
    }
    const std::string shown = CutToWidth(text, style_.width == 0 ? 80 : style_.width);
    std::fprintf(stderr, "%s%s", std::string(kRewind).c_str(), shown.c_str());
    std::fflush(stderr);
  }
  void HideLine() const {
    if (line_) {
      std::fputs(std::string(kRewind).c_str(), stderr);
    }
  }

  void PrintResult() {
    switch (context_.format()) {
      case Format::kJsonl:
        return;  // as it came
      case Format::kName:
        for (const auto& [digest, names] : has_) {
          for (const std::string& name : names) {
            context_.Print(Printable(name) + "\n");
          }
        }
        return;
      case Format::kJson:
        PrintDocument();
        return;
      case Format::kTable:
        break;
    }
    for (const auto& [digest, names] : has_) {
      context_.Print(context_.OutStyle().Sign("✔") + Printable(image_) + " is on " +
                     Count(static_cast<int64_t>(names.size()), "node") + ": " + Printable(digest) +
                     "\n");
    }
    if (has_.size() > 1) {
      context_.Hint(
          "The tag went to another image meanwhile; run the same again, or name a digest.");
    }
  }

  void PrintDocument() {
    json images = json::array();
    for (const auto& [digest, names] : has_) {
      images.push_back({{"digest", digest}, {"nodes", names}});
    }
    context_.PrintJson({{"image", image_}, {"images", images}, {"failed", failures_}});
  }

  Context& context_;
  const std::string image_;
  const Style style_;
  bool line_ = false;  // one that is written anew, on a terminal
  std::string unfinished_;
  int64_t nodes_ = 0;                                    // that were chosen
  std::map<std::string, std::set<std::string>> has_;     // nodes by digest
  std::map<std::string, std::set<std::string>> failed_;  // nodes by error
  json failures_ = json::array();
  std::map<std::string, std::string> fetching_;
  std::string last_;  // node that said something
  bool done_ = false;
};

}  // namespace

int PullImage(Context& context, const std::string& image, const NodesOfImages& nodes) {
  const auto client = context.Connect();
  if (!client) {
    return context.Report(client.error());
  }
  OnInterruptSay("the nodes stop fetching; what they have of the image stays");
  json body = {{"image", image}, {"zone", nodes.zone}, {"group", nodes.group}};
  body["nodes"] = nodes.nodes;
  PullProgress progress(context, image);
  const auto end = (*client)->PostStream(
      "/v1/images/pull",
      {body.dump(-1, ' ', false, json::error_handler_t::replace), "application/json", ""},
      [&](std::string_view data) { progress.Take(data); },
      kSilence);
  if (!end) {
    return context.Report(end.error());
  }
  return progress.Finish(*end == Client::StreamEnd::kComplete);
}

}  // namespace tide::cli
