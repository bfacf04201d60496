#pragma once
// The specification that a job was submitted with. It never changes, so jobs that were submitted
// with the same share it: elements of arrays, and what people submit again.

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "common/spec/job_spec.h"

namespace tide {

class SharedSpec {
 public:
  SharedSpec();
  SharedSpec(JobSpec spec);  // NOLINT(google-explicit-constructor): a spec as it is

  [[nodiscard]] const JobSpec& operator*() const { return *spec_; }
  [[nodiscard]] const JobSpec* operator->() const { return spec_.get(); }
  operator const JobSpec&() const { return *spec_; }  // NOLINT(google-explicit-constructor)
  bool operator==(const SharedSpec& other) const {
    return spec_ == other.spec_ || *spec_ == *other.spec_;
  }
  bool operator==(const JobSpec& other) const { return *spec_ == other; }
  // Makes it another spec: a copy that was changed so. Those that share it keep theirs.
  template <typename Change>
  void Edit(const Change& change) {
    JobSpec spec = *spec_;
    change(spec);
    *this = SharedSpec(std::move(spec));
  }
  // Reports whether no other object has it.
  [[nodiscard]] bool IsLast() const { return spec_.use_count() == 1; }

 private:
  std::shared_ptr<const JobSpec> spec_;
};

// Returns equal numbers for equal specs, on every machine.
[[nodiscard]] uint64_t HashOf(const JobSpec& spec);

// The specs that jobs have.
class SpecPool {
 public:
  // Returns the spec of it that is equal; one that is new is kept.
  //   hash: HashOf it.   Cost: O(log specs).
  [[nodiscard]] SharedSpec Intern(SharedSpec spec, uint64_t hash);
  [[nodiscard]] SharedSpec Intern(const SharedSpec& spec) { return Intern(spec, HashOf(*spec)); }
  [[nodiscard]] size_t size() const { return specs_.size(); }

 private:
  void DropUnused();

  std::multimap<uint64_t, SharedSpec> specs_;
  size_t drop_at_ = 1000;  // as many are there
};

}  // namespace tide
