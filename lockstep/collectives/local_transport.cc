// Every rank has a queue of frames and a progress thread that delivers them. send() copies the payload into the peer's
// queue, so that nothing of the sender's is referred to later.
#include "lockstep/collectives/local_transport.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep::collectives {
namespace {

struct Item {
  int from = 0;
  FrameHeader header;
  std::vector<std::byte> payload;
  std::optional<Error> lost;  // the connection's end instead of a frame
};

struct Inbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;
  bool stopped = false;

  void push(Item item) {
    std::lock_guard lock(mutex);
    items.push_back(std::move(item));
    changed.notify_one();
  }
};

}  // namespace

class LocalFabric::Hub {
 public:
  explicit Hub(int size) : size(size), inboxes(size), up_(size * size, true) {}

  // Ends the connection; each side that is told finds the end behind the frames sent before.
  void disconnect(int a, int b, const Error* tell_a, const Error* tell_b) {
    std::lock_guard lock(mutex_);
    if (!up_[a * size + b]) return;
    up_[a * size + b] = up_[b * size + a] = false;
    if (tell_a) inboxes[a].push({.from = b, .lost = *tell_a});
    if (tell_b) inboxes[b].push({.from = a, .lost = *tell_b});
  }
  bool deliver(int to, Item item) {
    std::lock_guard lock(mutex_);
    if (!up_[item.from * size + to]) return false;
    inboxes[to].push(std::move(item));
    return true;
  }

  const int size;
  std::deque<Inbox> inboxes;

 private:
  std::mutex mutex_;
  std::vector<bool> up_;
};

namespace {

Error lost_error(int peer, const char* how) {
  return Error(ErrorCode::peer, "transport", fmt::format("process {} {}", peer, how), 0);
}

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalFabric::Hub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank), inbox_(hub_->inboxes[rank]) {}

  ~LocalTransport() override { close({}); }

  int rank() const override { return rank_; }
  int size() const override { return hub_->size; }
  std::string peer_name(int peer) const override { return fmt::format("process {}", peer); }
  bool reaches(int peer) const override { return peer != rank_; }

  void start(Receiver* receiver) override {
    if (hub_->size > 1) progress_ = std::thread([this, receiver] { run(receiver); });
  }

  void send(int peer, OutgoingFrame frame) override {
    Item item{.from = rank_, .header = frame.header, .payload = std::vector<std::byte>(frame.header.length)};
    MutablePiece payload(item.payload);
    copy_pieces(std::span(&payload, 1), frame.pieces);
    bool up = hub_->deliver(peer, std::move(item));
    if (frame.sent) frame.sent(up);
  }

  void revoke(std::uint64_t) override { std::lock_guard wait_for_copy(delivering_); }

  void abort(const Error& reason) override {
    for (int peer = 0; peer < hub_->size; ++peer) {
      Error theirs = lost_error(rank_, "reset the connection");
      if (peer != rank_) hub_->disconnect(rank_, peer, &reason, &theirs);
    }
  }

  void close(TimePoint) override {
    for (int peer = 0; peer < hub_->size; ++peer) {
      Error theirs = lost_error(rank_, "closed the connection");
      if (peer != rank_) hub_->disconnect(rank_, peer, nullptr, &theirs);
    }
    {
      std::lock_guard lock(inbox_.mutex);
      inbox_.stopped = true;
      inbox_.changed.notify_one();
    }
    if (progress_.joinable()) progress_.join();
  }

 private:
  void run(Receiver* receiver) {
    for (;;) {
      Item item;
      {
        std::unique_lock lock(inbox_.mutex);
        inbox_.changed.wait(lock, [&] { return inbox_.stopped || !inbox_.items.empty(); });
        if (inbox_.stopped) return;
        item = std::move(inbox_.items.front());
        inbox_.items.pop_front();
      }
      if (item.lost) {
        receiver->lost(item.from, *item.lost);
      } else {
        deliver(receiver, item);
      }
    }
  }

  void deliver(Receiver* receiver, const Item& item) {
    Landing landing;
    try {
      std::lock_guard lock(delivering_);
      landing = receiver->landing(item.from, item.header);
      Piece payload(item.payload);
      if (landing.sink) {
        if (!payload.empty()) landing.sink(payload);
      } else if (!landing.pieces.empty()) {
        copy_pieces(landing.pieces, std::span(&payload, 1));
      }
    } catch (const Error& error) {
      Error theirs = lost_error(rank_, "reset the connection");
      hub_->disconnect(rank_, item.from, &error, &theirs);
      return;
    }
    receiver->landed(item.from, item.header, landing.token);
  }

  std::shared_ptr<LocalFabric::Hub> hub_;
  int rank_;
  Inbox& inbox_;
  std::mutex delivering_;  // held from landing() until the payload is in place
  std::thread progress_;
};

class SolitaryTransport final : public Transport {
 public:
  SolitaryTransport(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string peer_name(int peer) const override { return fmt::format("process {}", peer); }
  bool reaches(int) const override { return false; }
  void start(Receiver*) override {}
  void send(int, OutgoingFrame) override { LS_CHECK(false, "there is nobody to send to"); }
  void revoke(std::uint64_t) override {}
  void abort(const Error&) override {}
  void close(TimePoint) override {}

 private:
  const int rank_, size_;
};

}  // namespace

std::unique_ptr<Transport> solitary_transport(int rank, int size) {
  return std::make_unique<SolitaryTransport>(rank, size);
}

LocalFabric::LocalFabric(int size) : hub_(std::make_shared<Hub>(size)) {}

std::unique_ptr<Transport> LocalFabric::transport(int rank) { return std::make_unique<LocalTransport>(hub_, rank); }

void LocalFabric::cut(int a, int b) {
  Error to_a = lost_error(b, "closed the connection: the network was cut");
  Error to_b = lost_error(a, "closed the connection: the network was cut");
  hub_->disconnect(a, b, &to_a, &to_b);
}

}  // namespace lockstep::collectives
