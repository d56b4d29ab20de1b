// The earliest of a few ticks, one per engine: a tournament, won by the lowest index of equals.
#pragma once

#include <vector>

#include "options.hpp"

namespace planner::engine {

class Winner {
 public:
  void resize(i64 count) {
    leaves_ = 1;
    while (leaves_ < count) leaves_ *= 2;
    ticks_.assign(leaves_, kNever);
    best_.assign(2 * leaves_, 0);
    for (i64 i = 0; i < leaves_; ++i) best_[leaves_ + i] = static_cast<i32>(i);
    for (i64 node = leaves_ - 1; node > 0; --node) best_[node] = best_[2 * node];
  }

  i64 least() const { return ticks_[best_[1]]; }
  i64 index() const { return best_[1]; }

  void set(i64 index, i64 tick) {
    if (ticks_[index] == tick) return;
    ticks_[index] = tick;
    for (i64 node = (leaves_ + index) / 2; node > 0; node /= 2) {
      const i32 left = best_[2 * node], right = best_[2 * node + 1];
      best_[node] = ticks_[right] < ticks_[left] ? right : left;
    }
  }

 private:
  i64 leaves_ = 1;
  std::vector<i64> ticks_;
  std::vector<i32> best_;
};

}  // namespace planner::engine
