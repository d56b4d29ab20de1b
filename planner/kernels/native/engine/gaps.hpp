// How long the steps since some step took: the longest of them, and, if wanted, the end of each.
#pragma once

#include <algorithm>
#include <vector>

#include "../peaks.hpp"
#include "options.hpp"

namespace planner::engine {

class Gaps {
 public:
  explicit Gaps(bool keeps_ends) : keeps_ends_(keeps_ends) {}

  bool keeps_ends() const { return keeps_ends_; }

  // Steps up to `counter` took at most `longest`, and one did.
  void add(i64 counter, i64 longest) { peaks_.add(counter, longest); }

  void add_end(i64 tick) { ends_.push_back(tick); }

  // The longest step after the counter read `counter`; there must be one.
  i64 longest_since(i64 counter) const { return peaks_.since(counter); }

  void copy_ends(i64 from, i64 to, i64* out) const {
    std::copy(ends_.begin() + (from - base_), ends_.begin() + (to - base_), out);
  }

  // Nobody will ask for steps before `counter`.
  void clear(i64 counter) {
    peaks_.clear();
    ends_.clear();
    base_ = counter;
  }

 private:
  bool keeps_ends_;
  Peaks peaks_;
  std::vector<i64> ends_;
  i64 base_ = 0;  // counter of the first end
};

}  // namespace planner::engine
