// Every step of a run, row by row, for those who want to see them.
#pragma once

#include <vector>

#include "engine.hpp"

namespace planner::engine {

class Trace {
 public:
  static constexpr i64 kStepWidth = 6;  // engine, scheduled_at, start, end, items, preempted
  static constexpr i64 kItemWidth = 5;  // rank, new, before, decode, samples

  i64 add(i64 engine, i64 scheduled_at, i64 start, i64 end, const std::vector<Scheduled>& items,
          const std::vector<i32>& preempted) {
    const i64 row = static_cast<i64>(steps_.size()) / kStepWidth;
    steps_.insert(steps_.end(), {engine, scheduled_at, start, end, static_cast<i64>(items.size()),
                                 static_cast<i64>(preempted.size())});
    for (const Scheduled& item : items)
      items_.insert(items_.end(),
                    {item.request->rank, item.fresh, item.before, item.decode, item.samples});
    preempted_.insert(preempted_.end(), preempted.begin(), preempted.end());
    return row;
  }

  void stretch(i64 row, i64 end) { steps_[row * kStepWidth + 3] = end; }

  const std::vector<i64>& steps() const { return steps_; }
  const std::vector<i64>& items() const { return items_; }
  const std::vector<i64>& preempted() const { return preempted_; }

 private:
  std::vector<i64> steps_, items_, preempted_;
};

}  // namespace planner::engine
