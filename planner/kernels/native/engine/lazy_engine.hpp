// What the engines with lazy requests share: seats, gaps between tokens, and who is served alone.
//
// Lazy requests are counted in sums and their own fields stand still; a seat is where a calendar
// finds them again. How sums move is each engine's own.
#pragma once

#include <vector>

#include "engine.hpp"
#include "gaps.hpp"

namespace planner::engine {

class LazyEngine : public Engine {
 public:
  LazyEngine(const Options& options, const Law& law, const Traffic& traffic, Columns& columns)
      : Engine(options, law, traffic, columns), gaps_(columns.token_times != nullptr) {}

  void stretch(i64) override {}  // ranks in lock-step are literal

 protected:
  void admitted(Request* it) override { alone_.push_back(it); }

  i64 reserved() const override {
    i64 sum = 0;
    for (const Request* it : alone_)
      if (!it->decoding) sum += pool_.needed(*it, it->tokens());
    return sum;
  }

  void take_seat(Request* it) {
    if (free_seats_.empty()) {
      free_seats_.push_back(static_cast<i32>(seats_.size()));
      seats_.push_back(nullptr);
    }
    it->seat = free_seats_.back();
    free_seats_.pop_back();
    seats_[it->seat] = it;
  }

  // Give the seat back, and tell the request of the tokens that it got in it: one in each step
  // after `joined` up to the step `counter`, which ended at `now`.
  void leave_seat(Request* it, i64 counter, i64 now) {
    free_seats_.push_back(it->seat);
    const i64 steps = counter - it->joined;
    if (steps <= 0) return;
    if (gaps_.keeps_ends())
      gaps_.copy_ends(it->joined, counter,
                      columns_.token_times + columns_.token_start[it->rank] + it->outputs);
    it->outputs += static_cast<i32>(steps);
    it->last_token = now;
    it->max_gap = std::max(it->max_gap, gaps_.longest_since(it->joined));
    columns_.max_gap[it->rank] = it->max_gap;
    columns_.tokens[it->rank] = it->outputs;
  }

  std::vector<Request*> seats_;
  std::vector<Request*> alone_;  // running and not lazy, in order of admission
  Gaps gaps_;

 private:
  std::vector<i32> free_seats_;
};

}  // namespace planner::engine
