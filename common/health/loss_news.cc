#include "common/health/loss_news.h"

#include <algorithm>

namespace tide::health {

void Merge(LossNews& news, const LossNews& others) {
  if (others.bad_step > 0) {
    const bool both_known = news.good_step > 0 && others.good_step > 0;
    news.good_step = both_known ? std::min(news.good_step, others.good_step)
                                : std::max(news.good_step, others.good_step);
    if (news.bad_step == 0 || others.bad_step < news.bad_step) {
      news.bad_step = others.bad_step;
      news.infinite = others.infinite;
    }
  }
  if (news.loss_step == 0 && others.loss_step > 0) {
    news.loss_step = others.loss_step;
    news.spike_step = others.spike_step;
    news.spike_loss = others.spike_loss;
    news.spike_median = others.spike_median;
  }
}

}  // namespace tide::health
