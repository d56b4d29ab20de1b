// Records of requests as columns of arrays.
#pragma once

#include "pool.hpp"

namespace planner {

// Writes what is known of a request where its record lies.
struct Columns {
  static constexpr bool kGaps = false;

  StepLaw law{};
  i64 *first_scheduled, *first_token, *finish, *decode_stall, *preempted;
  i32 *preemptions, *replica;
  // Null unless asked for: the other stages.
  i64 *queue = nullptr, *block_wait, *prefill_own, *prefill_stretch, *decode_solo, *decode_batch;

  void finished(const Sequence& it, i64 time, i32 index) {
    const i32 id = it.request.id;
    first_scheduled[id] = it.first_scheduled;
    first_token[id] = it.first_token;
    finish[id] = time;
    decode_stall[id] = it.decode_stall;
    preempted[id] = it.preempted;
    preemptions[id] = it.preemptions;
    replica[id] = index;
    if (queue) write(id, stages_of(law, it, time));
  }

  void rejected(const Request& request) {
    const i32 id = request.id;
    first_scheduled[id] = first_token[id] = finish[id] = decode_stall[id] = preempted[id] = -1;
    preemptions[id] = replica[id] = -1;
    if (queue) write(id, Stages{-1, -1, -1, -1, -1, -1, -1, -1});
  }

 private:
  void write(i32 id, const Stages& s) {
    queue[id] = s.queue;
    block_wait[id] = s.block_wait;
    prefill_own[id] = s.prefill_own;
    prefill_stretch[id] = s.prefill_stretch;
    decode_solo[id] = s.decode_solo;
    decode_batch[id] = s.decode_batch;
  }
};

// The same with the longest times between two tokens.
struct GapColumns : Columns {
  static constexpr bool kGaps = true;

  i64 *gap_decode, *gap_unstalled, *gap_stall, *gap_solo, *gap_preempted;

  void finished(const Sequence& it, i64 time, i32 index, const TokenGaps& gaps) {
    Columns::finished(it, time, index);
    put(it.request.id, gaps);
  }

  void rejected(const Request& request) {
    Columns::rejected(request);
    put(request.id, TokenGaps{-1, -1, -1, -1, -1});
  }

 private:
  void put(i32 id, const TokenGaps& gaps) {
    gap_decode[id] = gaps.decode;
    gap_unstalled[id] = gaps.unstalled;
    gap_stall[id] = gaps.stall;
    gap_solo[id] = gaps.solo;
    gap_preempted[id] = gaps.preempted;
  }
};

struct Traffic {
  i64 count = 0;
  const i64* arrival = nullptr;
  const i32 *prompt = nullptr, *output = nullptr;

  Request operator()(i64 i) const {
    return Request{arrival[i], static_cast<i32>(i), prompt[i], output[i]};
  }
};

}  // namespace planner
