#include "proto/wire/ranks.h"

#include <algorithm>

namespace tide::wire {
namespace {

constexpr uint64_t kMsMax = 1ULL << 40U;  // 35 years: it stays a number

Duration Span(uint64_t ms) {
  return Duration::Millis(static_cast<int64_t>(std::min(ms, kMsMax)));
}

Duration MicrosSpan(uint64_t us) {
  constexpr uint64_t kUsMax = 1ULL << 50U;
  return Duration::Nanos(static_cast<int64_t>(std::min(us, kUsMax)) * 1000);
}

// Keeps what may be an address: people see some of them.
std::vector<std::string> AddressesOf(const google::protobuf::RepeatedPtrField<std::string>& words) {
  constexpr size_t kAddressMax = 45;
  constexpr size_t kAddressesMax = 8;
  std::vector<std::string> addresses;
  for (const std::string& word : words) {
    if (addresses.size() < kAddressesMax && word.size() <= kAddressMax &&
        word.find_first_not_of("0123456789abcdef.:") == std::string::npos) {
      addresses.push_back(word);
    }
  }
  return addresses;
}

}  // namespace

std::vector<health::RankTick> FromProto(const tide::v1::RankTicks& message) {
  const int count = message.steps_size();
  if (count > kRanksOfTaskMax || message.ages_ms_size() != count ||
      message.phases_size() != count || message.step_ms_size() != count ||
      message.states().size() != static_cast<size_t>(count)) {
    return {};
  }
  constexpr size_t kPlaceMax = 250;
  const bool has_places = message.places_size() == count;
  std::vector<health::RankTick> ranks;
  for (int i = 0; i < count; ++i) {
    const char state = message.states()[static_cast<size_t>(i)];
    const bool is_letter = (state >= 'A' && state <= 'Z') || (state >= 'a' && state <= 'z');
    ranks.push_back({.rank = static_cast<uint32_t>(i),
                     .step = message.steps(i),
                     .age = Span(message.ages_ms(i)),
                     .phase = message.phases(i),
                     .step_time = Span(message.step_ms(i)),
                     .state = is_letter ? state : '\0',
                     .place = has_places ? message.places(i).substr(0, kPlaceMax) : ""});
  }
  if (message.pace_us_size() == count && message.compute_us_size() == count) {
    for (int i = 0; i < count; ++i) {
      ranks[static_cast<size_t>(i)].pace = MicrosSpan(message.pace_us(i));
      ranks[static_cast<size_t>(i)].compute = MicrosSpan(message.compute_us(i));
    }
  }
  for (const tide::v1::RankLinks& links : message.links()) {
    if (links.rank() < ranks.size()) {
      ranks[links.rank()].addresses = AddressesOf(links.own());
      ranks[links.rank()].unanswered = AddressesOf(links.unanswered());
    }
  }
  return ranks;
}

tide::v1::RankTicks ToProto(const std::vector<health::RankTick>& ranks, Duration older) {
  tide::v1::RankTicks message;
  for (const health::RankTick& rank : ranks) {
    const bool ticked = rank.age.nanos() > 0;
    message.add_steps(rank.step);
    message.add_ages_ms(ticked ? static_cast<uint64_t>((rank.age + older).millis()) : 0);
    message.add_phases(rank.phase);
    message.add_step_ms(static_cast<uint64_t>(rank.step_time.millis()));
    message.add_pace_us(static_cast<uint64_t>(rank.pace.nanos() / 1000));
    message.add_compute_us(static_cast<uint64_t>(rank.compute.nanos() / 1000));
    message.mutable_states()->push_back(rank.state == 0 ? '?' : rank.state);
  }
  const auto has_place = [](const health::RankTick& rank) { return !rank.place.empty(); };
  if (std::ranges::any_of(ranks, has_place)) {
    for (const health::RankTick& rank : ranks) {
      message.add_places(rank.place);
    }
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    const health::RankTick& rank = ranks[i];
    if (!rank.addresses.empty()) {
      tide::v1::RankLinks* const links = message.add_links();
      links->set_rank(static_cast<uint32_t>(i));
      *links->mutable_own() = {rank.addresses.begin(), rank.addresses.end()};
      *links->mutable_unanswered() = {rank.unanswered.begin(), rank.unanswered.end()};
    }
  }
  return message;
}

health::LossNews FromProto(const tide::v1::LossNews& message) {
  const auto step = [](int64_t value) { return std::max<int64_t>(0, value); };
  return {.loss_step = step(message.loss_step()),
          .bad_step = step(message.bad_step()),
          .infinite = message.infinite(),
          .good_step = step(message.good_step()),
          .spike_step = step(message.spike_step()),
          .spike_loss = message.spike_loss(),
          .spike_median = message.spike_median()};
}

tide::v1::LossNews ToProto(const health::LossNews& news) {
  tide::v1::LossNews message;
  message.set_loss_step(news.loss_step);
  message.set_bad_step(news.bad_step);
  message.set_infinite(news.infinite);
  message.set_good_step(news.good_step);
  message.set_spike_step(news.spike_step);
  message.set_spike_loss(news.spike_loss);
  message.set_spike_median(news.spike_median);
  return message;
}

}  // namespace tide::wire
