// Identical replicas behind a router.
#pragma once

#include <vector>

#include "replica.hpp"

namespace planner {

enum class Router { kRoundRobin = 0, kLeastOutstanding = 1 };

template <int kBlockSize, class Sink>
class Pool {
 public:
  using Member = Replica<kBlockSize, Sink>;

  Pool(const StepLaw& law, const Limits& limits, i64 longest_output, i64 replicas, Router router,
       Sink* sink)
      : limits_(limits), router_(router), sink_(sink) {
    members_.reserve(replicas);
    for (i64 i = 0; i < replicas; ++i)
      members_.emplace_back(law, limits, longest_output, static_cast<i32>(i), sink);
  }

  // Route and push one request; arrivals come in order of time.
  void push(i64 now, const Request& request) {
    push_to(router_ == Router::kRoundRobin ? next_in_turn() : least_outstanding(now), now, request);
  }

  // Push whole arrays, then run to the end. Round robin deals the requests out without looking
  // at any state, so the replicas' histories are independent: one is told after the other,
  // and its state stays in the processor's cache.
  void run(i64 count, const i64* arrival, const i32* prompt, const i32* output) {
    const i64 turns = router_ == Router::kRoundRobin ? static_cast<i64>(members_.size()) : 1;
    for (i64 turn = 0; turn < turns; ++turn) {
      for (i64 i = turn; i < count; i += turns) {
        const Request request{static_cast<i32>(i), prompt[i], output[i]};
        if (router_ == Router::kRoundRobin) {
          push_to(turn, arrival[i], request);
        } else {
          push(arrival[i], request);
        }
      }
      if (router_ == Router::kRoundRobin) members_[turn].advance(kNever);
    }
    for (Member& member : members_) member.advance(kNever);
  }

  const std::vector<Member>& members() const { return members_; }

 private:
  // A request that could not even run alone would block the queue for ever. It takes its turn
  // of the router, which cannot know, and is rejected by the replica.
  void push_to(i64 index, i64 now, const Request& request) {
    Member& member = members_[index];
    const i64 tokens = i64{request.prompt} + request.output - 1;  // the last output is not cached
    if (tokens > limits_.kv_blocks * limits_.block_size) {
      sink_->rejected(request.id);
      return;
    }
    member.advance(now);
    member.push(now, request);
  }

  i64 next_in_turn() {
    const i64 index = turn_;
    turn_ = turn_ + 1 == static_cast<i64>(members_.size()) ? 0 : turn_ + 1;
    return index;
  }

  // Fewest requests in the system just before the boundaries at `now`; ties: lowest index.
  i64 least_outstanding(i64 now) {
    i64 best = 0, fewest = kNever;
    for (i64 i = 0; i < static_cast<i64>(members_.size()); ++i) {
      members_[i].advance(now);
      const i64 outstanding = members_[i].outstanding();
      if (outstanding < fewest) {
        fewest = outstanding;
        best = i;
      }
    }
    return best;
  }

  const Limits limits_;
  const Router router_;
  Sink* const sink_;
  i64 turn_ = 0;
  std::vector<Member> members_;
};

}  // namespace planner
