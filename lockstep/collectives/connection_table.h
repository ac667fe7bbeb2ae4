// What the transports with one connection to each peer have in common. Internal.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "lockstep/collectives/transport.h"

namespace lockstep::collectives {

// A Connection has address(), start(), send(), revoke(); break_off(reason), which ends it soon; finish_writing(), which
// tells the peer that no more will come; idle(): nothing waits to be written; ended(). It calls changed() when it has
// become idle or has ended, from any thread and without its lock.
template <class Connection>
class ConnectionTable : public Transport {
 public:
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(connections_.size()); }
  std::string peer_name(int peer) const override {
    if (!connections_[peer]) return fmt::format("process {}", peer);
    return fmt::format("process {} ({})", peer, connections_[peer]->address());
  }
  bool reaches(int peer) const override { return connections_[peer] != nullptr; }

  void start(Receiver* receiver) override {
    each([&](Connection& c) { c.start(receiver); });
  }
  void send(int peer, OutgoingFrame frame) override { connections_[peer]->send(std::move(frame)); }
  void revoke(std::uint64_t lease) override {
    each([&](Connection& c) { c.revoke(lease); });
  }
  void abort(const Error& reason) override {
    each([&](Connection& c) { c.break_off(reason); });
  }

  bool closing() const { return closing_; }
  void changed() {
    if (!closing_) return;
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

 protected:
  ConnectionTable(int rank, std::size_t size) : rank_(rank), connections_(size) {}

  void put(std::size_t peer, std::unique_ptr<Connection> connection) { connections_[peer] = std::move(connection); }
  template <class F>
  void each(F f) {
    for (auto& connection : connections_)
      if (connection) f(*connection);
  }
  // False: the deadline has passed and the predicate does not hold for all.
  template <class Predicate>
  bool await(TimePoint deadline, Predicate predicate) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] {
      return std::all_of(connections_.begin(), connections_.end(), [&](auto& c) { return !c || predicate(*c); });
    });
  }
  // Transport::close() up to the point where every connection has been told to end; the peers get `linger` to end
  // theirs first. False: it has been done before.
  bool end_connections(TimePoint deadline, Duration linger) {
    if (closing_.exchange(true)) return false;
    await(deadline, [](Connection& c) { return c.idle(); });
    each([](Connection& c) { c.finish_writing(); });
    await(std::min(deadline, std::chrono::steady_clock::now() + linger), [](Connection& c) { return c.ended(); });
    each([](Connection& c) { c.break_off(Error(ErrorCode::cancelled, "transport", "closed", 0)); });
    return true;
  }

 private:
  const int rank_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<bool> closing_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace lockstep::collectives
