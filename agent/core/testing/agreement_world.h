#pragma once
// One order to suspend, in virtual time: the coordinator is core/agreement_run, the agents write
// their pages by core/page_orders, the ranks are testing/rank_model; the world between them delays
// and loses messages, lets each of them stand still, and kills ranks and the coordinator. Agents
// and ranks run into each other between single loads and stores.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "agent/core/agreement_run.h"
#include "agent/core/page_orders.h"
#include "agent/core/testing/rank_model.h"
#include "common/base/prng.h"

namespace tide::agent {

// Drawn from a seed. Times in ns; a chance is out of 1000.
struct TrialPlan {
  explicit TrialPlan(uint64_t seed);

  uint64_t seed = 0;
  size_t tasks = 1;
  size_t ranks_per_task = 1;
  bool lockstep = false;  // no rank finishes step k + 1 before all have finished k
  bool faults = false;
  bool late_ranks = false;  // some attach during the agreement
  int64_t step_ns = 0;      // about
  int64_t delay_ns = 0;     // of a message, at most
  int64_t stall_ns = 0;     // between two loads or stores, at most
  uint64_t loss = 0;        // of a message, each way
  bool hasty = false;       // no fault of seconds, but many ticks during each round
  uint64_t pauses = 0;      // of ranks, agents or the coordinator
  uint64_t cuts = 0;        // of an agent from the coordinator
  uint64_t deaths = 0;      // of ranks
  bool coordinator_dies = false;
  bool withdrawn = false;
  bool saves = false;       // a periodic save has begun before the notice
  int64_t deadline_ns = 0;  // of the order, from its notice
  int64_t first_step = 0;   // of a resumed run
};

struct TrialEnd {
  bool timed_out = false;  // it never came to rest
  size_t ranks = 0;
  size_t fired = 0;
  size_t living = 0;            // ranks that did not die
  size_t waiting = 0;           // at an armed step, when all was over
  std::optional<int64_t> step;  // at which the first rank fired
  size_t saved = 0;             // ranks that saved in passing
  std::optional<int64_t> save_step;
  bool two_save_steps = false;
  bool two_steps = false;  // another rank fired elsewhere
  bool lapsed = false;     // a rank or an agent gave up waiting for the coordinator
  Agreement::Phase phase = Agreement::Phase::kProbing;
  int64_t agreed_step = -1;
  int64_t notice_ns = 0;
  int64_t parked_ns = 0;        // when the last rank fired
  int64_t longest_step_ns = 0;  // from the notice on
};

class AgreementWorld {
 public:
  explicit AgreementWorld(const TrialPlan& plan, Broken broken = Broken::kNothing);
  [[nodiscard]] TrialEnd Run();

 private:
  enum class What : uint8_t {
    kAttach,       // of rank `who`
    kTick,         // its step is computed
    kAccess,       // its next load or store
    kDrain,        // a store of it becomes visible
    kPause,        // of rank, agent or coordinator `who`
    kCut,          // agent `who` from the coordinator
    kDie,          // rank `who`
    kRankGone,     // its agent knows
    kAgentAccess,  // the next load or store of agent `who`
    kRequest,      // round `number` reaches agent `who`
    kReply,        // and its answer the coordinator
    kGiveUp,       // the coordinator waits no longer for round `number`
    kHold,         // the coordinator holds its next round
    kScan,         // agent `who` looks for a silent coordinator
    kTakeOver,     // a new coordinator starts
    kSave,         // the coordinator begins with a periodic save
    kWithdraw,
  };
  struct Event {
    int64_t at = 0;
    uint64_t order = 0;
    What what = What::kTick;
    size_t who = 0;
    uint64_t number = 0;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  struct Rank {
    explicit Rank(Prng& prng, Broken broken) : model(prng, broken) {}
    RankModel model;
    int64_t done = 0;       // finished steps
    int64_t ticked_at = 0;  // end of the last tick, 0 = none
    int64_t paused_until = 0;
    uint64_t naps = 0;  // tells the nap under way from earlier ones
    int64_t wakes_at = 0;
    bool napping = false;
    bool dead = false;
    bool fired = false;
    int64_t pace = 1000;  // its steps take this many thousandths
  };
  struct Answer {
    uint64_t round = 0;  // its place
    AgreeReply reply;
  };
  struct Agent {
    PageOrders orders;
    std::deque<uint64_t> queue;  // rounds, by their place
    uint64_t held = 0;
    bool busy = false;
    bool scanning = false;  // a look at the clock, not a round
    PageStores stores;
    size_t done = 0;  // accesses, of all pages
    std::vector<RankView> views;
    int64_t paused_until = 0;
    int64_t cut_until = 0;
    uint32_t gone = 0;
  };

  void Push(int64_t delay, What what, size_t who = 0, uint64_t number = 0);
  [[nodiscard]] bool Chance(uint64_t of_1000) { return prng_.Below(1000) < of_1000; }
  [[nodiscard]] int64_t Up(int64_t bound) {
    return static_cast<int64_t>(prng_.Below(static_cast<uint64_t>(bound) + 1));
  }
  [[nodiscard]] int64_t Stall();
  [[nodiscard]] int64_t Delay();
  [[nodiscard]] int64_t Outage();
  [[nodiscard]] bool Lost(size_t agent);
  void DrainLater(size_t rank);
  [[nodiscard]] bool IsOver() const;
  [[nodiscard]] int64_t* PausedUntil(const Event& event);
  void Do(const Event& event);
  void PlanFaults();
  void Pause(size_t who);
  void TakeStock();
  [[nodiscard]] Instant Clock() const;

  // --- ranks ---
  void Train(size_t rank);
  void OnComputed(size_t rank);
  void Tick(size_t rank);
  void OnAccess(size_t rank, uint64_t nap);
  void OnDrain(size_t rank);
  void WakeRanks(size_t agent);
  void OnFired(size_t rank);
  void OnSaved(size_t rank);

  // --- agents ---
  void BeginNext(size_t agent);
  void OnScan(size_t agent);
  void OnAgentAccess(size_t agent);
  [[nodiscard]] bool AccessPage(size_t agent);  // false: all are done
  void StorePage(size_t rank, const PageStore& store);
  void EndRound(size_t agent);

  // --- coordinator ---
  void Lead(AgreeOrder order);
  void Hold();
  void SendRound();
  void OnReply(size_t task, const Answer& answer);
  void EndOfRound();

  const TrialPlan plan_;
  const Broken broken_;
  Prng prng_;
  int64_t now_ = 0;
  uint64_t pushed_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::deque<Rank> ranks_;
  std::deque<Agent> agents_;
  size_t computed_ = 0;   // ranks that wait for the others' part of this step
  size_t in_flight_ = 0;  // requests

  std::unique_ptr<AgreementRun> run_;
  bool suspending_ = false;
  int64_t coordinator_paused_until_ = 0;
  uint64_t holds_ = 0;             // tells the coordinator's next act from former ones
  std::optional<uint64_t> round_;  // being held, by its place
  int64_t sent_ = 0;
  std::vector<AgreeReply> replies_;
  std::vector<bool> replied_;
  // Everything that was ever sent: messages name it by its place.
  std::vector<AgreeRound> rounds_;
  std::vector<Answer> answers_;
  int64_t released_ns_ = 0;  // when the last step of a gang in lock step was finished
  TrialEnd end_;
};

}  // namespace tide::agent
