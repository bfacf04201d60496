#include "scheduler/core/policy/quota.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tide {
namespace {

bool SameKey(const QuotaRow& a, const QuotaRow& b) {
  return a.subject == b.subject && a.name == b.name && a.group == b.group &&
         a.priority == b.priority;
}

bool IsForGroup(const QuotaRow& row, const Job& job) {
  return row.group.empty() || row.group == job.spec->group;
}

bool IsAuto(const Job& job) {
  return job.spec->priority == kAutoPriority;
}

int64_t LimitOf(const QuotaRow& row) {
  return row.limit ? int64_t{*row.limit} * kMilliNodes : INT64_MAX;
}

int64_t GuaranteeOf(const QuotaRow& row) {
  return int64_t{row.nodes} * kMilliNodes;
}

// Not set = never, as people are told.
Instant EndOf(const QuotaRow& row) {
  return row.until == Instant::Never() ? Instant() : row.until;
}

}  // namespace

int64_t MilliNodesOf(const JobSpec& spec, const NodeCapacity& largest) {
  if (!PartOf(spec, largest)) {
    return int64_t{spec.nodes} * kMilliNodes;
  }
  const bool by_gpus = spec.gpus_per_node > 0;
  const int64_t share = by_gpus ? spec.gpus_per_node : spec.cpus_per_node;
  const int64_t of = std::max<int64_t>(1, by_gpus ? largest.gpus : largest.cpus);
  // Rounded down: the parts of a full node never count for more than the node.
  return std::clamp(share * kMilliNodes / of, int64_t{1}, kMilliNodes);
}

Quotas::Quotas(const ClusterState& state, const Fabric& fabric, const Policy& policy, Instant now)
    : state_(state), fabric_(fabric), policy_(policy), now_(now) {
  if (!policy.quotas.empty()) {
    CollectRows();
    CountState();
  }
}

void Quotas::CollectRows() {
  for (const auto subject : {QuotaRow::Subject::kProject, QuotaRow::Subject::kUser}) {
    for (const QuotaRow& row : policy_.quotas) {
      if (row.subject != subject || row.until <= now_) {
        continue;
      }
      next_change_ = std::min(next_change_, row.until);
      const auto same =
          std::ranges::find_if(rows_, [&](const Row& other) { return SameKey(*other.row, row); });
      if (same == rows_.end()) {
        rows_.push_back({&row});
      } else if (row.until < same->row->until) {
        same->row = &row;
      }
    }
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    const QuotaRow& row = *rows_[i].row;
    const auto user = state_.owners.users().Find(row.name);
    if (row.subject == QuotaRow::Subject::kUser && user) {
      user_rows_[*user].push_back(i);
    }
  }
}

std::vector<Quotas::Live> Quotas::InOrderOfStart() const {
  std::vector<Live> live;
  live.reserve(state_.runners.all().size());
  for (const LiveJob& job : state_.runners.all()) {
    live.emplace_back(&job, nullptr);
  }
  std::ranges::sort(
      live, {}, [](const Live& each) { return std::pair(each.first->placed_at, each.first->id); });
  for (auto& [line, job] : live) {
    job = &state_.jobs.at(line->id);
  }
  return live;
}

void Quotas::CountState() {
  const std::vector<Live> live = InOrderOfStart();
  for (const auto& [line, job] : live) {
    if (!IsAuto(*job)) {
      const uint32_t row_set = RowSetOf(line->owner);
      Add(*job, row_set);
      standing_[job->id] = Check(row_set, *job);
    }
  }
  for (const JobId id : state_.claiming) {
    const Job& job = state_.jobs.at(id);
    if (!IsAuto(job)) {
      Add(job);
    }
  }
  CountAuto(live);
}

// What has started comes before what is about to, and that before what waits.
void Quotas::CountAuto(const std::vector<Live>& live) {
  for (const auto& [line, job] : live) {
    if (IsAuto(*job)) {
      ChooseAutoClass(*job);
      Add(*job);
      standing_[job->id] = Check(RowSetOf(line->owner), *job);
    }
  }
  std::set<JobId> waiting;
  for (auto it = state_.queue.queues().lower_bound({kAutoPriority, 0});
       it != state_.queue.queues().end() && it->first.priority == kAutoPriority;
       ++it) {
    for (const WaitingJob& job : it->second.InOrder()) {
      waiting.insert(job.id);
    }
  }
  for (const bool claims : {true, false}) {
    for (const JobId id : waiting) {
      const Job& job = state_.jobs.at(id);
      if (state_.claiming.contains(id) == claims) {
        ChooseAutoClass(job);
        if (claims) {
          Add(job);
        }
      }
    }
  }
}

