// Where the time of each request went: from arrival to last token, without remainder.
//
// Every request has a cursor: the tick up to which its time is accounted for. Each event moves
// the cursor on and charges the time between to one stage, or splits it by the step law. The
// same accounts as those of planner/kernels/stepwise/stages.py, which says what stages mean.
#pragma once

#include <vector>

#include "../peaks.hpp"
#include "engine.hpp"

namespace planner::engine {

// In the order of the rows that a run fills.
enum class Stage {
  kQueue, kKvBlockWait, kPrefill, kPrefillSharing, kTransfer, kTransferWait, kHandOff,
  kDecodeSolo, kDecodeBatch, kDecodeInterference, kPreemption,
  // and the longest times between two tokens, each by itself
  kGapDecode, kGapUnstalled, kGapStall, kGapSolo, kGapPreempted
};
constexpr i64 kAccountRows = 16;

// What the steps of one engine bring to all of its lazy requests alike: how long they last with
// decodes alone, and how much longer they last because of others.
class SharedTime {
 public:
  // Steps up to `counter`, of which the longest took `longest`, would with decodes alone have
  // taken `unstalled`, and that one `longest_unstalled`. More than one step: decodes were alone.
  void add(i64 counter, i64 unstalled, i64 longest, i64 longest_unstalled) {
    unstalled_ += unstalled;
    unstalled_peaks_.add(counter, longest_unstalled);
    stall_peaks_.add(counter, longest - longest_unstalled);
  }

  i64 unstalled() const { return unstalled_; }
  i64 longest_unstalled(i64 since) const { return unstalled_peaks_.since(since); }
  i64 longest_stall(i64 since) const { return stall_peaks_.since(since); }

  // Nobody is lazy.
  void clear() {
    unstalled_peaks_.clear();
    stall_peaks_.clear();
  }

 private:
  i64 unstalled_ = 0;
  Peaks unstalled_peaks_, stall_peaks_;
};

// The time of a lazy request that is one no more.
struct LazyTime {
  i64 solo;              // its steps, each as long as alone
  i64 unstalled;         // reading of SharedTime::unstalled
  i64 longest;           // of its steps; the next three, of the same
  i64 longest_unstalled, longest_stall, longest_solo;
};

class Ledger {
 public:
  // `rows`: kAccountRows rows of `count` zeros.
  Ledger(i64* rows, i64 count, i64 engines)
      : rows_(rows), count_(count), accounts_(count), clocks_(engines) {}

  // An engine queued a request that is new to the fleet.
  void arrived(i64 rank, i64 index, i64 now) {
    accounts_[rank].cursor = now;
    accounts_[rank].short_at_start = clocks_[index].read(now);
  }

  // The decode side queued it.
  void handed_off(i64 rank, i64 index, i64 now) {
    Account& it = accounts_[rank];
    add(rank, Stage::kHandOff, move(&it, now));
    it.short_at_start = clocks_[index].read(now);
    it.waits = true;
  }

  // A schedule is done: note whom it preempted or admitted, and whether it lacked blocks.
  void scheduled(i64 index, i64 now, const Plan& plan, bool someone_waits) {
    for (const Request* it : plan.preempted) preempted(*it, now);
    for (const Scheduled& item : plan.items) admitted(item.request->rank, index, now);
    for (const Load& load : plan.loads) admitted(load.request->rank, index, now);
    clocks_[index].set(now, plan.lacks_blocks && someone_waits);
  }

  // Its KV, which takes `alone` ticks on an idle link, has come.
  void transferred(i64 rank, i64 alone, i64 now) {
    Account& it = accounts_[rank];
    const i64 ticks = move(&it, now), own = std::min(alone, ticks);
    add(rank, Stage::kTransfer, own);
    add(rank, Stage::kTransferWait, ticks - own);
    it.landed = true;
  }

  // A request decodes in every step from now on; `unstalled`: reading of its engine's SharedTime.
  void joined(i64 rank, i64 unstalled) { accounts_[rank].unstalled_at_join = unstalled; }

  // It did so until now, in one step at least.
  void left(i64 rank, i64 now, const LazyTime& time) {
    Account& it = accounts_[rank];
    const i64 ticks = move(&it, now), batch = time.unstalled - it.unstalled_at_join;
    add(rank, Stage::kDecodeSolo, time.solo);
    add(rank, Stage::kDecodeBatch, batch - time.solo);
    add(rank, Stage::kDecodeInterference, ticks - batch);
    raise(rank, Stage::kGapDecode, time.longest);
    raise(rank, Stage::kGapUnstalled, time.longest_unstalled);
    raise(rank, Stage::kGapStall, time.longest_stall);
    raise(rank, Stage::kGapSolo, time.longest_solo);
    it.last_token = now;
  }

  // How long a step lasts without its prefill chunks; `decodes`: of lazy requests.
  static i64 without_chunks(const std::vector<Scheduled>& items, Work decodes, const Law& law) {
    for (const Scheduled& item : items)
      if (item.decode) decodes.add_decode(item.before);
    return law.ticks(decodes);
  }

