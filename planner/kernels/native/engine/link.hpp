// The link that carries KV from prefill to decode, shared first come or fairly.
#pragma once

#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "big.hpp"
#include "request.hpp"

namespace planner::engine {

struct Transfer {
  i32 rank;
  Request *prefill, *decode;
  i64 end;
  i64 alone = 0;  // ticks on an idle link, latency included
};

class Link {
 public:
  Link(i64 ticks_per_token, i64 latency, bool fair, i64 channels)
      : ticks_per_token_(ticks_per_token), latency_(latency), channels_(channels), fair_(fair) {
    if (!fair) for (i64 i = 0; i < channels; ++i) free_at_.push(0);
  }

  // Accept a transfer; returns the tick at which its first byte moves.
  i64 begin(Transfer transfer, i64 tokens, i64 now) {
    if (tokens > 0 && ticks_per_token_ > kNever / tokens) throw TimeOverflow{};
    const i64 work = tokens * ticks_per_token_;
    transfer.alone = later(work, latency_);
    if (fair_) {
      drain(now);
      moving_.push_back({transfer, clock_ + Big::product(scale_, work)});
      next_ = next_fair();
      return now;
    }
    const i64 start = std::max(now, free_at_.top());
    const i64 sent = later(start, work);
    free_at_.pop();
    free_at_.push(sent);
    transfer.end = later(sent, latency_);
    landing_.push_back(transfer);
    next_ = std::min(next_, transfer.end);
    return start;
  }

  // Tick at which advance must be called next; kNever: idle.
  i64 next_event() const { return next_; }

  // Move to `now`; adds the transfers that are complete.
  void advance(i64 now, std::vector<Transfer>* done) {
    if (!fair_ && channels_ == 1) {  // they end in the order accepted
      for (; !landing_.empty() && landing_.front().end <= now; landing_.pop_front())
        done->push_back(landing_.front());
      next_ = landing_.empty() ? kNever : landing_.front().end;
      return;
    }
    if (fair_) drain(now);
    std::size_t kept = 0;
    for (const Transfer& it : landing_) {
      if (it.end <= now) done->push_back(it); else landing_[kept++] = it;
    }
    landing_.erase(landing_.begin() + static_cast<std::ptrdiff_t>(kept), landing_.end());
    next_ = next_fair();
  }

 private:
  // Processor sharing in virtual time: m transfers on k channels move at min(1, k/m) of a
  // channel's rate each, so the clock V grows by that per tick, and a transfer of w ticks that
  // began at V leaves when the clock reads V + w, at the first whole tick at or after. All
  // readings are whole multiples of 1 / scale, a common multiple of the denominator of every
  // pace since the link was idle.
  struct Moving {
    Transfer transfer;
    Big leaves;  // scaled clock
  };

  void drain(i64 now) {
    if (!moving_.empty() && now > updated_) {
      const Pace pace = pace_of();
      const std::uint32_t rest = scale_.remainder(pace.below);
      const std::uint32_t factor = pace.below / greatest_common_divisor(pace.below, rest);
      if (factor > 1) {
        scale_.multiply(factor);
        clock_.multiply(factor);
        for (Moving& it : moving_) it.leaves.multiply(factor);
      }
      Big share = scale_;
      share.divide(pace.below);
      share.multiply(pace.above);
      clock_ = clock_ + Big::product(share, now - updated_);
    }
    updated_ = now;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < moving_.size(); ++i) {
      if (clock_ < moving_[i].leaves) {
        if (kept != i) moving_[kept] = std::move(moving_[i]);
        ++kept;
      } else {
        moving_[i].transfer.end = later(now, latency_);
        landing_.push_back(moving_[i].transfer);
      }
    }
    moving_.resize(kept);
    if (moving_.empty()) {
      clock_ = Big();
      scale_ = Big(1);
    }
  }

  i64 next_fair() const {
    i64 next = moving_.empty() ? kNever : next_sent();
    for (const Transfer& it : landing_) next = std::min(next, it.end);
    return next;
  }

  // First whole tick at which one of those that move has sent all.
  i64 next_sent() const {
    const Big* least = &moving_[0].leaves;
    for (const Moving& it : moving_)
      if (it.leaves < *least) least = &it.leaves;
    if (!(clock_ < *least)) return updated_;
    Big left = *least - clock_, each = scale_;
    const Pace pace = pace_of();
    left.multiply(pace.below);
    each.multiply(pace.above);
    return later(updated_, Big::quotient_up(left, each));
  }

  // At which share of a channel's rate each of those that move does.
  struct Pace {
    std::uint32_t above, below;
  };

  Pace pace_of() const {
    const auto moving = static_cast<std::uint32_t>(moving_.size());
    const auto channels = static_cast<std::uint32_t>(channels_);
    if (moving <= channels) return {1, 1};
    const std::uint32_t common = greatest_common_divisor(moving, channels);
    return {channels / common, moving / common};
  }

  static std::uint32_t greatest_common_divisor(std::uint32_t a, std::uint32_t b) {
    while (b) {
      const std::uint32_t rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }

  const i64 ticks_per_token_, latency_, channels_;
  const bool fair_;
  std::priority_queue<i64, std::vector<i64>, std::greater<i64>> free_at_;  // fifo: of channels
  i64 next_ = kNever;
  std::deque<Transfer> landing_;  // fifo: under way; fair: all bytes sent, latency left
  i64 updated_ = 0;
  std::vector<Moving> moving_;
  Big clock_;
  Big scale_{1};
};

}  // namespace planner::engine
