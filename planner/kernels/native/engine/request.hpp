// One request on one engine, and the list of those that run.
#pragma once

#include <deque>
#include <vector>

#include "options.hpp"

namespace planner::engine {

struct Request;

// Ordered by when it is looked at: the first line of the processor's cache at a lazy finish, the
// second by the passes, the third on arrival.
struct alignas(64) RequestState {
  i64 offset = 0;      // computed - counter, constant while lazy
  i64 finish_key = 0;  // counter at its last token, while lazy
  i64 joined = 0;      // counter when it became lazy
  i64 last_token = 0, max_gap = 0;
  i32 rank = 0;     // position in order of arrival: its identity, and the last tie-break
  i32 target = 0;   // outputs after which it leaves this engine
  i32 outputs = 0;  // known so far
  i32 seat = -1;    // while lazy
  bool decoding = false;  // only the newest token is missing
  bool remote = false;    // the prompt's KV lies elsewhere
  bool loaded = false;    // it has arrived (looked at while parked)
  bool in_system = true;
  bool told = false;  // the first schedule is recorded
  bool cache_told = false;
  bool lazy = false;  // counted in sums: computed, outputs and blocks stand still
  bool away = false;  // finished here, its blocks held for a transfer

  Request *before = nullptr, *after = nullptr;  // among the running
  i64 order = 0;                                // of admission
  i64 computed = 0;  // tokens whose KV is computed, or will be by steps in flight
  i64 blocks = 0;
  i64 named = 0;  // full blocks that carry a name in the prefix cache
  i32 prompt = 0;
  i32 unseen = 0;  // outputs of steps in flight
  i32 flying = 0;  // steps in flight that work on it
  i32 preemptions = 0;

  i32 limit = 0;   // outputs after which the engine knows that it leaves
  i32 shared = 0;  // how many prefix names this engine uses
  i64 arrival = 0;  // at this engine
  i64 key = 0;      // what the policy orders by, before arrival and rank
  i64 deadline = kNever;
  const i32* prefix = nullptr;  // names of its leading blocks
  Request* partner = nullptr;   // the same on the prefill side
  i64 leave_key = -1;           // asynchronous: steps scheduled with its last; -1: it left
  bool runs = false;            // is in the list of running requests
};

struct Request : RequestState {
  std::vector<i32> nodes;  // its leading blocks that have an identity

  i64 tokens() const { return i64{prompt} + outputs; }
  i64 missing() const { return i64{prompt} + outputs + unseen - computed; }
  bool surely_done() const { return unseen > 0 && outputs + unseen >= limit; }
};

// Whether `a` is served before `b`: by policy, then arrival.
inline bool ranks_before(const Request& a, const Request& b) {
  return a.key != b.key ? a.key < b.key : a.arrival < b.arrival;
}

inline bool ranks_before_by_rank(const Request& a, const Request& b) {
  if (a.key != b.key) return a.key < b.key;
  return a.arrival != b.arrival ? a.arrival < b.arrival : a.rank < b.rank;
}

// Requests keep their place in memory until they are given back.
class Arena {
 public:
  Request* take() {
    if (free_.empty()) {
      all_.emplace_back();
      return &all_.back();
    }
    Request* request = free_.back();
    free_.pop_back();
    return request;
  }

  void give_back(Request* request) {
    static_cast<RequestState&>(*request) = RequestState{};
    request->nodes.clear();  // and keep its memory
    free_.push_back(request);
  }

 private:
  std::deque<Request> all_;
  std::vector<Request*> free_;
};

// The running requests, in order of admission.
class Running {
 public:
  i64 size() const { return size_; }
  Request* first() const { return first_; }
  Request* last() const { return last_; }

  void append(Request* it) {
    it->order = ++admitted_;
    it->runs = true;
    it->before = last_;
    it->after = nullptr;
    (last_ ? last_->after : first_) = it;
    last_ = it;
    ++size_;
  }

  void remove(Request* it) {
    (it->before ? it->before->after : first_) = it->after;
    (it->after ? it->after->before : last_) = it->before;
    it->runs = false;
    --size_;
  }

 private:
  Request *first_ = nullptr, *last_ = nullptr;
  i64 size_ = 0, admitted_ = 0;
};

}  // namespace planner::engine
