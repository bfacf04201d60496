#pragma once
// How jobs and nodes are put into words: signs, progress, times, notes.

#include <string>
#include <string_view>

#include "cli/failure.h"
#include "cli/json_view.h"
#include "cli/table.h"

namespace tide::cli {

// The sign and tone of a word of state or outcome: queued, running, failed, drained, pass …
[[nodiscard]] std::string_view StateSign(std::string_view word);
[[nodiscard]] Tone StateTone(std::string_view word);
[[nodiscard]] Cell StateCell(std::string_view word, const Style& style);

// The outcome once a job is finished, else its state.
[[nodiscard]] std::string JobWord(const json& job);
[[nodiscard]] Duration RunTime(const json& job, Instant now);
// Time since the submission that it did not run.
[[nodiscard]] Duration WaitTime(const json& job, Instant now);
// "step 18.4k/40k", or "".
[[nodiscard]] std::string Progress(const json& job);
// The one thing to know about it now: why it waits, what its training shows that is wrong, how old
// its checkpoint is, how it ended.
[[nodiscard]] std::string Note(const json& job, Instant now);

// When a job that waits will start, by the API's estimate: "starts ~14:35 (14:10–16:00Z)". Times of
// other days than today have theirs. "" without an estimate.
[[nodiscard]] std::string StartNote(const json& estimate, Instant now);
// The same as a sentence, with what it rests on, or why there is none; "" when not known yet.
[[nodiscard]] std::string StartSentence(const json& estimate, Instant now);

// Whether the server's object stands for elements of an array, not for a job.
[[nodiscard]] bool IsElements(const json& object);
// "60 queued, 3 running, 37 succeeded": what is going on first.
[[nodiscard]] std::string ElementCounts(const json& elements);
// The state that most of all says how the array is doing.
[[nodiscard]] std::string ElementWord(const json& elements);
// "j-12[] sweep  60 queued, 37 succeeded\n".
[[nodiscard]] std::string ElementsLine(const json& elements);

// "10.0.0.7:7072 is obeyed, 10.0.0.9:7072 (from ipv4:10.0.0.9:51234) is refused": there are two
// agents of the node's name. "" where there is one.
[[nodiscard]] std::string RefusedAgent(const json& node);

// "jobs leave in 25m", "maintenance in 2h00m, for 4h00m", "given back in 3h00m": what is to come of
// a drain. "" where nothing is.
[[nodiscard]] std::string PlanOf(const json& node, Instant now);

// "2026-01-31 12:00:05Z", "" when not set.
[[nodiscard]] std::string ShortTime(Instant at);

// Returns the refusal of what only those may see who see the inside of the job.
[[nodiscard]] Failure InsideIsHidden(const json& job);

}  // namespace tide::cli
