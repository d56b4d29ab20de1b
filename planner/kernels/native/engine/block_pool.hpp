// The KV blocks of one engine: counted, or with identities where prefixes are cached.
//
// A cached block is worth an identity (a node) only if someone may hit it: a block with a
// shared name, or a preempted request's own. All others are counted. The free blocks that were
// used before stand in a queue, given out from its head and freed to its tail: nodes one by
// one, the others as runs. A finished request's own blocks are hit by nobody, so its hundred
// blocks are freed in one entry.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

#include "request.hpp"

namespace planner::engine {

class BlockPool {
 public:
  BlockPool(i64 block_size, i64 usable, bool caching, i64 shared_names)
      : size_(block_size), usable_(usable), free_(usable), caching_(caching) {
    if (!caching_) return;
    shared_names_ = shared_names;
    shared_.reset(static_cast<Name*>(std::calloc(shared_names + 1, sizeof(Name))));
    if (!shared_) throw std::bad_alloc{};
  }

  i64 block_size() const { return size_; }
  i64 usable() const { return usable_; }
  i64 free() const { return free_; }
  i64 held() const { return usable_ - free_; }
  bool caching() const { return caching_; }

  i64 blocks_of(i64 tokens) const {
    if (size_ == 16) return (tokens + 15) >> 4;
    return ceil_div(tokens, size_);
  }

  // The longest cached run of leading full blocks, one token short of all.
  void lookup(const Request& it, std::vector<i32>* hits) const {
    hits->clear();
    if (!caching_) return;
    if (it.shared == 0 && it.preemptions == 0) return;
    const i64 most = (it.tokens() - 1) / size_;
    for (i64 index = 0; index < most; ++index) {
      const i32 block = oldest_bearer(it, index);
      if (block < 0) return;
      hits->push_back(block);
    }
  }

  // As lookup, of a request that is nowhere yet.
  i64 cached_blocks(const i32* prefix, i64 shared, i64 prompt) const {
    if (!caching_) return 0;
    const i64 most = std::min(shared, (prompt - 1) / size_);
    i64 index = 0;
    while (index < most && oldest(prefix[index]) >= 0) ++index;
    return index;
  }

  // Free blocks that it costs to hold `tokens`; unused hits leave the queue.
  i64 needed(const Request& it, i64 tokens, const std::vector<i32>& hits) const {
    i64 idle = 0;
    for (const i32 block : hits) idle += nodes_[block].users == 0;
    const i64 more = blocks_of(tokens) - it.blocks - static_cast<i64>(hits.size());
    return std::max<i64>(0, more) + idle;
  }

  i64 needed(const Request& it, i64 tokens) const {
    return std::max<i64>(0, blocks_of(tokens) - it.blocks);
  }

  void take(Request* it, i64 tokens, const std::vector<i32>& hits) {
    for (const i32 block : hits) {
      Node& node = nodes_[block];
      if (node.users++ == 0) {
        unlink(block);
        --free_;
      }
      it->nodes.push_back(block);
    }
    it->named += static_cast<i64>(hits.size());
    it->blocks += static_cast<i64>(hits.size());
    take(it, tokens);
  }

  void take(Request* it, i64 tokens) {
    const i64 more = blocks_of(tokens) - it->blocks;
    if (more <= 0) return;
    take_nameless(more);
    it->blocks += more;
    if (!caching_) return;
    const i64 identities = std::min<i64>(it->blocks, it->shared);
    while (static_cast<i64>(it->nodes.size()) < identities) it->nodes.push_back(used_node());
  }

  // Blocks for requests whose own count stands still: decoding ones.
  void take_nameless(i64 count) {
    free_ -= count;
    if (!caching_) return;
    const i64 fresh = std::min(count, usable_ - fresh_);
    fresh_ += fresh;
    drop_head(count - fresh);
  }

  // Take back all blocks, last first. Only a request that comes back can find its own again.
  void release(Request* it, bool comes_back) {
    if (it->blocks == 0) return;
    if (!caching_) {
      free_ += it->blocks;
    } else {
      if (comes_back) name_own(it);
      append_run(it->blocks - static_cast<i64>(it->nodes.size()));
      for (i64 i = static_cast<i64>(it->nodes.size()); i-- > 0;) {
        const i32 block = it->nodes[i];
        if (--nodes_[block].users == 0) {
          append(block);
          ++free_;
        }
      }
      it->nodes.clear();
    }
    it->blocks = 0;
    it->named = 0;
  }

  // Make the full blocks among the first `tokens` hittable.
  void name(Request* it, i64 tokens) {
    if (!caching_) return;
    const i64 full = tokens / size_;
    const i64 last = std::min<i64>(full, it->shared);
    for (i64 index = it->named; index < last; ++index) bear(it->nodes[index], it->prefix[index]);
    it->named = std::max(it->named, full);
  }

 private:
  static constexpr i32 kNone = -1;

