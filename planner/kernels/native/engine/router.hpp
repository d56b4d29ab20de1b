// Which engine gets the next request.
#pragma once

#include <memory>
#include <vector>

#include "engine.hpp"

namespace planner::engine {

enum class Route {
  kRoundRobin = 0, kLeastOutstanding = 1, kLeastKv = 2, kPrefixAffinity = 3, kByLength = 4,
  kByClass = 5
};

struct RouterOptions {
  Route route = Route::kRoundRobin;
  i64 slack = -1;  // prefix affinity: requests above the fewest by which a replica is passed over
  std::vector<i64> boundaries;
  std::vector<std::vector<i64>> groups;
};

class Router {
 public:
  Router(RouterOptions options, const Traffic& traffic, Engine* const* engines, i64 count)
      : options_(std::move(options)), traffic_(traffic), engines_(engines, engines + count) {
    turns_.resize(std::max<std::size_t>(1, options_.groups.size()), 0);
    everyone_.resize(count);
    for (i64 i = 0; i < count; ++i) everyone_[i] = i;
  }

  i64 choose(i64 rank, i64 now, bool scheduled) {
    switch (options_.route) {
      case Route::kLeastOutstanding:
        return least([](Engine&) { return i64{0}; });
      case Route::kLeastKv:
        return least([&](Engine& it) {
          it.look(now, scheduled);
          return it.pool().held();
        });
      case Route::kPrefixAffinity: {
        const i64 most = options_.slack < 0 ? kNever : fewest_outstanding() + options_.slack;
        return least([&](Engine& it) {
          if (it.outstanding() > most) return i64{1};
          const i32 shared = it.shared_blocks(rank);
          if (shared == 0) return i64{0};
          it.look(now, scheduled);
          const i32* prefix = traffic_.prefix_name + traffic_.prefix_start[rank];
          return -it.pool().cached_blocks(prefix, shared, traffic_.prompt[rank]);
        });
      }
      default:
        return in_turn(rank);
    }
  }

 private:
  i64 fewest_outstanding() const {
    i64 fewest = engines_[0]->outstanding();
    for (const Engine* it : engines_) fewest = std::min(fewest, it->outstanding());
    return fewest;
  }

  // The least value, then the fewest requests, then the lowest index.
  template <class Value>
  i64 least(Value value) {
    i64 best = 0, lowest = 0, fewest = 0;
    for (i64 i = 0; i < static_cast<i64>(engines_.size()); ++i) {
      const i64 here = value(*engines_[i]), outstanding = engines_[i]->outstanding();
      if (i == 0 || here < lowest || (here == lowest && outstanding < fewest)) {
        best = i;
        lowest = here;
        fewest = outstanding;
      }
    }
    return best;
  }

  i64 in_turn(i64 rank) {
    const i64 groups = static_cast<i64>(options_.groups.size());
    i64 group = 0;
    const std::vector<i64>* members = &everyone_;
    if (options_.route == Route::kByLength) {
      const auto& edges = options_.boundaries;
      const auto edge = std::lower_bound(edges.begin(), edges.end(), i64{traffic_.prompt[rank]});
      group = std::min<i64>(edge - edges.begin(), groups - 1);
      members = &options_.groups[group];
    } else if (options_.route == Route::kByClass) {
      group = traffic_.group ? traffic_.group[rank] % groups : 0;
      members = &options_.groups[group];
    }
    i64& turn = turns_[group];
    const i64 member = (*members)[turn];
    turn = turn + 1 == static_cast<i64>(members->size()) ? 0 : turn + 1;
    return member;
  }

  const RouterOptions options_;
  const Traffic& traffic_;
  const std::vector<Engine*> engines_;
  std::vector<i64> everyone_, turns_;
};

}  // namespace planner::engine
