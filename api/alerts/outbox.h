#pragma once
// Notices of alerts that still have to reach the receiver: each beginning and each end once, over
// restarts too. Pure but for the text that Save and Load exchange; one thread at a time.
//
// Invariants:
//   O1 an alert is told again only when it ended, or began anew, in between.
//   O2 the end is told of what was told to have begun, and of nothing else.
//   O3 what was not taken is due again, after a wait that doubles up to kWaitMax; what follows it
//      waits, too.
//   O4 what was refused is set aside: the rest does not wait for it. It is due again after a wait
//      that doubles from kAsideMin up to kAsideMax, for as long as the alert lasts; the end of one
//      is given up when it was refused kEndTries times, so that what is kept does not grow.

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "api/alerts/alert.h"
#include "common/base/result.h"
#include "common/base/time.h"

namespace tide::api {

struct Notice {
  std::string key;
  Alert alert;
  bool resolved = false;
  // Returns what tells this notice from every other one, so that a receiver may drop a repetition.
  [[nodiscard]] std::string Id() const;
};

class Outbox {
 public:
  static constexpr Duration kWaitMin = Duration::Seconds(1);
  static constexpr Duration kWaitMax = Duration::Seconds(300);

  static constexpr Duration kAsideMin = Duration::Minutes(5);
  static constexpr Duration kAsideMax = Duration::Minutes(60);
  static constexpr int kEndTries = 8;

  // Takes the alerts as they are now.
  void Take(Alerts firing);
  // Returns the next notice that is due, if any. Beginnings come before ends.
  //   now: of any clock that is never set back, the same for Failed and Refused.
  [[nodiscard]] std::optional<Notice> Due(Instant now) const;
  // Notes that the receiver took it.
  void Taken(const Notice& notice);
  // Notes that the receiver did not: whatever is next has to wait.
  void Failed(Instant now);
  // Notes that the receiver does not want this one.
  void Refused(const Notice& notice, Instant now);
  // Returns the alerts that the receiver knows of.
  [[nodiscard]] const Alerts& told() const { return told_; }

  // Returns what has to survive a restart.
  [[nodiscard]] std::string Save() const;
  // Errors: kCorrupt for anything that Save does not write.
  [[nodiscard]] static Result<Outbox> Load(std::string_view saved);

 private:
  struct Aside {
    Instant not_before;
    Duration wait;
    int tries = 0;
  };
  // Calls `visit` with each notice that was not taken, until it returns true.
  template <typename Visit>
  void VisitUntold(const Visit& visit) const;
  // Notes that the receiver answers: nothing has to wait for it.
  void Answers();

  Alerts firing_;
  Alerts told_;
  std::map<std::string, Aside> aside_;  // by Notice::Id
  Instant not_before_;
  Duration wait_ = kWaitMin;
};

}  // namespace tide::api
