// The time that one step of the engine takes, in integer picoseconds.
//
//   t = L(P + B) + c_X X + c_K K + c_N N + c_C C
//
// Integers, because sums of floats depend on their order: a step boundary that moves by one
// ulp lands on the other side of an arrival, and from there two builds tell different stories.
#pragma once

#include <cmath>
#include <cstdint>

namespace planner {

using i32 = std::int32_t;
using i64 = std::int64_t;
using u64 = std::uint64_t;

// What the prefill chunks of one step amount to.
struct Prefill {
  i64 tokens = 0;   // P
  i64 squares = 0;  // 2 X: sum of new * (2 * cached_before + new), an integer
  i64 context = 0;  // C: sum of cached_before + new
  i64 chunks = 0;

  void add(i64 cached_before, i64 fresh) {
    tokens += fresh;
    squares += fresh * (2 * cached_before + fresh);
    context += cached_before + fresh;
    ++chunks;
  }
};

struct StepLaw {
  const i64* tokens_ps;  // L(n) for n = 0 .. max_num_batched_tokens
  i64 square_ps_2p15;
  i64 context_ps;
  i64 sequence_ps;
  i64 chunk_context_ps;

  // A step of `decoding` sequences alone; `context` counts the tokens that the step computes.
  i64 decode(i64 decoding, i64 context) const {
    return tokens_ps[decoding] + sequence_ps * decoding + context_ps * context;
  }

  // What prefill chunks add to the same decode step. Negative where L falls.
  i64 added_by(const Prefill& prefill, i64 decoding) const {
    return tokens_ps[prefill.tokens + decoding] - tokens_ps[decoding] +
           ((square_ps_2p15 * prefill.squares) >> 16) + sequence_ps * prefill.chunks +
           chunk_context_ps * prefill.context;
  }

  // A chunk that has the step to itself.
  i64 chunk_alone(i64 cached_before, i64 fresh) const {
    return tokens_ps[fresh] + ((square_ps_2p15 * (fresh * (2 * cached_before + fresh))) >> 16) +
           sequence_ps + chunk_context_ps * (cached_before + fresh);
  }

  // `steps` decode steps of one sequence alone, from a length of `cached` tokens.
  i64 solo(i64 cached, i64 steps) const {
    return steps * (tokens_ps[1] + sequence_ps) +
           context_ps * (steps * cached + steps * (steps + 1) / 2);
  }

  // `steps` decode steps in a row, of which the first costs `first`. Each step adds one token
  // of context per sequence, so their times are an arithmetic progression.
  i64 run(i64 first, i64 decoding, i64 steps) const {
    return steps * first + context_ps * (decoding * (steps * (steps - 1) / 2));
  }

  // Smallest s in [1, limit] with run(first, decoding, s) >= span; `limit` if there is none.
  // The square root only guesses. Integers decide, so rounding cannot change the answer.
  i64 steps_to_cover(i64 span, i64 first, i64 decoding, i64 limit) const {
    if (span <= first) return 1;
    const double slope = static_cast<double>(context_ps) * static_cast<double>(decoding);
    const double linear = static_cast<double>(first) - 0.5 * slope;  // > 0: first >= slope
    const double twice = 2.0 * static_cast<double>(span);
    // The root of linear * s + slope * s^2 / 2 = span, in the form that cancels nothing.
    const double root = twice / (linear + std::sqrt(linear * linear + slope * twice));
    i64 guess = root < static_cast<double>(limit) ? static_cast<i64>(std::ceil(root)) : limit;
    if (guess < 1) guess = 1;
    while (guess > 1 && run(first, decoding, guess - 1) >= span) --guess;
    while (guess < limit && run(first, decoding, guess) < span) ++guess;
    return guess;
  }
};

}  // namespace planner
