#include "api/http/job_list.h"

#include <algorithm>
#include <set>

#include "api/http/elements.h"
#include "common/spec/job_spec.h"

namespace tide::api {
namespace {

// Which jobs a list shows: words of states, or outcomes of finished jobs.
class JobFilter {
 public:
  static std::expected<JobFilter, Problem> Parse(const Call& call) {
    JobFilter filter;
    const std::string all = call.Query("all");
    std::string words = call.Query("state");
    if (words.empty()) {
      filter.words_ = all == "true" || all == "1" ? ~0U : ~Finished();
    }
    while (!words.empty()) {
      const size_t end = std::min(words.find(','), words.size());
      const std::string word = words.substr(0, end);
      words.erase(0, end + 1);
      const uint32_t added = Named(word);
      if (added == 0) {
        return Refuse(ErrorCode::kInvalidArgument,
                      "`" + word +
                          "` is no state; there are queued, held, starting, running, saving, "
                          "stopping, finished, succeeded, failed, cancelled");
      }
      filter.words_ |= added;
    }
    const std::string user = call.Query("user");
    filter.user_ = user == "me" ? call.who.user : user;
    return filter;
  }

  [[nodiscard]] bool Matches(const v1::Job& job) const {
    return Has(JobWordOf(job)) && (user_.empty() || user_ == job.user());
  }
  // Tallies say nothing of users: each row is looked at.
  [[nodiscard]] bool needs_rows() const { return !user_.empty(); }
  // Returns how many of those counted match.
  [[nodiscard]] size_t Matches(const JobTally::Counts& counts) const {
    size_t matching = 0;
    for (size_t word = 0; word < counts.size(); ++word) {
      matching += Has(word) ? counts.at(word) : 0;
    }
    return matching;
  }

 private:
  static uint32_t Finished() {
    uint32_t words = 0;
    for (int i = 0; i <= v1::Outcome_MAX; ++i) {
      words |= 1U << JobWordOf(static_cast<v1::Outcome>(i));
    }
    return words;
  }
  // Returns the words that a text names, 0 where it names none.
  static uint32_t Named(const std::string& text) {
    if (text.empty()) {
      return 0;
    }
    if (text == StateWord(v1::JOB_STATE_FINISHED)) {
      return Finished();
    }
    uint32_t words = 0;
    for (size_t word = 0; word < kJobWords; ++word) {
      words |= JobWordText(word) == text ? 1U << word : 0;
    }
    return words;
  }
  [[nodiscard]] bool Has(size_t word) const { return ((words_ >> word) & 1U) != 0; }

  uint32_t words_ = 0;  // bit i: the word i
  std::string user_;    // "" = all
};

// Reads whether elements of an array are one item of a list.
std::expected<bool, Problem> ParseFolded(const Call& call) {
  const std::string arrays = call.Query("arrays");
  if (!arrays.empty() && arrays != "folded") {
    return Refuse(ErrorCode::kInvalidArgument, "`arrays` may be `folded`, not `" + arrays + "`");
  }
  return !arrays.empty();
}

// Goes through the view from the newest job to the oldest.
class JobLister {
 public:
  //   below: the page's jobs have smaller numbers.
  JobLister(const View& view, const Call& call, JobFilter filter, bool folded, uint64_t below)
      : view_(view), call_(call), filter_(filter), folded_(folded), below_(below) {}

  void Fill(ListWriter& list) {
    const auto& chunks = view_.jobs.chunks();
    for (auto it = chunks.rbegin(); it != chunks.rend(); ++it) {
      const JobRows::Chunk& chunk = *it->second;
      const size_t items = CountItems(chunk.tally);
      const bool before_page = chunk.rows.begin()->first >= below_;
      if (items == 0 || (!filter_.needs_rows() && (before_page || list.full()))) {
        list.Skip(items, before_page);
        Remember(chunk.tally);
        continue;
      }
      for (auto row = chunk.rows.rbegin(); row != chunk.rows.rend(); ++row) {
        Take(row->second, list);
      }
    }
  }

 private:
  // Counts the items of the jobs that match; arrays that have their item already are none.
  [[nodiscard]] size_t CountItems(const JobTally& tally) const {
    size_t items = 0;
    for (const auto& [array, counts] : tally.by_array()) {
      const size_t matching = filter_.Matches(counts);
      const bool is_one = folded_ && array != 0;
      items += is_one ? (matching > 0 && !listed_.contains(array) ? 1 : 0) : matching;
    }
    return items;
  }

  void Remember(const JobTally& tally) {
    for (const auto& [array, counts] : tally.by_array()) {
      if (folded_ && array != 0 && filter_.Matches(counts) > 0) {
        listed_.insert(array);
      }
    }
  }

  void Take(const std::shared_ptr<const JobRow>& row, ListWriter& list) {
    const v1::Job& job = row->message;
    const bool folded = folded_ && job.array() != 0;
    if (!filter_.Matches(job) || (folded && !listed_.insert(job.array()).second) ||
        !list.Count(job.id() >= below_)) {
      return;
    }
    if (folded) {
      list.Put(FoldedJson(row), FormatJobName(job.array()));  // no page begins within an array
    } else {
      list.Put(row->json(DetailInLists(call_, job)), FormatJobName(job.id()));
    }
  }

  // Returns the JSON of an element that stands for its array, with `elements`: all of them that the
  // view has. The array's first may be archived.
  [[nodiscard]] std::string FoldedJson(const std::shared_ptr<const JobRow>& row) const {
    Elements all;
    all.ref.job = row->message.array();
    all.array = row;
    all.last = std::max(1U, row->message.spec().count()) - 1;
    std::string folded = row->json(DetailInLists(call_, row->message));
    folded.back() = ',';
    return folded + "\"elements\":" + ElementsJson(view_, all) + "}";
  }

  const View& view_;
  const Call& call_;
  const JobFilter filter_;
  const bool folded_;
  const uint64_t below_;
  std::set<uint64_t> listed_;  // arrays that have their item
};

}  // namespace

Outcome ListJobs(const App& app, const Call& call) {
  const auto view = NeedView(app);
  const auto page = ParsePage(call, 100);
  const auto filter = JobFilter::Parse(call);
  const auto folded = ParseFolded(call);
  if (!view || !page || !filter || !folded) {
    return std::unexpected(!view     ? view.error()
                           : !page   ? page.error()
                           : !filter ? filter.error()
                                     : folded.error());
  }
  uint64_t below = UINT64_MAX;
  if (!page->cursor.empty()) {
    const auto id = ParseJobName(page->cursor);
    if (!id) {
      return Refuse(ErrorCode::kInvalidArgument, "`cursor` must be the next_cursor of a list");
    }
    below = *id;
  }
  ListWriter list(*page);
  JobLister(**view, call, *filter, *folded, below).Fill(list);
  return list.Finish(app, **view, call);
}

}  // namespace tide::api
