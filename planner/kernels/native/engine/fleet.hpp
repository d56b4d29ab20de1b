// Engines that share a clock: who is routed where, and what follows a completed step.
//
// Order of events at one instant: step completions, engines in index order; transfer
// completions, in the order accepted; arrivals, in rank order; hand-offs to the decode side, in
// the order sent; scheduling, engines in index order. What scheduling makes due at the same
// instant begins a new round.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "async_engine.hpp"
#include "fast_engine.hpp"
#include "link.hpp"
#include "literal_engine.hpp"
#include "router.hpp"
#include "winner.hpp"

namespace planner::engine {

enum class Topology { kColocated = 0, kLockStep = 1, kPull = 2, kPush = 3 };

struct Setup {
  Topology topology = Topology::kColocated;
  i64 n_first = 1, n_decode = 0;  // replicas, or prefill and decode engines
  i64 ranks = 1;                  // that take steps together, in lock step
  i64 groups = 1;                 // of prefill and decode engines, alike, that share the link
  i64 hop = 0, ticks_per_token = 0, latency = 0;
  bool fair = false;
  i64 channels = 1;  // of the link
  i64 max_steps = 0;
  bool literal = false;  // no engine skips a step
  Options first, decode;
  Law first_law, decode_law;
  RouterOptions first_router, decode_router;

  bool split() const { return topology == Topology::kPull || topology == Topology::kPush; }
};

class Fleet {
 public:
  // Null: no trace is kept, and no account of where time went.
  Fleet(const Setup& setup, const Traffic& traffic, const Columns& columns, Trace* trace,
        Ledger* ledger)
      : setup_(setup), traffic_(traffic), columns_(columns),
        split_(setup.split()),
        pull_(setup.topology == Topology::kPull), n_first_(setup.n_first),
        ledger_(ledger), link_(setup.ticks_per_token, setup.latency, setup.fair, setup.channels) {
    i64 longest = 1;
    for (i64 i = 0; i < traffic.count; ++i) longest = std::max<i64>(longest, traffic.output[i]);
    const i64 n_decode = split_ ? setup.n_decode : 0;
    for (i64 i = 0; i < n_first_; ++i)
      add_engine(setup_.first, setup_.first_law, split_ ? 1 : longest, trace);
    for (i64 i = 0; i < n_decode; ++i) {
      add_engine(setup_.decode, setup_.decode_law, longest, trace);
      engines_.back()->second_leg_ = true;
    }
    for (const auto& it : engines_) views_.push_back(it.get());
    add_routers(setup.first_router, views_.data(), n_first_, &entries_);
    if (split_) add_routers(setup.decode_router, views_.data() + n_first_, n_decode, &second_);
    ends_.resize(static_cast<i64>(engines_.size()));
    is_touched_.assign(engines_.size(), 0);
  }

  // Run until nothing is left to happen. Returns -1, or the tick at which there were too many
  // steps.
  i64 run() {
    i64 arrived = 0, before = -1;
    for (;;) {
      i64 now = ends_.least();
      if (split_) {
        now = std::min(now, link_.next_event());
        if (!hand_offs_.empty()) now = std::min(now, hand_offs_.front().tick);
      }
      if (arrived < traffic_.count) now = std::min(now, traffic_.arrival[arrived]);
      if (now == kNever) return -1;
      scheduled_ = now == before;
      before = now;
      while (ends_.least() == now) complete(ends_.index(), now);
      if (split_) advance(now);
      for (; arrived < traffic_.count && traffic_.arrival[arrived] == now; ++arrived)
        arrive(arrived, now);
      if (split_) hand_off(now);
      if (setup_.topology == Topology::kLockStep) schedule_together(now); else schedule(now);
      if (total_steps_ > setup_.max_steps) return now;
    }
  }

  i64 steps(i64 index) const { return engines_[index]->steps(); }
  i64 size() const { return static_cast<i64>(engines_.size()); }

 private:
  struct HandOff {
    i64 tick;
    i32 rank;
    Request* prefill;  // whose blocks are still to be read; null: they have come
  };

  // One for each group: a request stays in the group that its class says.
  void add_routers(const RouterOptions& options, Engine* const* engines, i64 count,
                   std::vector<std::unique_ptr<Router>>* routers) {
    const i64 each = count / setup_.groups;
    for (i64 i = 0; i < setup_.groups; ++i)
      routers->push_back(std::make_unique<Router>(options, traffic_, engines + i * each, each));
  }

  // Index, among the engines of a leg, of the one that gets a request.
  i64 choose(const std::vector<std::unique_ptr<Router>>& routers, i64 engines, i64 rank, i64 now) {
    if (setup_.groups == 1) return routers[0]->choose(rank, now, scheduled_);
    const i64 group = traffic_.group ? traffic_.group[rank] % setup_.groups : 0;
    return group * (engines / setup_.groups) + routers[group]->choose(rank, now, scheduled_);
  }