// The highest class that a row names and that leaves enough nodes of what it guarantees.
void Quotas::ChooseAutoClass(const Job& job) {
  std::optional<int32_t> best;
  for (const size_t index : RowsOf(job)) {
    const std::optional<int32_t>& priority = rows_[index].row->priority;
    if (priority && IsForGroup(*rows_[index].row, job) && (!best || *priority > *best) &&
        FitsAs(RowsOf(job), job, *priority, true)) {
      best = priority;
    }
  }
  if (best) {
    auto_class_[job.id] = *best;
  }
}

bool Quotas::FitsAs(const RowIndexes& rows,
                    const Job& job,
                    int32_t priority,
                    bool guaranteed) const {
  const int64_t charge = ChargeOf(job);
  return std::ranges::all_of(rows, [&](size_t index) {
    const Row& row = rows_[index];
    if (!IsForGroup(*row.row, job) || (row.row->priority && row.row->priority != priority)) {
      return true;
    }
    if (guaranteed) {
      return !row.row->priority || UsedByOthers(row, job) + charge <= GuaranteeOf(*row.row);
    }
    return charge <= LimitOf(*row.row) - UsedByOthers(row, job);
  });
}

int32_t Quotas::ClassOf(const Job& job) const {
  return ClassOf(job.id, job.spec->priority, RunTimeAt(job, now_));
}

int32_t Quotas::ClassOf(const LiveJob& job) const {
  return ClassOf(job.id, job.priority, RunTimeAt(job, now_));
}

int32_t Quotas::ClassOf(JobId job, int32_t asked, Duration ran) const {
  int32_t priority = asked;
  if (asked == kAutoPriority && !policy_.quotas.empty()) {
    const auto chosen = auto_class_.find(job);
    priority = chosen == auto_class_.end() ? kLowPriority : chosen->second;
  }
  return Demote(priority, ran, policy_);
}

Standing Quotas::StandingOf(JobId job) const {
  const auto it = standing_.find(job);
  return it == standing_.end() ? Standing::kNoRow : it->second;
}

// Takes it to run beside all others that are counted.
Standing Quotas::Check(uint32_t row_set, const Job& job) const {
  if (row_sets_[row_set].empty()) {
    return Standing::kNoRow;
  }
  const int64_t charge = ChargeOf(job);
  bool counted = false;
  bool borrows = false;
  for (const size_t index : row_sets_[row_set]) {
    const Row& row = rows_[index];
    if (!Counts(row, job)) {
      continue;
    }
    const int64_t used = UsedByOthers(row, job) + charge;
    if (used > LimitOf(*row.row)) {
      return Standing::kOverLimit;
    }
    counted = true;
    borrows = borrows || used > GuaranteeOf(*row.row);
  }
  return borrows ? Standing::kBorrows : counted ? Standing::kWithin : Standing::kNoRow;
}

std::vector<Reason> Quotas::ReasonsFor(const Job& job) {
  std::vector<Reason> reasons;
  std::vector<QuotaShortage> shortages;
  const int64_t charge = ChargeOf(job);
  int64_t left = INT64_MAX;
  for (const size_t index : RowsOf(job)) {
    const Row& row = rows_[index];
    const int64_t used = UsedByOthers(row, job);
    if (!Counts(row, job) || charge <= LimitOf(*row.row) - used) {
      continue;
    }
    left = std::min(left, LimitOf(*row.row) - used);
    shortages.push_back({row.row->name,
                         row.row->group,
                         row.row->priority,
                         used,
                         LimitOf(*row.row),
                         charge,
                         std::nullopt,
                         0,
                         EndOf(*row.row)});
    reasons.push_back({.code = row.row->subject == QuotaRow::Subject::kProject
                                   ? ReasonCode::kQuotaProject
                                   : ReasonCode::kQuotaUser});
  }
  const std::optional<int32_t> open_priority = NearestClass(job);
  for (size_t i = 0; i < reasons.size(); ++i) {
    shortages[i].open_priority = open_priority;
    shortages[i].nodes_left = static_cast<uint32_t>(std::max<int64_t>(0, left) / kMilliNodes);
    reasons[i].quota = std::make_shared<const QuotaShortage>(std::move(shortages[i]));
  }
  return reasons;
}

std::vector<PlannedQuota> Quotas::RowsFor(const Job& job) {
  std::vector<PlannedQuota> rows;
  for (const size_t index : RowsOf(job)) {
    const Row& row = rows_[index];
    if (!Counts(row, job)) {
      continue;
    }
    rows.push_back({row.row->subject == QuotaRow::Subject::kUser,
                    row.row->name,
                    row.row->group,
                    row.row->priority,
                    GuaranteeOf(*row.row),
                    row.row->limit ? std::optional(LimitOf(*row.row)) : std::nullopt,
                    UsedByOthers(row, job),
                    ChargeOf(job),
                    EndOf(*row.row)});
  }
  return rows;
}

