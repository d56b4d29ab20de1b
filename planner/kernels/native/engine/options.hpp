// Everything that can be chosen about an engine, and the columns that a run fills.
#pragma once

#include "../law.hpp"

namespace planner::engine {

constexpr i64 kNever = i64{1} << 62;      // a tick that never comes
constexpr i64 kUnlimited = i64{1} << 62;  // free blocks of a pool without a limit

// A sum of times left 64 bits: the caller serves the case in Python, whose integers are long.
struct TimeOverflow {};

inline i64 later(i64 now, i64 span) {  // both >= 0
  if (span >= kNever - now) throw TimeOverflow{};
  return now + span;
}

inline i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }  // a >= 0, b >= 1

enum class Kind { kV1 = 0, kV0 = 1, kSarathi = 2 };
enum class Policy { kFcfs = 0, kPriority = 1, kDeadline = 2 };

struct Options {
  i64 max_num_seqs = 1;
  i64 max_num_batched_tokens = 1;
  Kind kind = Kind::kV1;
  i64 block_size = 1;
  i64 usable_blocks = kUnlimited;
  bool chunked = true;
  i64 threshold = 0;  // most tokens of one request in one step; 0 is no limit
  bool reserve_full = true;
  i64 watermark_blocks = 0;
  Policy policy = Policy::kFcfs;
  bool prefix_caching = false;
  bool async = false;
  i64 pp_degree = 1;

  i64 depth() const {
    const i64 least = async ? 2 : 1;
    return pp_degree > least ? pp_degree : least;
  }
};

enum class Fate : std::uint8_t { kUnfinished = 0, kFinished = 1, kRejected = 2, kFailed = 3 };

// What arrives: one entry per request, in order of arrival.
struct Traffic {
  i64 count = 0;
  const i64* arrival = nullptr;
  const i32 *prompt = nullptr, *output = nullptr;
  const i32 *limit = nullptr, *priority = nullptr, *group = nullptr;  // null: absent
  const i64* deadline = nullptr;
  const i64* prefix_start = nullptr;  // count + 1 offsets into prefix_name; null: no prefixes
  const i32* prefix_count = nullptr;  // if there, count offsets and so many names each
  const i32* prefix_name = nullptr;   // names are 0 .. names - 1
  i64 names = 0;
  const i32* cached = nullptr;        // prompt tokens whose KV is at hand; null: none

  i64 names_of(i64 rank) const {
    return prefix_count ? prefix_count[rank] : prefix_start[rank + 1] - prefix_start[rank];
  }
  i32 limit_of(i64 rank) const { return limit ? limit[rank] : output[rank]; }
};

// What happened: one entry per request, -1 (or 0) where it did not.
struct Columns {
  std::uint8_t* fate = nullptr;
  i64 *first_scheduled = nullptr, *first_token = nullptr, *finish = nullptr, *max_gap = nullptr;
  i32 *tokens = nullptr, *preemptions = nullptr, *cached_tokens = nullptr, *replica = nullptr;
  // of disaggregated fleets only
  i32* decode_replica = nullptr;
  i64 *prefill_done = nullptr, *decode_arrival = nullptr, *kv_start = nullptr, *kv_end = nullptr;
  i64* decode_first_scheduled = nullptr;
  // if token times are wanted
  const i64* token_start = nullptr;
  i64* token_times = nullptr;
};

}  // namespace planner::engine
