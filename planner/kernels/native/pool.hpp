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

  // Push whole arrays, then run to the end.
  void run(i64 count, const i64* arrival, const i32* prompt, const i32* output) {
    if (router_ == Router::kRoundRobin) {
      deal(count, arrival, prompt, output);
    } else {
      for (i64 i = 0; i < count; ++i)
        push(arrival[i], Request{static_cast<i32>(i), prompt[i], output[i]});
    }
    for (Member& member : members_) member.advance(kNever);
  }

  const std::vector<Member>& members() const { return members_; }

 private:
  // Round robin looks at no state, so the replicas' histories are independent and need not be
  // told in order of time. By hands of a few thousand requests, one replica after the other:
  // a replica's state, and the records of a hand, stay in the processor's cache.
  void deal(i64 count, const i64* arrival, const i32* prompt, const i32* output) {
    const i64 players = static_cast<i64>(members_.size());
    const i64 hand = players * std::max<i64>(1, kHand / players);
    for (i64 first = 0; first < count; first += hand) {
      const i64 last = std::min(count, first + hand);
      for (i64 player = 0; player < players; ++player)
        for (i64 i = first + player; i < last; i += players)
          push_to(player, arrival[i], Request{static_cast<i32>(i), prompt[i], output[i]});
    }
  }

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

  static constexpr i64 kHand = 8192;

  const Limits limits_;
  const Router router_;
  Sink* const sink_;
  i64 turn_ = 0;
  std::vector<Member> members_;
};

}  // namespace planner
