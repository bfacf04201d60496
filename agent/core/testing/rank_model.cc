#include "agent/core/testing/rank_model.h"

#include <algorithm>
#include <utility>

namespace tide::agent {

void ModelPage::Do(const PageStore& store) {
  ++changes;
  switch (store.word) {
    case PageWord::kSeq:
      seq += static_cast<uint32_t>(store.value);
      return;
    case PageWord::kOrder:
      order = static_cast<uint32_t>(store.value);
      return;
    case PageWord::kAtStep:
      at_step = store.value;
      return;
    case PageWord::kState:
      state = static_cast<uint32_t>(store.value);
      return;
    case PageWord::kDeadline:
      return;
  }
}

void RankModel::Attach() {
  Store(Word::kStep, -1);
  Fence();
  Store(Word::kPhase, static_cast<int64_t>(RankPhase::kTraining));
}

void RankModel::BeginTick(int64_t step, int64_t step_ns) {
  step_ = step;
  Store(Word::kStepNs, step_ns);
  at_ = At::kStep;
  waiting_for_ = -1;
  refusing_ = false;
}

// Stores to different words may become visible in another order than they were done, as on ARM.
bool RankModel::Drain() {
  if (buffer_.empty()) {
    return false;
  }
  const size_t drawn = prng_.Below(buffer_.size());
  const auto first = std::ranges::find_if(
      buffer_, [&](const Pending& each) { return each.word == buffer_[drawn].word; });
  const int64_t value = first->value;
  switch (first->word) {
    case Word::kStep:
      page.step = value;
      break;
    case Word::kStepNs:
      page.step_ns = value;
      break;
    case Word::kPhase:
      page.phase = static_cast<uint32_t>(value);
      break;
    case Word::kRefused:
      page.refused_seq = static_cast<uint32_t>(value);
      break;
    case Word::kAck:
      page.ack_seq = static_cast<uint32_t>(value);
      break;
  }
  buffer_.erase(first);
  return true;
}

void RankModel::Fence() {
  while (Drain()) {
  }
}

RankModel::After RankModel::Access(int64_t now_ns) {
  switch (at_) {
    case At::kStep:
      Store(Word::kStep, step_);
      at_ = At::kFence;
      return After::kAccess;
    case At::kFence:
      if (broken_ != Broken::kTickFence) {
        Fence();
      }
      at_ = At::kLook;
      return After::kAccess;
    case At::kLook:
      return page.order == 0 ? After::kGo : BeginRead();
    case At::kReadOrder:
      if (!ReadOrder()) {
        return After::kAccess;
      }
      return refusing_ ? EndRefusal() : Decide(now_ns);
    case At::kRefuse:
      Fence();
      refusing_ = true;
      return BeginRead();
  }
  return After::kGo;
}

RankModel::After RankModel::BeginRead() {
  at_ = At::kReadOrder;
  read_ = 0;
  return After::kAccess;
}

// seq, fence, the fields in any order, fence, seq again.
bool RankModel::ReadOrder() {
  if (read_ == 0) {
    changes_read_ = page.changes;
    order_.seq = page.seq;
    for (size_t i = fields_.size(); i > 1; --i) {
      std::swap(fields_[i - 1], fields_[prng_.Below(i)]);
    }
    if (broken_ != Broken::kTickFence) {
      Fence();
    }
    ++read_;
    return false;
  }
  if (read_ <= fields_.size()) {
    switch (fields_[read_ - 1]) {
      case 0:
        order_.order = page.order;
        break;
      case 1:
        order_.at_step = page.at_step;
        break;
      default:
        order_.state = page.state;
        break;
    }
    ++read_;
    return false;
  }
  const bool whole = page.seq == order_.seq;
  read_ = 0;
  return whole;
}

RankModel::Verdict RankModel::Judge(const Order& order, uint32_t refused_seq) const {
  if (order.order == static_cast<uint32_t>(PageOrder::kNone)) {
    return Verdict::kGo;
  }
  const bool refused = order.seq == refused_seq && broken_ != Broken::kRefusal;
  if (order.seq == ack_seq_ || refused || step_ < order.at_step) {
    return Verdict::kGo;
  }
  if (order.state == static_cast<uint32_t>(PageState::kCommitted)) {
    return Verdict::kFire;
  }
  return order.state == static_cast<uint32_t>(PageState::kArmed) ? Verdict::kWait : Verdict::kGo;
}

RankModel::After RankModel::Decide(int64_t now_ns) {
  const Verdict verdict = Judge(order_, refused_seq_);
  if (verdict != Verdict::kWait) {
    return verdict == Verdict::kFire ? Fire() : End(After::kGo);
  }
  if (waiting_for_ != order_.seq) {
    waiting_for_ = order_.seq;
    give_up_ns_ = now_ns + kPatienceNs;
    Store(Word::kPhase, static_cast<int64_t>(RankPhase::kWaiting));
  }
  if (now_ns < give_up_ns_) {
    BeginRead();  // after the nap
    return After::kNap;
  }
  before_ = refused_seq_;
  refused_seq_ = order_.seq;
  given_up_ = order_;
  ++refusals_;
  Store(Word::kRefused, order_.seq);
  at_ = At::kRefuse;
  return After::kAccess;
}

RankModel::After RankModel::EndRefusal() {
  if (order_.seq == given_up_.seq && Judge(order_, before_) == Verdict::kFire) {
    refused_seq_ = before_;
    Store(Word::kRefused, before_);
    return Fire();
  }
  return End(After::kGo);
}

// As Checkpoint.tick: a save is acknowledged when it is done, here at once.
RankModel::After RankModel::Fire() {
  if (order_.order != static_cast<uint32_t>(PageOrder::kSave)) {
    return End(After::kFired);
  }
  ack_seq_ = order_.seq;
  Store(Word::kAck, ack_seq_);
  return End(After::kSaved);
}

RankModel::After RankModel::End(After after) {
  if (waiting_for_ >= 0) {
    Store(Word::kPhase, static_cast<int64_t>(RankPhase::kTraining));
    waiting_for_ = -1;
  }
  return after;
}

}  // namespace tide::agent
