#pragma once
// Tide for training programs in C++20, with nothing but the standard library:
//
//   tide::Run& run = tide::attach();
//   tide::Checkpoint ck(run, {.every = 300});
//   ck.replicated("model.w", tide::Tensor::Of(w.data(), {64, 2}));
//   for (int64_t step = ck.resume(); step < total;) {
//     ...train...; ++step;
//     if (ck.tick(step, loss)) run.exit();   // saved and acknowledged: leave
//   }
//   ck.save(total); run.done();
//
// Everything throws tide::Error where a person has to act. What the names mean: sdk/cpp/api.h.

#include "sdk/cpp/api.h"

// The names live in tide::cpp, so that programs of Tide itself may link this next to tide::Error of
// common/base.
namespace tide {
using cpp::attach;
using cpp::Checkpoint;
using cpp::CheckpointOptions;
using cpp::Dtype;
using cpp::Error;
using cpp::Evaluating;
using cpp::kExitSuspended;
using cpp::Notice;
using cpp::Order;
using cpp::Run;
using cpp::Tensor;
using cpp::Value;
}  // namespace tide