  struct Node {
    i32 before = kNone, after = kNone;            // in the queue of free blocks
    i32 older = kNone, newer = kNone;             // among the bearers of its name
    i32 name = kNone;
    i32 users = 0;
    i64 run = 0;                                  // > 0: so many blocks without identity
  };

  // Bearers by age, counted from 1, so that a page of names that nobody bears is never touched:
  // a replica meets few of all shared names.
  struct Name {
    i32 first, last;
  };

  struct OwnName {
    Name name{0, 0};
    u64 key = 0;  // whose
  };

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  Name& name_of(i64 id) {
    return id < shared_names_ ? shared_[id] : own_[id - shared_names_].name;
  }

  i32 oldest(i64 shared) const { return shared_[shared].first - 1; }

  static u64 own_key(const Request& it, i64 index) {
    return (static_cast<u64>(it.rank) << 32) | static_cast<u64>(index);
  }

  i32 oldest_bearer(const Request& it, i64 index) const {
    if (index < it.shared) return oldest(it.prefix[index]);
    if (it.preemptions == 0) return kNone;
    const auto found = own_names_.find(own_key(it, index));
    return found == own_names_.end() ? kNone
                                     : own_[found->second - shared_names_].name.first - 1;
  }

  // --- nodes ---

  i32 new_node() {
    if (spare_nodes_.empty()) {
      nodes_.emplace_back();
      return static_cast<i32>(nodes_.size()) - 1;
    }
    const i32 node = spare_nodes_.back();
    spare_nodes_.pop_back();
    nodes_[node] = Node{};
    return node;
  }

  i32 used_node() {
    const i32 node = new_node();
    nodes_[node].users = 1;
    return node;
  }

  // --- names ---

  void bear(i32 block, i32 id) {
    Name& name = name_of(id);
    Node& node = nodes_[block];
    node.name = id;
    node.older = name.last - 1;
    node.newer = kNone;
    if (name.last) nodes_[name.last - 1].newer = block;
    else name.first = block + 1;
    name.last = block + 1;
  }

  void forget(Node& node) {
    if (node.name < 0) return;
    Name& name = name_of(node.name);
    if (node.older >= 0) nodes_[node.older].newer = node.newer;
    else name.first = node.newer + 1;
    if (node.newer >= 0) nodes_[node.newer].older = node.older;
    else name.last = node.older + 1;
    if (!name.first && node.name >= shared_names_) {
      own_names_.erase(own_[node.name - shared_names_].key);
      spare_names_.push_back(node.name);
    }
    node.name = kNone;
  }

  void name_own(Request* it) {
    const i64 named = std::min(it->named, it->blocks);
    for (i64 index = static_cast<i64>(it->nodes.size()); index < named; ++index) {
      const u64 key = own_key(*it, index);
      auto [place, fresh] = own_names_.try_emplace(key, kNone);
      if (fresh) {
        if (spare_names_.empty()) {
          place->second = static_cast<i32>(shared_names_ + static_cast<i64>(own_.size()));
          own_.emplace_back();
        } else {
          place->second = spare_names_.back();
          spare_names_.pop_back();
        }
        own_[place->second - shared_names_] = OwnName{{0, 0}, key};
      }
      const i32 node = used_node();
      bear(node, place->second);
      it->nodes.push_back(node);
    }
  }

  // --- the queue of free blocks that were used before ---

  void append(i32 node) {
    nodes_[node].before = tail_;
    nodes_[node].after = kNone;
    (tail_ >= 0 ? nodes_[tail_].after : head_) = node;
    tail_ = node;
  }

  void unlink(i32 node) {
    const i32 before = nodes_[node].before, after = nodes_[node].after;
    (before >= 0 ? nodes_[before].after : head_) = after;
    (after >= 0 ? nodes_[after].before : tail_) = before;
  }

  void append_run(i64 count) {
    if (count <= 0) return;
    free_ += count;
    if (tail_ < 0 || nodes_[tail_].run == 0) append(new_node());
    nodes_[tail_].run += count;
  }

  void drop_head(i64 count) {
    while (count > 0) {
      const i32 head = head_;
      Node& node = nodes_[head];
      if (node.run > count) {
        node.run -= count;
        return;
      }
      count -= node.run > 0 ? node.run : 1;
      forget(node);
      unlink(head);
      spare_nodes_.push_back(head);
    }
  }

  i64 size_, usable_, free_;
  bool caching_;
  i64 fresh_ = 0;  // blocks from here on were never used; they head the queue
  i64 shared_names_ = 0;
  i32 head_ = kNone, tail_ = kNone;
  std::vector<Node> nodes_;
  std::vector<i32> spare_nodes_;
  std::unique_ptr<Name[], Free> shared_;  // names come from outside: shared ones first
  std::vector<OwnName> own_;
  std::vector<i32> spare_names_;
  std::unordered_map<u64, i32> own_names_;
};

}  // namespace planner::engine
