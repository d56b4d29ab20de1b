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
    nodes_.assign(2 * leaves_, {kNever, 0});
    for (i64 i = 0; i < leaves_; ++i) nodes_[leaves_ + i].index = i;
    for (i64 node = leaves_ - 1; node > 0; --node) nodes_[node] = nodes_[2 * node];
  }

  i64 least() const { return nodes_[1].tick; }
  i64 index() const { return nodes_[1].index; }

  void set(i64 index, i64 tick) {
    i64 node = leaves_ + index;
    if (nodes_[node].tick == tick) return;
    nodes_[node].tick = tick;
    while (node > 1) {
      const Node& left = nodes_[node & ~i64{1}];
      const Node& right = nodes_[node | 1];
      node /= 2;
      const bool later = right.tick < left.tick;  // selected, not branched on
      const i64 best_tick = later ? right.tick : left.tick;
      const i64 best_index = later ? right.index : left.index;
      nodes_[node] = {best_tick, best_index};
    }
  }

 private:
  struct Node {
    i64 tick, index;
  };

  i64 leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace planner::engine
