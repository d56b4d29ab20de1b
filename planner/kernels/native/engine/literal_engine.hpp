// One engine, one loop iteration per step: every scheduler, any number of steps in flight.
#pragma once

#include <deque>
#include <vector>

#include "engine.hpp"
#include "stages.hpp"
#include "trace.hpp"

namespace planner::engine {

class LiteralEngine final : public Engine {
 public:
  LiteralEngine(const Options& options, const Law& law, const Traffic& traffic, Columns& columns,
                i64 index, Trace* trace, Ledger* ledger)
      : Engine(options, law, traffic, columns), index_(index), trace_(trace),
        ledger_(ledger), stage_free_(options.pp_degree, 0) {}

  void enqueue(Request* it, i64, bool) override { waiting_.add(it); }
  void loaded(Request* it, i64, bool) override {
    it->loaded = true;
    ++loaded_count_;
  }
  void look(i64, bool) override {}

  bool can_schedule() const override {
    return static_cast<i64>(flights_.size()) < options_.depth() && !stalled_;
  }
  bool in_flight() const override { return !flights_.empty(); }
  i64 last_end() const override { return flights_.back().end; }
  i64 next_end() const override { return flights_.empty() ? kNever : flights_.front().end; }

  bool schedule(i64 now) override {
    plan_.clear();
    switch (options_.kind) {
      case Kind::kV1: {
        const i64 budget = running_pass();
        if (plan_.preempted.empty()) waiting_pass(budget, now);
        break;
      }
      case Kind::kV0: schedule_v0(); break;
      case Kind::kSarathi: schedule_sarathi(); break;
    }
    settle(now);
    if (ledger_) ledger_->scheduled(index_, now, plan_, !waiting_.empty());
    if (trace_)
      for (const Request* it : plan_.preempted) preempted_.push_back(it->rank);
    if (plan_.items.empty()) {
      stalled_ = in_flight();
      return false;
    }
    Flight flight;
    flight.start = place(law_.ticks(work_of_items()), now, &flight.end);
    flight.items = spare();
    flight.items.swap(plan_.items);
    if (trace_) {
      flight.row = trace_->add(index_, now, flight.start, flight.end, flight.items, preempted_);
      preempted_.clear();
    }
    flights_.push_back(std::move(flight));
    ++steps_;
    return true;
  }

  void stretch(i64 end) override {
    flights_.back().end = end;
    stage_free_.back() = end;
    if (trace_) trace_->stretch(flights_.back().row, end);
  }

  void complete(i64, std::vector<Sampled>* sampled) override {
    Flight flight = std::move(flights_.front());
    flights_.pop_front();
    stalled_ = false;
    if (ledger_)
      ledger_->completed(flight.items, flight.start, flight.end,
                         Ledger::without_chunks(flight.items, {}, law_), law_);
    for (const Scheduled& item : flight.items) {
      Request* it = item.request;
      --it->flying;
      if (!item.samples || !it->in_system) {
        if (!it->in_system && it->flying == 0 && !it->away) forget(it);  // an overshoot
        continue;
      }
      it->unseen -= options_.async;
      const bool ended = ++it->outputs >= it->target;
      if (ended) {
        it->in_system = false;
        if (it->runs) running_.remove(it); else waiting_.remove(it);
      } else if (it->blocks) {  // a block filled by tokens that were unseen till now
        pool_.name(it, it->computed - it->unseen);
      }
      sampled->push_back({it, ended, false});
    }
    spares_.push_back(std::move(flight.items));
  }

 private:
  struct Flight {
    std::vector<Scheduled> items;
    i64 start = 0, end = 0;
    i64 row = 0;
  };

  std::vector<Scheduled> spare() {
    if (spares_.empty()) return {};
    std::vector<Scheduled> items = std::move(spares_.back());
    spares_.pop_back();
    items.clear();
    return items;
  }