  void add_engine(const Options& options, const Law& law, i64 longest, Trace* trace) {
    bool literal = setup_.literal || trace || setup_.topology == Topology::kLockStep ||
                   longest > (1 << 20) || !(can_skip(options) || can_skip_asynchronously(options));
    literal = literal || (ledger_ && (options.async || !law.only_adds()));
    if (literal) {
      engines_.push_back(
          std::make_unique<LiteralEngine>(options, law, traffic_, columns_, size(), trace, ledger_));
    } else {
      add_fast_engine(options, law);
    }
  }

  void add_fast_engine(const Options& options, const Law& law) {
    if (options.async) {
      engines_.push_back(std::make_unique<AsyncEngine>(options, law, traffic_, columns_));
    } else if (options.block_size == 16) {
      engines_.push_back(std::make_unique<FastEngine<16>>(options, law, traffic_, columns_,
                                                          size(), ledger_));
    } else {
      engines_.push_back(std::make_unique<FastEngine<0>>(options, law, traffic_, columns_,
                                                         size(), ledger_));
    }
  }

  // An engine with all its steps in flight comes back when one of them is complete.
  void touch(i64 index) {
    if (is_touched_[index] || !engines_[index]->can_schedule()) return;
    is_touched_[index] = 1;
    touched_.push_back(index);
  }

  // --- arrivals ---

  void arrive(i64 rank, i64 now) {
    const i64 index = choose(entries_, n_first_, rank, now);
    Engine& engine = *engines_[index];
    columns_.replica[rank] = static_cast<i32>(index);
    const i64 prompt = traffic_.prompt[rank], limit = traffic_.limit_of(rank);
    bool fits = engine.can_hold(prompt, split_ ? 1 : limit) && engine.can_prefill(prompt);
    if (split_) fits = fits && engines_[n_first_]->can_hold(prompt, limit);
    if (!fits) {
      set_fate(rank, Fate::kRejected);
      return;
    }
    Request* it = split_ ? engine.new_request(rank, now, 1, 1)
                         : engine.new_request(rank, now, traffic_.output[rank],
                                              static_cast<i32>(limit));
    if (ledger_) ledger_->arrived(rank, index, now);
    enqueue(index, it, now);
  }

  void enqueue(i64 index, Request* it, i64 now) {
    engines_[index]->enqueue(it, now, scheduled_);
    ends_changed(index, now);
  }

  // An engine may have found that something can happen at an earlier boundary. One at this
  // very instant is passed at once, as it would have been before.
  void ends_changed(i64 index, i64 now) {
    touch(index);
    const i64 end = engines_[index]->next_end();
    ends_.set(index, end);
    if (end == now && !scheduled_) complete(index, now);
  }

  // --- completed steps ---

  void complete(i64 index, i64 now) {
    Engine& engine = *engines_[index];
    sampled_.clear();
    const i64 steps = engine.steps();
    engine.complete(now, &sampled_);
    total_steps_ += engine.steps() - steps;
    ends_.set(index, engine.next_end());
    touch(index);
    const bool dropped = pull_ && index < n_first_;  // tokens of the prefill side
    for (const Sampled& it : sampled_) {
      if (!it.told && !dropped) add_token(it.request, now);
      if (it.ended) ended(it.request, index, now);
    }
  }

  void add_token(Request* it, i64 now) {
    const i32 rank = it->rank;
    if (it->outputs == 1) {
      columns_.first_token[rank] = now;
    } else {
      it->max_gap = std::max(it->max_gap, now - it->last_token);
      columns_.max_gap[rank] = it->max_gap;
    }
    it->last_token = now;
    columns_.tokens[rank] = it->outputs;
    if (columns_.token_times)
      columns_.token_times[columns_.token_start[rank] + it->outputs - 1] = now;
  }

  void ended(Request* it, i64 index, i64 now) {
    if (index >= n_first_ || !split_) return finish(it, index, now);
    columns_.prefill_done[it->rank] = now;
    if (pull_) {
      it->away = true;
      hand_offs_.push_back({later(now, setup_.hop), it->rank, it});
    } else if (traffic_.output[it->rank] == 1) {
      finish(it, index, now);
    } else {
      it->away = true;
      send({it->rank, it, nullptr, 0}, it->prompt, now);
    }
  }

  void finish(Request* it, i64 index, i64 now) {
    set_fate(it->rank, Fate::kFinished);
    columns_.finish[it->rank] = now;
    engines_[index]->release(it);
    if (it->flying == 0) engines_[index]->forget(it);
  }

  void set_fate(i64 rank, Fate fate) { columns_.fate[rank] = static_cast<std::uint8_t>(fate); }

  // --- from prefill to decode ---

  void send(const Transfer& transfer, i64 tokens, i64 now) {
    columns_.kv_start[transfer.rank] = link_.begin(transfer, tokens, now);
  }

