// The public face of CheckpointCore.

#include "sdk/cpp/checkpoint_core.h"
#include "sdk/cpp/text.h"

namespace tide::cpp {

Checkpoint::Checkpoint(Run& run, CheckpointOptions options)
    : core_(std::make_unique<CheckpointCore>(*run.core_, options)) {}

Checkpoint::~Checkpoint() = default;

void Checkpoint::replicated(const std::string& name, Tensor tensor) {
  OrThrow(CheckName(name));
  OrThrow(CheckTensor(name, tensor));
  OrThrow(CheckFree(name, core_->objects().replicated));
  core_->objects().replicated.emplace(name, std::move(tensor));
}

void Checkpoint::local(const std::string& name, Tensor tensor) {
  OrThrow(CheckName(name));
  OrThrow(CheckTensor(name, tensor));
  OrThrow(CheckFree(name, core_->objects().local));
  core_->objects().local.emplace(name, std::move(tensor));
}

void Checkpoint::global(const std::string& name, Value value) {
  OrThrow(CheckName(name));
  OrThrow(CheckFree(name, core_->objects().global));
  core_->objects().global.emplace(name, value);
}

int64_t Checkpoint::resume(bool allow_restart, std::optional<int64_t> step) {
  return core_->Resume(allow_restart, step);
}

bool Checkpoint::tick(int64_t step, double loss, bool safe) {
  return core_->Tick(step, loss, safe);
}

void Checkpoint::prepare() {
  core_->Prepare();
}

std::string Checkpoint::save(int64_t step, bool wait) {
  return core_->Save(step, wait);
}

bool Checkpoint::flush(std::optional<std::chrono::duration<double>> timeout) {
  return core_->Flush(timeout ? std::optional(NanosOf(*timeout)) : std::nullopt);
}

int64_t Checkpoint::saves() const {
  return core_->saves;
}

int64_t Checkpoint::failed_saves() const {
  return core_->failed_saves;
}

int64_t Checkpoint::skipped_saves() const {
  return core_->skipped_saves;
}

}  // namespace tide::cpp
