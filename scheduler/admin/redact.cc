#include "scheduler/admin/redact.h"

#include <algorithm>

#include "scheduler/store/codec.h"
#include "scheduler/store/summed_rows.h"

namespace tide::admin {
namespace {

std::string WithoutSecrets(const std::string& data, bool keep_commands) {
  Result<Job> job = DecodeJob(data);
  if (!job) {
    // Nobody knows what is in it; that it cannot be read is what the report is about.
    return std::string(kLeftOut) + ": " + job.error().message;
  }
  job->spec.Edit([&](JobSpec& spec) {
    for (auto& [name, value] : spec.env) {
      value = kLeftOut;
    }
    if (!keep_commands && !spec.command.empty()) {
      spec.command = {std::string(kLeftOut)};
    }
  });
  job->idempotency_key.clear();
  return EncodeJobRow(*job);
}

}  // namespace

void LeaveSecretsOut(std::string_view table,
                     const std::vector<std::string>& columns,
                     bool keep_commands,
                     SqlRow& row) {
  if (table != "jobs") {
    return;
  }
  const auto column = std::ranges::find(columns, "data");
  if (column == columns.end()) {
    return;
  }
  const bool summed = columns.back() == "sum";
  const StoredTable& jobs = Tables().jobs;
  const bool sound = summed && CheckRow(jobs, ProvedPart(jobs, columns, row));
  SqlValue& data = row.at(static_cast<size_t>(column - columns.begin()));
  if (const auto* text = std::get_if<std::string>(&data)) {
    data = WithoutSecrets(*text, keep_commands);
  }
  if (sound) {  // the sum of a damaged row stays wrong
    row.back() = SumOf(jobs, ProvedPart(jobs, columns, row));
  }
}

}  // namespace tide::admin
