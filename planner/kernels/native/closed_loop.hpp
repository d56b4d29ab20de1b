// Requests that wait for a permit: clients that send one request after another.
//
// Request i is sent as soon as it has come to the client and one of a fixed number of permits is
// free; permits come back when requests finish, after the client's time to think. Requests are
// sent in order. What is sent therefore depends on what finishes, so replicas and clients
// are told in order of time, event by event; windows of steps are skipped as ever, because a
// window ends with the next finish.
//
// There may be several sources of requests, each with permits of its own and its own order; one
// without any permits is open: its requests are sent when they come. Of sources that would send
// at the same time the first goes first. Sending ends with the first source that has sent all
// its requests, so that all of them are there to the end; what is not sent then never is.
//
// Order of simultaneous events: a request whose time of sending is known before t is pushed
// ahead of the steps scheduled at t, as any arrival; a request that a finish at t itself releases
// is pushed behind all boundaries at t, and the first step that sees it is the next one.
#pragma once

#include <functional>
#include <queue>

#include "columns.hpp"

namespace planner {

struct Clients {
  const i64* think = nullptr;   // by request: from its finish to the permit's return
  const i32* source = nullptr;  // by request
  const i64* permits = nullptr;  // when each permit is first free, source by source
  const i64* counts = nullptr;   // permits of each source
  i64 sources = 0;
  i64* sent = nullptr;
};

struct Source {
  std::priority_queue<i64, std::vector<i64>, std::greater<i64>> permits;
  bool open = false;
  std::vector<i32> requests;
  std::size_t next = 0;

  i64 send(const Traffic& traffic) const {  // of its next request; there is one
    const i64 ready = traffic.arrival[requests[next]];
    if (open) return ready;
    return permits.empty() ? kNever : std::max(ready, permits.top());
  }
  void give_back(i64 time) {
    if (!open) permits.push(time);
  }
};

// Into: Columns, or GapColumns.
template <class Into>
struct Finishes {
  static constexpr bool kGaps = Into::kGaps;

  Into* columns;
  std::vector<i32> ids;

  template <class... Gaps>
  void finished(const Sequence& it, i64 time, i32 index, const Gaps&... gaps) {
    columns->finished(it, time, index, gaps...);
    ids.push_back(it.request.id);
  }
  void rejected(const Request& request) { columns->rejected(request); }
};

inline std::vector<Source> sources_of(const Traffic& traffic, const Clients& clients) {
  std::vector<Source> sources(clients.sources);
  const i64* permit = clients.permits;
  for (i64 k = 0; k < clients.sources; ++k) {
    sources[k].open = clients.counts[k] == 0;
    for (i64 i = 0; i < clients.counts[k]; ++i) sources[k].permits.push(*permit++);
  }
  for (i64 i = 0; i < traffic.count; ++i)
    sources[clients.source[i]].requests.push_back(static_cast<i32>(i));
  return sources;
}

// False: the clock ran out.
template <int kBlockSize, class Sink>
bool run_closed_loop(Pool<kBlockSize, Sink>& pool, Sink& finishes, const Traffic& traffic,
                     const Clients& clients) {
  std::vector<Source> sources = sources_of(traffic, clients);
  for (i64 i = 0; i < traffic.count; ++i) clients.sent[i] = -1;
  bool sending = traffic.count > 0;
  for (i64 passed = -1;;) {
    const i64 boundary = pool.next_boundary();
    i64 send = kNever;
    Source* first = nullptr;
    if (sending)
      for (Source& source : sources)
        if (const i64 time = source.send(traffic); time < send) send = time, first = &source;
    if (send == kNever && boundary == kNever) break;
    if (send <= boundary) {
      if (send >= kLastTime) return false;
      const i32 id = first->requests[first->next++];
      sending = first->next < first->requests.size();
      if (!first->open) first->permits.pop();
      Request request = traffic(id);
      request.arrival = clients.sent[id] = send;
      if (!pool.push(request, send == passed)) first->give_back(send + clients.think[id]);
      continue;
    }
    passed = boundary;
    for (auto& member : pool.members())
      if (member.next_boundary() == boundary) member.advance(boundary + 1);
    for (const i32 id : finishes.ids)
      sources[clients.source[id]].give_back(boundary + clients.think[id]);
    finishes.ids.clear();
  }
  for (i64 i = 0; i < traffic.count; ++i)
    if (clients.sent[i] < 0) finishes.rejected(traffic(i));
  return !pool.overflowed();
}

}  // namespace planner
