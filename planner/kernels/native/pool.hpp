// Identical replicas behind a router.
#pragma once

#include <algorithm>
#include <vector>

#include "replica.hpp"

namespace planner {

enum class Router { kRoundRobin = 0, kLeastOutstanding = 1 };

template <int kBlockSize, class Sink>
class Pool {
 public:
  using Member = Replica<kBlockSize, Sink>;

  Pool(const StepLaw& law, const Limits& limits, i64 replicas, Router router, Sink* sink)
      : limits_(limits), router_(router), sink_(sink) {
    members_.reserve(replicas);
    for (i64 i = 0; i < replicas; ++i)
      members_.emplace_back(law, limits, static_cast<i32>(i), sink);
  }

  // Route and push one request; requests come in order of arrival. `late`: all boundaries at
  // its arrival are passed. False: rejected.
  bool push(const Request& request, bool late = false) {
    const bool by_turn = router_ == Router::kRoundRobin;
    return push_to(by_turn ? next_in_turn() : least_outstanding(request.arrival), request,
                   late);
  }

  // Push requests first .. last - 1 of a list; `request(i)` is the i-th.
  template <class List>
  void push_all(i64 first, i64 last, const List& request) {
    if (router_ == Router::kRoundRobin) {
      deal(first, last, request);
    } else {
      for (i64 i = first; i < last; ++i) push(request(i));
    }
  }

  // Pass every boundary before `until`.
  void advance(i64 until) {
    for (Member& member : members_) member.advance(until);
  }

  i64 next_boundary() const {  // kNever: all idle
    i64 next = kNever;
    for (const Member& member : members_) next = std::min(next, member.next_boundary());
    return next;
  }

  i64 queued() const {  // waiting or preempted
    i64 sum = 0;
    for (const Member& member : members_) sum += member.queued();
    return sum;
  }

  bool overflowed() const {
    for (const Member& member : members_)
      if (member.overflowed()) return true;
    return false;
  }

  const std::vector<Member>& members() const { return members_; }
  std::vector<Member>& members() { return members_; }

 private:
  // Round robin looks at no state, so the replicas' histories are independent and need not be
  // told in order of time. By hands of a few thousand requests, one replica after the other:
  // a replica's state, and the records of a hand, stay in the processor's cache.
  template <class List>
  void deal(i64 first, i64 last, const List& request) {
    const i64 players = static_cast<i64>(members_.size());
    const i64 hand = players * std::max<i64>(1, kHand / players);
    for (i64 from = first; from < last; from += hand) {
      const i64 to = std::min(last, from + hand);
      for (i64 k = 0; k < players; ++k) {
        const i64 player = turn_ + k < players ? turn_ + k : turn_ + k - players;
        for (i64 i = from + k; i < to; i += players) push_to(player, request(i), false);
      }
      turn_ = (turn_ + (to - from)) % players;
    }
  }

  // A request that could not even run alone would block the queue for ever. It takes its turn
  // of the router, which cannot know, and is rejected by the replica.
  bool push_to(i64 index, const Request& request, bool late) {
    Member& member = members_[index];
    const i64 tokens = i64{request.prompt} + request.output - 1;  // the last output is not cached
    if (tokens > limits_.kv_blocks * limits_.block_size) {
      sink_->rejected(request);
      return false;
    }
    member.advance(request.arrival);
    member.push(request, late);
    return true;
  }

  i64 next_in_turn() {
    const i64 index = turn_;
    turn_ = turn_ + 1 == static_cast<i64>(members_.size()) ? 0 : turn_ + 1;
    return index;
  }

  // Fewest requests in the system once the steps that end at `now` are complete; ties: lowest
  // index.
  i64 least_outstanding(i64 now) {
    i64 best = 0, fewest = kNever;
    for (i64 i = 0; i < static_cast<i64>(members_.size()); ++i) {
      members_[i].settle(now);
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
