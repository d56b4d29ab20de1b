// The engine's loop as its rules read, O(running requests) per step: the yardstick for the
// simulator's speed, compiled the same way. One replica, whole prompts reserved, no watermark.
#include <cstdint>
#include <deque>
#include <vector>

using i32 = std::int32_t;
using i64 = std::int64_t;

struct Running {
  i64 id, prompt, output, computed, generated, blocks, fresh;
};

static i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

extern "C" i64 literal(const i64* tokens_ps, i64 square, i64 context, i64 sequence,
                       i64 chunk_context, i64 seqs, i64 budget_tokens, i64 kv_blocks, i64 size,
                       i64 n, const i64* arrival, const i32* prompt, const i32* output,
                       i64* finish) {
  std::deque<Running> waiting;
  std::vector<Running> running;
  i64 free_blocks = kv_blocks, now = 0, next = 0, steps = 0;
  while (next < n || !waiting.empty() || !running.empty()) {
    if (waiting.empty() && running.empty() && now < arrival[next]) now = arrival[next];
    for (; next < n && arrival[next] <= now; ++next)
      waiting.push_back(Running{next, prompt[next], output[next], 0, 0, 0, 0});
    i64 budget = budget_tokens, total = 0, squares = 0, contexts = 0, chunks_context = 0, count = 0;
    bool preempted = false;
    auto serve = [&](Running& it) {
      if (it.generated > 0 && it.fresh == 1 && it.computed + 1 == it.prompt + it.generated &&
          it.computed >= it.prompt) {
        contexts += it.computed + 1;
      } else {
        squares += it.fresh * (2 * it.computed + it.fresh);
        chunks_context += it.computed + it.fresh;
      }
      total += it.fresh;
      budget -= it.fresh;
      ++count;
    };
    for (std::size_t i = 0; i < running.size(); ++i) {
      for (;;) {
        Running& it = running[i];
        const i64 missing = it.prompt + it.generated - it.computed;
        it.fresh = missing < budget ? missing : budget;
        const i64 need = ceil_div(it.computed + it.fresh, size) - it.blocks;
        if (need <= free_blocks) {
          free_blocks -= need;
          it.blocks += need;
          serve(it);
          break;
        }
        preempted = true;
        Running victim = running.back();
        running.pop_back();
        free_blocks += victim.blocks;
        victim.blocks = victim.computed = victim.fresh = 0;
        waiting.push_front(victim);
        if (i == running.size()) break;
      }
    }
    while (!preempted && !waiting.empty() && budget > 0 &&
           static_cast<i64>(running.size()) < seqs) {
      Running it = waiting.front();
      const i64 target = it.prompt + it.generated;
      if (ceil_div(target, size) > free_blocks) break;
      waiting.pop_front();
      it.fresh = target < budget ? target : budget;
      it.blocks = ceil_div(it.fresh, size);
      free_blocks -= it.blocks;
      serve(it);
      running.push_back(it);
    }
    now += tokens_ps[total] + ((square * squares) >> 16) + context * contexts + sequence * count +
           chunk_context * chunks_context;
    ++steps;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < running.size(); ++i) {
      Running it = running[i];
      it.computed += it.fresh;
      if (it.computed == it.prompt + it.generated) ++it.generated;
      if (it.generated == it.output) {
        finish[it.id] = now;
        free_blocks += it.blocks;
      } else {
        running[kept++] = it;
      }
    }
    running.resize(kept);
  }
  return steps;
}
