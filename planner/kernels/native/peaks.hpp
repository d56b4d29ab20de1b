// The largest of a row of numbers since some place in it, for rows that only grow at their end.
#pragma once

#include <algorithm>
#include <vector>

#include "law.hpp"

namespace planner {

class Peaks {
 public:
  // What came up to `counter` was at most `value`, and one was.
  void add(i64 counter, i64 value) {
    while (!peaks_.empty() && peaks_.back().value <= value) peaks_.pop_back();
    peaks_.push_back({counter, value});
  }

  // The largest that came after the counter read `counter`; there must be one.
  i64 since(i64 counter) const {
    const auto after = [](i64 c, const Peak& peak) { return c < peak.counter; };
    return std::upper_bound(peaks_.begin(), peaks_.end(), counter, after)->value;
  }

  // Nobody will ask for what came before.
  void clear() { peaks_.clear(); }

 private:
  struct Peak {
    i64 counter, value;
  };

  std::vector<Peak> peaks_;  // each larger than all that follow
};

}  // namespace planner