// The highest below its own, else the lowest above it.
std::optional<int32_t> Quotas::NearestClass(const Job& job) {
  std::optional<int32_t> above;
  if (IsAuto(job)) {
    return above;
  }
  for (const PriorityClass& each : kPriorityClasses) {  // falling
    if (each.value == kAutoPriority || each.value == job.spec->priority ||
        !FitsAs(RowsOf(job), job, each.value, false)) {
      continue;
    }
    if (each.value < job.spec->priority) {
      return each.value;
    }
    above = each.value;
  }
  return above;
}

void Quotas::Add(const Job& job) {
  if (!rows_.empty()) {
    Add(job, RowSetOf(job));
  }
}

void Quotas::Add(const Job& job, uint32_t row_set) {
  const auto [charged, fresh] = charged_.try_emplace(job.id);
  if (fresh) {
    charged->second = ChargeOf(job);
    Charge(job, row_set, charged->second);
  }
}

void Quotas::Remove(const Job& job) {
  if (const auto it = charged_.find(job.id); it != charged_.end()) {
    Charge(job, RowSetOf(job), -it->second);
    charged_.erase(it);
  }
}

void Quotas::Charge(const Job& job, uint32_t row_set, int64_t milli_nodes) {
  for (const size_t index : row_sets_[row_set]) {
    Row& row = rows_[index];
    if (Counts(row, job)) {
      row.all += milli_nodes;
      row.named += IsAuto(job) ? 0 : milli_nodes;
    }
  }
}

bool Quotas::Counts(const Row& row, const Job& job) const {
  if (!IsForGroup(*row.row, job)) {
    return false;
  }
  if (!row.row->priority) {
    return true;
  }
  if (!IsAuto(job)) {
    return row.row->priority == job.spec->priority;
  }
  const auto chosen = auto_class_.find(job.id);
  return chosen != auto_class_.end() && row.row->priority == chosen->second;
}

// In a row of a class `auto` jobs make room for those that name it: they go on in a lower one.
int64_t Quotas::UsedByOthers(const Row& row, const Job& job) const {
  const int64_t used = row.row->priority && !IsAuto(job) ? row.named : row.all;
  const auto own = charged_.find(job.id);
  return own != charged_.end() && Counts(row, job) ? used - own->second : used;
}

int64_t Quotas::ChargeOf(const Job& job) const {
  const int group = fabric_.FindGroup(job.spec->group);
  return group < 0 ? int64_t{job.spec->nodes} * kMilliNodes
                   : MilliNodesOf(job.spec, fabric_.groups[static_cast<size_t>(group)].largest);
}

uint32_t Quotas::RowSetOf(const Job& job) {
  return RowSetOf(state_.owners.At(job.spec->project, job.user));
}

uint32_t Quotas::RowSetOf(uint32_t owner) {
  if (owner >= row_set_of_.size()) {
    row_set_of_.resize(state_.owners.size());
    project_of_.resize(state_.owners.projects().size());
  }
  std::optional<uint32_t>& known = row_set_of_[owner];
  if (known) {
    return *known;
  }
  std::optional<uint32_t>& of_project = project_of_[state_.owners.ProjectNumber(owner)];
  if (!of_project) {
    of_project = NumberOf(RowsOfProject(state_.owners.ProjectNumber(owner)));
  }
  known = of_project;
  if (const auto own = user_rows_.find(state_.owners.UserNumber(owner)); own != user_rows_.end()) {
    RowIndexes rows = row_sets_[*of_project];
    rows.insert(rows.end(), own->second.begin(), own->second.end());
    known = NumberOf(std::move(rows));
  }
  return *known;
}

uint32_t Quotas::NumberOf(RowIndexes rows) {
  const auto same = std::ranges::find(row_sets_, rows);
  const auto number = static_cast<uint32_t>(same - row_sets_.begin());
  if (same == row_sets_.end()) {
    row_sets_.push_back(std::move(rows));
  }
  return number;
}

Quotas::RowIndexes Quotas::RowsOfProject(uint32_t project) const {
  std::set<std::string> path;
  std::string at = state_.owners.projects()[project];
  for (int depth = 0; depth < kProjectDepthMax && !at.empty(); ++depth) {
    path.insert(at);
    const auto known = policy_.projects.find(at);
    at = known == policy_.projects.end() ? "" : known->second.parent;
  }
  RowIndexes rows;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const QuotaRow& row = *rows_[i].row;
    if (row.subject == QuotaRow::Subject::kProject && path.contains(row.name)) {
      rows.push_back(i);
    }
  }
  return rows;
}

}  // namespace tide
