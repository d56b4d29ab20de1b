// Requests that wait for admission: first come first served, or ordered by rank.
#pragma once

#include <algorithm>
#include <vector>

#include "request.hpp"

namespace planner::engine {

class Waiting {
 public:
  explicit Waiting(Policy policy) : fcfs_(policy == Policy::kFcfs), ring_(fcfs_ ? 64 : 0) {}

  bool empty() const { return size() == 0; }
  i64 size() const { return fcfs_ ? static_cast<i64>(tail_ - head_) : static_cast<i64>(heap_.size()); }
  Request* head() const { return fcfs_ ? at(head_) : heap_.front(); }

  void pop() {
    if (fcfs_) {
      ++head_;
    } else {
      std::pop_heap(heap_.begin(), heap_.end(), last_first);
      heap_.pop_back();
    }
  }

  void add(Request* it) {
    if (!fcfs_) return push(it);
    widen();
    slot(tail_++) = it;
  }

  // A preempted request stands at the head, or where its rank puts it.
  void put_back(Request* it) {
    if (!fcfs_) return push(it);
    widen();
    slot(--head_) = it;
  }

  void remove(Request* it) {  // rare
    if (fcfs_) {
      u64 i = head_;
      while (at(i) != it) ++i;
      for (; i + 1 != tail_; ++i) slot(i) = at(i + 1);
      --tail_;
    } else {
      heap_.erase(std::find(heap_.begin(), heap_.end(), it));
      std::make_heap(heap_.begin(), heap_.end(), last_first);
    }
  }

 private:
  static bool last_first(const Request* a, const Request* b) {  // ranks differ: a total order
    return ranks_before_by_rank(*b, *a);
  }

  void push(Request* it) {
    heap_.push_back(it);
    std::push_heap(heap_.begin(), heap_.end(), last_first);
  }

  Request* at(u64 i) const { return ring_[i & (ring_.size() - 1)]; }
  Request*& slot(u64 i) { return ring_[i & (ring_.size() - 1)]; }

  void widen() {
    if (tail_ - head_ < ring_.size()) return;
    std::vector<Request*> wider(ring_.size() * 2);
    for (u64 i = head_; i != tail_; ++i) wider[i & (wider.size() - 1)] = at(i);
    ring_.swap(wider);
  }

  bool fcfs_;
  std::vector<Request*> ring_;
  u64 head_ = u64{1} << 40, tail_ = u64{1} << 40;  // room to go back
  std::vector<Request*> heap_;
};

}  // namespace planner::engine
