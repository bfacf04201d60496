#include "agent/fabric/tree_run.h"

#include <algorithm>

namespace tide::allreduce {
namespace {

// Elements of a block: what is received fits into the nearest caches until it is added.
constexpr uint64_t kBlock = 64 * 1024;

uint64_t HalfOf(uint64_t length) {
  return (length + 1) / 2;
}

Error Halted() {
  return {ErrorCode::kUnavailable, "given up, as this node failed elsewhere"};
}

}  // namespace

TreeRun::TreeRun(
    uint32_t tree, std::vector<Link*> links, Region& region, Halt& halt, int64_t timeout_ns)
    : tree_(tree),
      region_(region),
      halt_(halt),
      timeout_ns_(timeout_ns),
      blocks_(static_cast<uint32_t>((HalfOf(region.work().chunk) + kBlock - 1) / kBlock)) {
  for (Link* link : links) {
    if (link->edge().to_parent) {
      parent_ = link;
    } else {
      children_.push_back(link);
    }
  }
  added_ = std::make_unique<Sequence[]>(children_.size());
}

Status TreeRun::ForEachBlock(uint32_t iteration, const Stage& stage) const {
  const Work& work = region_.work();
  const std::span<float> sums = region_.buffer(0);
  for (uint32_t chunk = 0; chunk < work.chunks(); ++chunk) {
    const uint64_t begin = chunk * work.chunk;
    const uint64_t length = std::min(work.chunk, work.elements - begin);
    const uint64_t half = HalfOf(length);
    const std::span<float> piece =
        tree_ == 0 ? sums.subspan(begin, half) : sums.subspan(begin + half, length - half);
    for (uint32_t i = 0; i < blocks_; ++i) {
      const uint64_t from = std::min<uint64_t>(piece.size(), i * kBlock);
      Block block;
      block.name = {iteration, chunk, tree_, i};
      block.chunk = iteration * work.chunks() + chunk + 1;
      block.number = (block.chunk - 1) * blocks_ + i + 1;
      block.ends_chunk = i + 1 == blocks_;
      block.elements = piece.subspan(from, std::min<uint64_t>(kBlock, piece.size() - from));
      TIDE_TRY(stage(block));
    }
  }
  return {};
}

Status TreeRun::Await(const Sequence& sequence, uint32_t value) {
  return sequence.WaitFor(value, halt_.stop(), kForEver) ? Status() : std::unexpected(Halted());
}

Status TreeRun::AwaitSum(const Block& block, size_t children) {
  if (children > 0) {
    return Await(added_[children - 1], block.number);
  }
  // Ranks wait for the network, too: their clock begins when it is their turn.
  for (const Sequence& complete : region_.control().complete) {
    TIDE_TRY(Await(complete, block.chunk - kWindow));
  }
  for (uint32_t rank = 0; rank < region_.work().ranks; ++rank) {
    if (!region_.control().reduced[rank].WaitFor(block.chunk, halt_.stop(), timeout_ns_)) {
      return Fail(ErrorCode::kDeadlineExceeded,
                  "rank " + std::to_string(rank) + " of node " +
                      std::to_string(region_.work().node) + " does not sum its slice");
    }
  }
  return {};
}

void TreeRun::Completed(const Block& block) {
  if (block.ends_chunk) {
    region_.control().complete[tree_].Publish(block.chunk);
  }
}

Status TreeRun::AddFrom(const Block& block, size_t child, std::span<float> staging) {
  const size_t count = block.elements.size();
  if (count > 0) {
    TIDE_TRY(children_[child]->Receive(block.name, staging.first(count)));
  }
  TIDE_TRY(AwaitSum(block, child));
  const float* const received = staging.data();
  AddAll(block.elements.data(), {&received, 1}, count);
  added_[child].Publish(block.number);
  if (parent_ == nullptr && child + 1 == children_.size()) {
    Completed(block);
  }
  return {};
}

Status TreeRun::Misbehave(const Block& block) {
  if (plant_.kind == Plant::Kind::kNone || block.chunk != plant_.chunk) {
    return {};
  }
  if (plant_.kind == Plant::Kind::kHang) {
    const Sequence never;  // long enough for the others to find out
    static_cast<void>(never.WaitFor(1, halt_.stop(), 4 * timeout_ns_));
  }
  return Fail(ErrorCode::kUnavailable, "planted: this node ends");
}

Status TreeRun::SendUp(const Block& block) {
  TIDE_TRY(AwaitSum(block, children_.size()));
  TIDE_TRY(Misbehave(block));
  if (!block.elements.empty()) {
    TIDE_TRY(parent_->Send(block.name, block.elements));
  }
  sent_up_.Publish(block.number);
  return {};
}

Status TreeRun::TakeDown(const Block& block) {
  // The result replaces the sum; only a parent that breaks the rules answers before it has that.
  TIDE_TRY(Await(sent_up_, block.number));
  if (!block.elements.empty()) {
    TIDE_TRY(parent_->Receive(block.name, block.elements));
  }
  down_.Publish(block.number);
  Completed(block);
  return {};
}

Status TreeRun::SendDown(const Block& block, size_t child) {
  TIDE_TRY(Await(parent_ == nullptr ? added_[children_.size() - 1] : down_, block.number));
  TIDE_TRY(Misbehave(block));
  return block.elements.empty() ? Status() : children_[child]->Send(block.name, block.elements);
}

void TreeRun::StartStage(uint32_t iteration, Stage stage, std::vector<std::jthread>& threads) {
  threads.emplace_back([this, iteration, stage = std::move(stage)] {
    if (const Status done = ForEachBlock(iteration, stage); !done) {
      halt_.Raise(done.error());
    }
  });
}

void TreeRun::Start(uint32_t iteration, std::vector<std::jthread>& threads) {
  for (size_t child = 0; child < children_.size(); ++child) {
    auto staging = std::make_shared<std::vector<float>>(kBlock);
    StartStage(
        iteration,
        [this, child, staging](const Block& block) { return AddFrom(block, child, *staging); },
        threads);
    StartStage(
        iteration, [this, child](const Block& block) { return SendDown(block, child); }, threads);
  }
  if (parent_ != nullptr) {
    StartStage(iteration, [this](const Block& block) { return SendUp(block); }, threads);
    StartStage(iteration, [this](const Block& block) { return TakeDown(block); }, threads);
  }
  if (parent_ == nullptr && children_.empty()) {  // alone: the local sum is the result
    const auto alone = [this](const Block& block) -> Status {
      TIDE_TRY(AwaitSum(block, 0));
      Completed(block);
      return {};
    };
    StartStage(iteration, alone, threads);
  }
}

Status TreeRun::Barrier(uint32_t iteration) {
  const FrameName name = {iteration, kBarrier, tree_, 0};
  for (Link* child : children_) {
    TIDE_TRY(child->Receive(name, {}));
  }
  if (parent_ != nullptr) {
    TIDE_TRY(parent_->Send(name, {}));
    TIDE_TRY(parent_->Receive(name, {}));
  }
  for (Link* child : children_) {
    TIDE_TRY(child->Send(name, {}));
  }
  return {};
}

}  // namespace tide::allreduce