  // Place a step on the stages, each of which takes an equal share; returns its start.
  i64 place(i64 ticks, i64 now, i64* end) {
    const i64 share = ceil_div(ticks, static_cast<i64>(stage_free_.size()));
    const i64 start = std::max(now, stage_free_[0]);
    *end = start;
    for (i64& free : stage_free_) {
      *end = later(std::max(*end, free), share);
      free = *end;
    }
    return start;
  }

  // --- V0: a step of prompts whenever one can be admitted, else of decodes ---

  void schedule_v0() {
    prefill_v0();
    if (plan_.items.empty()) decode_v0();
  }

  void prefill_v0() {
    i64 budget = options_.max_num_batched_tokens;
    while (!waiting_.empty() && running_.size() < options_.max_num_seqs) {
      Request* it = waiting_.head();
      const i64 tokens = it->tokens();
      if (tokens > options_.max_num_batched_tokens) {
        waiting_.pop();
        plan_.oversized.push_back(it);
        continue;
      }
      if (tokens > budget) return;
      if (pool_.needed(*it, tokens) + watermark() > pool_.free()) {
        lack_blocks();
        return;
      }
      start(it, tokens);
      budget -= tokens;
    }
  }

  void start(Request* it, i64 fresh) {
    waiting_.pop();
    running_.append(it);
    pool_.take(it, it->tokens());
    give(it, fresh);
  }

  void decode_v0() {
    sort_running();
    std::size_t index = 0;
    while (index < queue_.size()) {
      Request* it = queue_[index];
      while (pool_.needed(*it, it->computed + 1) > pool_.free()) {
        Request* victim = queue_.back();
        queue_.pop_back();
        preempt(victim);
        if (victim == it) return;
      }
      pool_.take(it, it->computed + 1);
      give(it, 1);
      ++index;
    }
  }

  void sort_running() {
    queue_.clear();
    for (Request* it = running_.first(); it; it = it->after) queue_.push_back(it);
    std::sort(queue_.begin(), queue_.end(),
              [](const Request* a, const Request* b) { return ranks_before_by_rank(*a, *b); });
  }

  // --- Sarathi: decodes, then prefills in progress, then new prompts ---

  void schedule_sarathi() {
    prefills_.clear();
    decode_sarathi();
    i64 budget = options_.max_num_batched_tokens - static_cast<i64>(plan_.items.size());
    for (Request* it : prefills_) {  // they hold the blocks of their whole prompt already
      const i64 fresh = std::min(it->missing(), budget);
      if (fresh <= 0) continue;
      give(it, fresh);
      budget -= fresh;
    }
    while (!waiting_.empty() && budget > 0 && running_.size() < options_.max_num_seqs) {
      Request* it = waiting_.head();
      if (pool_.needed(*it, it->tokens()) + watermark() > pool_.free()) {
        lack_blocks();
        return;
      }
      const i64 fresh = std::min(it->tokens(), budget);
      start(it, fresh);
      budget -= fresh;
    }
  }

  // If blocks run out, the latest request not yet looked at is preempted, whatever it does.
  void decode_sarathi() {
    sort_running();
    std::size_t next = 0;
    while (next < queue_.size()) {
      Request* it = queue_[next++];
      if (!it->decoding) {
        prefills_.push_back(it);
        continue;
      }
      while (pool_.needed(*it, it->computed + 1) > pool_.free()) {
        Request* victim = it;
        if (next < queue_.size()) {
          victim = queue_.back();
          queue_.pop_back();
        }
        preempt(victim);
        if (victim == it) return;
      }
      pool_.take(it, it->computed + 1);
      give(it, 1);
    }
  }

  const i64 index_;
  Trace* const trace_;
  Ledger* const ledger_;  // null: nobody asks where time went
  std::deque<Flight> flights_;
  std::vector<std::vector<Scheduled>> spares_;
  std::vector<i64> stage_free_;
  bool stalled_ = false;
  std::vector<i32> preempted_;  // since the last step, for the trace
  std::vector<Request*> queue_, prefills_;
};

}  // namespace planner::engine
