#include "scheduler/server/people/job_tokens.h"

#include <utility>

#include "common/people/token_text.h"

namespace tide {

JobTokens::JobTokens(SealingKey key, std::string cluster_id)
    : key_(std::move(key)), cluster_id_(std::move(cluster_id)) {}

std::string JobTokens::SecretOf(const SealingKey& key, JobId job, Epoch epoch) const {
  return key.Derive("tide job token, form 1: " + cluster_id_ + " " + std::to_string(job.value()) +
                    " " + std::to_string(epoch.value()));
}

std::string JobTokens::TextOf(JobId job, Epoch epoch) const {
  return key_ ? MakeJobTokenText(job.value(), SecretOf(*key_, job, epoch)) : "";
}

std::string JobTokens::DigestOf(JobId job, Epoch epoch) const {
  return key_ ? SecretDigest(SecretOf(*key_, job, epoch)) : "";
}

}  // namespace tide