  // Charge a step that ends now to each of its requests that are still there.
  void completed(const std::vector<Scheduled>& items, i64 start, i64 end, i64 without_chunks,
                 const Law& law) {
    for (const Scheduled& item : items) {
      if (!item.request->in_system) continue;  // a step too many
      const i64 rank = item.request->rank;
      if (accounts_[rank].cursor <= start) charge_gap(rank, item.decode, start);
      const bool preempted = accounts_[rank].preempted;
      const i64 ticks = move(&accounts_[rank], end);
      const i64 solo = charge_step(item, ticks, without_chunks, law);
      if (item.samples) see_token(rank, end, preempted, std::min(without_chunks, ticks), solo);
    }
  }

 private:
  struct Account {
    i64 cursor = 0;          // up to where its time is accounted for
    i64 short_at_start = 0;  // its engine's clock when it began to wait
    i64 last_token = -1;     // when it had one last; -1: never
    i64 unstalled_at_join = 0;  // its engine's SharedTime when it became lazy
    bool waits = true;       // not admitted yet, on the engine where it is now
    bool landed = false;     // its KV has come, and no step has followed
    bool preempted = false;  // lost its blocks, and no new token has followed
  };

  // Runs while an engine's last schedule left someone waiting for blocks.
  struct Clock {
    i64 total = 0, since = 0;
    bool runs = false;

    i64 read(i64 now) const { return total + (runs ? now - since : 0); }
    void set(i64 now, bool lacks) {
      total = read(now);
      since = now;
      runs = lacks;
    }
  };

  void preempted(const Request& request, i64 now) {
    charge_gap(request.rank, request.outputs > 0, now);
    accounts_[request.rank].preempted = true;
  }

  // A step has it, or its KV is read from now on.
  void admitted(i64 rank, i64 index, i64 now) {
    if (accounts_[rank].waits) charge_wait(rank, index, now);
  }

  i64& of(i64 rank, Stage stage) { return rows_[static_cast<i64>(stage) * count_ + rank]; }
  void add(i64 rank, Stage stage, i64 ticks) { of(rank, stage) += ticks; }

  // Move a cursor on; returns by how much, 0 if it is there already.
  static i64 move(Account* it, i64 now) {
    const i64 ticks = std::max<i64>(0, now - it->cursor);
    it->cursor += ticks;
    return ticks;
  }

  // Note the time since its last token; `solo` < 0: no decode step brought this one.
  void see_token(i64 rank, i64 now, bool preempted, i64 unstalled, i64 solo) {
    i64& last = accounts_[rank].last_token;
    if (last >= 0) {
      const i64 gap = now - last;
      if (preempted) {
        raise(rank, Stage::kGapPreempted, gap);
      } else if (solo >= 0) {
        raise(rank, Stage::kGapDecode, gap);
        raise(rank, Stage::kGapUnstalled, unstalled);
        raise(rank, Stage::kGapStall, gap - unstalled);
        raise(rank, Stage::kGapSolo, solo);
      }
    }
    last = now;
  }

  void raise(i64 rank, Stage stage, i64 ticks) {
    of(rank, stage) = std::max(of(rank, stage), ticks);
  }

  // Split a request's time in a step; what it would need alone comes first. Returns that of a
  // decode alone, -1 of other work.
  i64 charge_step(const Scheduled& item, i64 ticks, i64 without_chunks, const Law& law) {
    const i64 rank = item.request->rank;
    Account& it = accounts_[rank];
    Work alone;
    if (it.preempted) {
      add(rank, Stage::kPreemption, ticks);
      it.preempted = !(item.samples && item.request->blocks);
    } else if (item.decode) {
      alone.add_decode(item.before);
      const i64 batch = std::min(without_chunks, ticks);
      const i64 solo = std::min(law.ticks(alone), batch);
      add(rank, Stage::kDecodeSolo, solo);
      add(rank, Stage::kDecodeBatch, batch - solo);
      add(rank, Stage::kDecodeInterference, ticks - batch);
      return solo;
    } else {
      alone.add_chunk(item.fresh, item.before);
      const i64 own = std::min(law.ticks(alone), ticks);
      add(rank, Stage::kPrefill, own);
      add(rank, Stage::kPrefillSharing, ticks - own);
    }
    return -1;
  }

  // The time until admission; how much of it blocks were missing, the clock says.
  void charge_wait(i64 rank, i64 index, i64 now) {
    Account& it = accounts_[rank];
    const i64 lacking = clocks_[index].read(now) - it.short_at_start;
    const i64 ticks = move(&it, now);
    add(rank, Stage::kKvBlockWait, lacking);
    add(rank, Stage::kQueue, ticks - lacking);
    it.waits = false;
  }

  // Time in which an admitted request was in no step.
  void charge_gap(i64 rank, bool decoding, i64 until) {
    Account& it = accounts_[rank];
    const i64 ticks = move(&it, until);
    Stage stage = Stage::kQueue;
    if (it.preempted) stage = Stage::kPreemption;
    else if (it.landed) stage = Stage::kHandOff;
    else if (decoding) stage = Stage::kDecodeInterference;
    else if (of(rank, Stage::kPrefill) || of(rank, Stage::kTransfer)) stage = Stage::kPrefillSharing;
    add(rank, stage, ticks);
    it.landed = false;
  }

  i64* const rows_;
  const i64 count_;
  std::vector<Account> accounts_;
  std::vector<Clock> clocks_;
};

}  // namespace planner::engine
