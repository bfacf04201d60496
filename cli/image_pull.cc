#include "cli/image_pull.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "common/cluster/node_set.h"

namespace tide::cli {
namespace {

// The server sends something every few seconds.
constexpr Duration kSilence = Duration::Minutes(1);
constexpr size_t kLineMax = size_t{1} << 20U;
constexpr std::string_view kRewind = "\r\x1b[K";

// What a node says without the image's name, which the person has just typed: of "fetching image
// train:24.10: 1.2 of 4.0 GiB" the amount, so that it is seen on a narrow terminal, too.
std::string NewsOf(const std::string& progress) {
  for (const std::string_view doing : {"fetching", "unpacking", "looking up"}) {
    const std::string prefix = std::string(doing) + " image ";
    if (!progress.starts_with(prefix)) {
      continue;
    }
    const size_t name_end = progress.find(' ', prefix.size());
    if (name_end == std::string::npos) {
      return std::string(doing);
    }
    return (doing == "fetching" ? "" : std::string(doing) + " ") + progress.substr(name_end + 1);
  }
  return progress;
}

// What the server has said so far.
class PullProgress {
 public:
  PullProgress(Context& context, std::string image)
      : context_(context), image_(std::move(image)), style_(context.ErrStyle()) {
    const bool shared = context.format() == Format::kJsonl && context.OutStyle().terminal;
    line_ = style_.terminal && !style_.accessible && !context.options.quiet && !shared;
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
      code = context_.Report({kExitFailed, NamesInShort(names) + ": " + error, {}, false});
    }
    if (!whole || !done_) {
      return context_.Report({kExitFailed,
                              "the connection broke; " + Amount() +
                                  " the image by then; what the others have fetched stays: run "
                                  "the same again",
                              {},
                              false});
    }
    if (code == kExitOk && (Has() < nodes_ || told_failed_ > 0)) {
      return context_.Report(
          {kExitFailed, "only " + Amount() + " the image; the server did not say why", {}, false});
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
    told_failed_ = Number(line, "failed", told_failed_);
    if (const std::string digest = Text(line, "digest"); !digest.empty()) {
      has_[digest].insert(node);
      End(node);
    } else if (line.contains("error")) {
      const std::string error = Text(line, "error");
      failed_[error.empty() ? "it does not have the image" : error].insert(node);
      failures_.push_back(line);
      End(node);
    } else if (!node.empty()) {
      fetching_[node] = Text(line, "progress");
      shown_ = fetching_.contains(shown_) ? shown_ : node;
    }
  }

  void End(const std::string& node) {
    fetching_.erase(node);
    if (style_.terminal && style_.accessible) {
      context_.Hint(Outcomes());
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
  // "3 of 8 nodes have it, 1 failed"
  [[nodiscard]] std::string Outcomes() const {
    return Amount() + " it" +
           (failures_.empty() ? "" : ", " + std::to_string(failures_.size()) + " failed");
  }

  void ShowLine() {
    if (!line_ || done_ || nodes_ == 0) {
      return;
    }
    std::string text = Outcomes();
    // One node until its end: from many that take turns nobody can read how fast it goes.
    const auto shown = fetching_.contains(shown_) ? fetching_.find(shown_) : fetching_.begin();
    if (shown != fetching_.end()) {
      shown_ = shown->first;
      text += ", " + std::to_string(fetching_.size()) + " fetching (" + Printable(shown->first) +
              ": " + Printable(NewsOf(shown->second)) + ")";
    }
    const auto busy = static_cast<int64_t>(fetching_.size() + failures_.size());
    const int64_t waiting = nodes_ - Has() - busy;
    const std::string rest = waiting > 0 ? ", " + std::to_string(waiting) + " waiting" : "";
    text += DisplayWidth(text + rest) <= style_.width ? rest : "";
    const std::string cut = CutToWidth(text, style_.width);
    std::fprintf(stderr, "%s%s", std::string(kRewind).c_str(), cut.c_str());
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
  std::string shown_;        // node of which the line tells how far it is
  int64_t told_failed_ = 0;  // nodes, as the last line counts them
  bool done_ = false;
};

}  // namespace

std::string NamesInShort(const std::set<std::string>& names, size_t most) {
  const std::vector<std::string> parts = ShortenNodes({names.begin(), names.end()});
  std::string text;
  for (size_t i = 0; i < std::min(parts.size(), most); ++i) {
    text += (i == 0 ? "" : ", ") + parts[i];
  }
  return text + (parts.size() > most ? ", …" : "");
}

int PullImage(Context& context, const std::string& image, const NodesOfImages& nodes) {
  const auto client = context.Connect();
  if (!client) {
    return context.Report(client.error());
  }
  OnInterruptSay("The nodes stop fetching; what they have of the image stays.");
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
