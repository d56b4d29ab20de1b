// Requests that wait for a permit: clients that send one request after another.
//
// Request i is sent as soon as it has come to the client and one of a fixed number of permits is
// free; permits come back when requests finish, after the client's time to think. Requests are
// sent in order. What is sent therefore depends on what finishes, so replicas and clients
// are told in order of time, event by event; windows of steps are skipped as ever, because a
// window ends with the next finish.
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
  const i64* think = nullptr;    // by request: from its finish to the permit's return
  const i64* permits = nullptr;  // when each permit is first free
  i64 count = 0;
  i64* sent = nullptr;
};

struct Finishes {
  Columns* columns;
  std::vector<i32> ids;

  void finished(const Sequence& it, i64 time, i32 index) {
    columns->finished(it, time, index);
    ids.push_back(it.request.id);
  }
  void rejected(const Request& request) { columns->rejected(request); }
};

// False: the clock ran out.
template <int kBlockSize>
bool run_closed_loop(Pool<kBlockSize, Finishes>& pool, Finishes& finishes, const Traffic& traffic,
                     const Clients& clients) {
  std::priority_queue<i64, std::vector<i64>, std::greater<i64>> permits(
      std::greater<i64>(), std::vector<i64>(clients.permits, clients.permits + clients.count));
  for (i64 next = 0, passed = -1;;) {
    const i64 boundary = pool.next_boundary();
    i64 send = kNever;
    if (next < traffic.count && !permits.empty())
      send = std::max(traffic.arrival[next], permits.top());
    if (send == kNever && boundary == kNever) return !pool.overflowed();
    if (send <= boundary) {
      if (send >= kLastTime) return false;
      permits.pop();
      Request request = traffic(next);
      request.arrival = clients.sent[next] = send;
      if (!pool.push(request, send == passed)) permits.push(send + clients.think[next]);
      ++next;
      continue;
    }
    passed = boundary;
    for (auto& member : pool.members())
      if (member.next_boundary() == boundary) member.advance(boundary + 1);
    for (const i32 id : finishes.ids) permits.push(boundary + clients.think[id]);
    finishes.ids.clear();
  }
}

}  // namespace planner
