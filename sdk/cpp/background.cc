#include "sdk/cpp/background.h"

#include <algorithm>
#include <utility>

#include "common/base/time.h"
#include "sdk/cpp/store.h"
#include "sdk/cpp/text.h"

namespace tide::cpp {
namespace {

// The saver knows how a save ended this long after rank 0's grace.
constexpr int64_t kAnswerNs = 5'000'000'000;

int64_t LeftUntil(int64_t deadline_ns) {
  return std::max<int64_t>(0, deadline_ns - MonotonicNanos());
}

}  // namespace

Background::Background(std::optional<std::string> program, std::string lock, Sink sink)
    : program_(std::move(program)), lock_(std::move(lock)), sink_(std::move(sink)) {}

bool Background::Start() {
  if (link_ == nullptr && program_ && !has_tried_) {
    has_tried_ = true;
    Result<std::unique_ptr<SaverLink>> started = SaverLink::Start(*program_, lock_);
    if (started) {
      link_ = std::move(*started);
    } else {
      Warn(started.error().message + "; checkpoints are written while training waits");
    }
  }
  return link_ != nullptr;
}

void Background::Prepare(int64_t rank, int64_t world, const Objects& objects, bool wait) {
  if (!Start()) {
    return;
  }
  const Layout layout = LayOut(objects, rank, world);
  sdk::Ticket described;
  described.rank = rank;
  described.world = world;
  DescribePart(objects, layout, described);
  link_->Prepare(SlotBytes(layout, sdk::FormatTicket(described).size()), wait);
}

// A saver that is gone is found by the next save.
void Background::Introduce(const sdk::Ticket& ticket) {
  if (link_ != nullptr) {
    static_cast<void>(link_->Introduce(ticket));
  }
}

void Background::Leave() {
  if (link_ != nullptr) {
    static_cast<void>(link_->Leave());
  }
}

Result<Handed> Background::HandOver(const sdk::Ticket& ticket,
                                    const Objects& objects,
                                    bool wait,
                                    int64_t begun_ns) {
  if (!Start()) {
    return Handed::kNot;
  }
  Result<Handed> handed = TryHandOver(ticket, objects, wait, begun_ns);
  if (link_->is_gone()) {
    Lose(handed ? "the saver of this rank has ended" : handed.error().message, &ticket);
    return Handed::kNot;
  }
  return handed;
}

Result<Handed> Background::TryHandOver(const sdk::Ticket& ticket,
                                       const Objects& objects,
                                       bool wait,
                                       int64_t begun_ns) {
  TIDE_ASSIGN(const SaverLink::Staging staged, Stage(ticket, objects, wait, begun_ns));
  if (!staged.number && !staged.is_free) {
    TIDE_TRY(link_->Skip(ticket));
    return Handed::kSkipped;
  }
  if (!staged.number) {
    return Handed::kNot;
  }
  if (wait) {
    TIDE_TRY(Await(*staged.number, ticket));
  }
  return Handed::kOver;
}

void Background::Look(int64_t timeout_ns) {
  const Result<std::vector<SaveAnswer>> answers = link_->Poll(timeout_ns);
  if (answers) {
    Tell(*answers);
  } else {
    Lose(answers.error().message, nullptr);
  }
}

bool Background::Flush(int64_t deadline_ns) {
  while (busy() && MonotonicNanos() < deadline_ns) {
    Look(LeftUntil(deadline_ns));
  }
  return !busy();
}

Result<SaverLink::Staging> Background::Stage(sdk::Ticket ticket,
                                             const Objects& objects,
                                             bool wait,
                                             int64_t begun_ns) {
  const Layout layout = LayOut(objects, ticket.rank, ticket.world);
  ticket.file = FreeName(ticket.directory, ticket.rank);
  DescribePart(objects, layout, ticket);
  TIDE_ASSIGN(SaverLink::Staging staged, link_->Stage(ticket, layout, begun_ns));
  if (wait && !staged.number && !staged.is_free) {
    // Ranks that were told of a suspension before an earlier save's step leave that save out: its
    // parts never come.
    TIDE_TRY(link_->Hurry(MonotonicNanos() + LeftUntil(ticket.deadline_ns) / 4));
  }
  while (wait && !staged.number && !staged.is_free) {
    if (LeftUntil(ticket.deadline_ns) == 0) {
      return Fail(ErrorCode::kDeadlineExceeded,
                  ticket.directory +
                      ": earlier saves are still being written; the file system is slow or hangs");
    }
    TIDE_ASSIGN(const std::vector<SaveAnswer> answers, link_->Poll(LeftUntil(ticket.deadline_ns)));
    Tell(answers);
    TIDE_ASSIGN(staged, link_->Stage(ticket, layout, begun_ns));
  }
  return staged;
}

Status Background::Await(uint64_t number, const sdk::Ticket& ticket) {
  TIDE_ASSIGN(std::optional<SaveAnswer> answer, AnswerFor(number, ticket.deadline_ns));
  // At its end the saver settles it with the other ranks; only one that hangs at its own disk does
  // not.
  if (!answer && !link_->CallOff(number)) {
    TIDE_ASSIGN(answer, AnswerFor(number, MonotonicNanos() + kDecidedGraceNs + kAnswerNs));
  }
  if (!answer) {
    return Fail(ErrorCode::kDeadlineExceeded,
                ticket.directory + ": not written in time; the file system is slow or hangs");
  }
  if (answer->error) {
    return std::unexpected(*answer->error);
  }
  sink_.committed(*answer);
  return {};
}

Result<std::optional<SaveAnswer>> Background::AnswerFor(uint64_t number, int64_t deadline_ns) {
  std::optional<SaveAnswer> mine;
  while (true) {
    TIDE_ASSIGN(std::vector<SaveAnswer> answers, link_->Poll(LeftUntil(deadline_ns)));
    const auto found = std::find_if(answers.begin(), answers.end(), [&](const SaveAnswer& answer) {
      return answer.save.number == number;
    });
    if (found != answers.end()) {
      mine = std::move(*found);
      answers.erase(found);
    }
    Tell(answers);
    if (mine || !link_->IsStaged(number) || LeftUntil(deadline_ns) == 0) {
      return mine;
    }
  }
}

void Background::Tell(const std::vector<SaveAnswer>& answers) {
  for (const SaveAnswer& answer : answers) {
    if (answer.error) {
      sink_.failed(answer.save.ticket, *answer.error);
    } else {
      sink_.committed(answer);
    }
  }
}

// Gives up what the saver had, except `again`, which the caller writes. The next save starts
// another saver.
void Background::Lose(const std::string& why, const sdk::Ticket* again) {
  const std::vector<StagedSave> lost = link_->Abandoned();
  link_.reset();
  has_tried_ = false;
  Warn(why);
  for (const StagedSave& save : lost) {
    if (again == nullptr || save.ticket.directory != again->directory) {
      sink_.lost(save.ticket, {ErrorCode::kUnavailable, why});
    }
  }
}

}  // namespace tide::cpp