  // Complete transfers: the prefill side frees its blocks, the decode side may go on.
  void advance(i64 now) {
    if (link_.next_event() > now) return;
    done_.clear();
    link_.advance(now, &done_);
    for (const Transfer& it : done_) {
      columns_.kv_end[it.rank] = now;
      if (ledger_) ledger_->transferred(it.rank, it.alone, now);
      const i64 index = columns_.replica[it.rank];
      engines_[index]->release(it.prefill);
      engines_[index]->forget(it.prefill);
      touch(index);
      if (pull_) {
        const i64 decode = n_first_ + columns_.decode_replica[it.rank];
        engines_[decode]->loaded(it.decode, now, scheduled_);
        ends_changed(decode, now);
      } else {
        hand_offs_.push_back({later(now, setup_.hop), it.rank, nullptr});
      }
    }
  }

  void hand_off(i64 now) {
    while (!hand_offs_.empty() && hand_offs_.front().tick <= now) {
      const HandOff due = hand_offs_.front();
      hand_offs_.pop_front();
      const i64 choice = choose(second_, size() - n_first_, due.rank, now);
      columns_.decode_replica[due.rank] = static_cast<i32>(choice);
      columns_.decode_arrival[due.rank] = now;
      Request* it = engines_[n_first_ + choice]->new_request(
          due.rank, now, traffic_.output[due.rank], traffic_.limit_of(due.rank));
      if (pull_) {
        it->remote = true;
        it->partner = due.prefill;
      } else {
        it->outputs = 1;
        it->computed = it->prompt;
        it->decoding = true;
        it->last_token = columns_.first_token[due.rank];
      }
      if (ledger_) ledger_->handed_off(due.rank, n_first_ + choice, now);
      enqueue(n_first_ + choice, it, now);
    }
  }

  // --- scheduling ---

  void schedule(i64 now) {
    if (touched_.size() > 1) std::sort(touched_.begin(), touched_.end());
    for (const i64 index : touched_) {
      is_touched_[index] = 0;
      schedule_one(index, now);
    }
    touched_.clear();
  }

  // Until as many steps are in flight as may be. A call that only preempted is repeated at
  // once: the blocks it freed may admit someone. Returns whether there is a new step.
  bool schedule_one(i64 index, i64 now) {
    Engine& engine = *engines_[index];
    bool any = false;
    while (engine.can_schedule()) {
      const i64 steps = engine.steps();
      const bool step = engine.schedule(now);
      const Plan& plan = engine.plan();
      for (Request* it : plan.hopeless) drop(it, Fate::kRejected, engine);
      for (Request* it : plan.oversized) drop(it, Fate::kFailed, engine);
      for (const Load& load : plan.loads) {
        Request* it = load.request;
        send({it->rank, it->partner, it, 0}, load.tokens, now);
      }
      total_steps_ += engine.steps() - steps;
      if (step) any = true;
      else if (engine.in_flight() || plan.preempted.empty()) break;
    }
    ends_.set(index, engine.next_end());
    return any;
  }

  void drop(Request* it, Fate fate, Engine& engine) {
    set_fate(it->rank, fate);
    engine.forget(it);
  }

  // Attention-DP ranks: those of a group begin a step together, and wait for the longest.
  void schedule_together(i64 now) {
    if (touched_.size() > 1) std::sort(touched_.begin(), touched_.end());
    i64 last = -1;
    for (const i64 index : touched_) {
      is_touched_[index] = 0;
      const i64 group = index / setup_.ranks;
      if (group == last) continue;
      last = group;
      schedule_group(group * setup_.ranks, now);
    }
    touched_.clear();
  }

  void schedule_group(i64 first, i64 now) {
    for (i64 i = first; i < first + setup_.ranks; ++i)
      if (engines_[i]->in_flight()) return;
    planned_.clear();
    i64 end = 0;
    for (i64 i = first; i < first + setup_.ranks; ++i) {
      if (!schedule_one(i, now)) continue;
      planned_.push_back(i);
      end = std::max(end, engines_[i]->last_end());
    }
    for (const i64 i : planned_) {
      engines_[i]->stretch(end);
      ends_.set(i, end);
    }
  }

  const Setup& setup_;
  const Traffic traffic_;
  Columns columns_;
  const bool split_, pull_;
  const i64 n_first_;
  Ledger* const ledger_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<Engine*> views_;
  std::vector<std::unique_ptr<Router>> entries_, second_;
  Link link_;
  std::deque<HandOff> hand_offs_;  // in the order sent, which is that of their ticks
  Winner ends_;
  std::vector<i64> touched_;
  std::vector<char> is_touched_;
  bool scheduled_ = false;  // whether this instant had a round before
  i64 total_steps_ = 0;
  std::vector<Sampled> sampled_;
  std::vector<Transfer> done_;
  std::vector<i64> planned_;
};

}  // namespace planner::engine
