#include "lockstep/collectives/shared_transport.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "lockstep/collectives/frame_stream.h"
#include "lockstep/collectives/shared_rendezvous.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kTurnBytes = 256 << 10;  // per neighbour and direction before others have their turn

// The two rings with one neighbour.
class Channel {
 public:
  Channel(int peer, Neighbour neighbour, Inbox& mine)
      : peer_(peer), neighbour_(std::move(neighbour)), mine_(mine), reader_(peer) {}

  int peer() const { return peer_; }
  void start(Receiver* receiver) { reader_.start(receiver); }

  // True: some frames wait for room, or are the progress thread's to write.
  bool send(OutgoingFrame frame) {
    Notices written, dropped;
    bool left = false;
    {
      std::lock_guard lock(mutex_);
      if (closed_) {
        dropped.push_back(std::move(frame.sent));
      } else {
        bool urgent = frame.urgent, behind = waiting_;
        writer_.push(std::move(frame));
        if (urgent && !behind) write_locked(true, written);
        left = waiting_ = !writer_.empty();
      }
    }
    notify(written, true);
    notify(dropped, false);
    return left;
  }

  // The progress thread's turn. True: something was moved.
  bool write() {
    Notices written;
    bool moved = false;
    {
      std::lock_guard lock(mutex_);
      if (!waiting_ || closed_) return false;
      moved = write_locked(false, written);
      waiting_ = !writer_.empty();
    }
    notify(written, true);
    return moved;
  }
  bool read() {
    Ring& ring = mine_.ring(neighbour_.its_ring);
    std::size_t turn = 0;
    while (turn < kTurnBytes) {
      Piece front = ring.front(mine_.capacity());
      if (front.empty()) break;
      reader_.feed(front);
      ring.consume(front.size(), mine_.capacity(), neighbour_.inbox.bell());
      turn += front.size();
    }
    return turn > 0;
  }

  void revoke(std::uint64_t lease) {
    reader_.revoke(lease);
    Notices dropped;
    {
      std::lock_guard lock(mutex_);
      writer_.revoke(lease, dropped);
    }
    notify(dropped, false);
  }
  bool idle() {
    std::lock_guard lock(mutex_);
    return closed_ || writer_.empty();
  }
  void close() {
    reader_.reset();
    Notices dropped;
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      waiting_ = false;
      writer_.clear(dropped);
    }
    notify(dropped, false);
  }

  // The end that the transport below has reported; the progress thread acts on it when all has been read.
  std::optional<Error> lost;
  bool ended = false;  // of the progress thread

 private:
  bool write_locked(bool urgent_only, Notices& written) {
    bool moved = false;
    auto write = [&](const iovec* vectors, int count) {
      ssize_t n = neighbour_.inbox.ring(neighbour_.my_ring)
                      .write(vectors, count, neighbour_.inbox.capacity(), neighbour_.inbox.bell());
      moved = moved || n > 0;
      return n;
    };
    writer_.write_some(write, kTurnBytes, urgent_only, written);
    return moved;
  }

  const int peer_;
  Neighbour neighbour_;
  Inbox& mine_;
  FrameReader reader_;
  std::mutex mutex_;
  FrameWriter writer_;
  bool waiting_ = false;  // the progress thread writes
  bool closed_ = false;
};

class SharedTransport final : public Transport, private Receiver {
 public:
  SharedTransport(std::unique_ptr<Transport> below, Neighbourhood neighbourhood)
      : below_(std::move(below)), inbox_(std::move(neighbourhood.inbox)), channels_(below_->size()) {
    for (auto& [peer, neighbour] : neighbourhood.neighbours) {
      channels_[peer] = std::make_unique<Channel>(peer, std::move(neighbour), inbox_);
    }
  }
  ~SharedTransport() override { close({}); }

  int rank() const override { return below_->rank(); }
  int size() const override { return below_->size(); }
  std::string peer_name(int peer) const override { return below_->peer_name(peer); }
  bool reaches(int peer) const override { return below_->reaches(peer); }

  void start(Receiver* receiver) override {
    receiver_ = receiver;
    for (auto& channel : channels_) {
      if (channel) channel->start(receiver);
    }
    progress_ = std::thread([this] { run(); });
    pthread_setname_np(progress_.native_handle(), "ls-shared");
    below_->start(this);
  }

  void send(int peer, OutgoingFrame frame) override {
    if (!channels_[peer]) {
      below_->send(peer, std::move(frame));
    } else if (channels_[peer]->send(std::move(frame))) {
      inbox_.bell().ring();
    }
  }

  void revoke(std::uint64_t lease) override {
    for (auto& channel : channels_) {
      if (channel) channel->revoke(lease);
    }
    below_->revoke(lease);
  }

  void abort(const Error& reason) override { below_->abort(reason); }

  void close(TimePoint deadline) override {
    if (closing_.exchange(true)) return;
    {
      std::unique_lock lock(mutex_);
      written_.wait_until(lock, deadline, [&] {
        return std::all_of(channels_.begin(), channels_.end(), [](auto& c) { return !c || c->idle(); });
      });
    }
    below_->close(deadline);
    stopping_ = true;
    if (progress_.joinable()) {
      inbox_.bell().ring();
      progress_.join();
    }
    for (auto& channel : channels_) {
      if (channel) channel->close();
    }
  }

 private:
  // From the transport below.
  Landing landing(int peer, const FrameHeader& header) override { return receiver_->landing(peer, header); }
  void landed(int peer, const FrameHeader& header, std::uint64_t token) override {
    receiver_->landed(peer, header, token);
  }
  void lost(int peer, const Error& error) override {
    if (!channels_[peer]) {
      receiver_->lost(peer, error);
      return;
    }
    {
      std::lock_guard lock(mutex_);
      channels_[peer]->lost = error;
    }
    inbox_.bell().ring();
  }

  void run() {
    while (!stopping_) {
      std::uint32_t heard = inbox_.bell().heard();
      bool moved = false;
      for (auto& channel : channels_) {
        if (channel && !channel->ended) moved = turn(*channel) || moved;
      }
      if (closing_) {
        std::lock_guard lock(mutex_);
        written_.notify_all();
      }
      if (!moved && !stopping_) inbox_.bell().sleep(heard);
    }
  }

  bool turn(Channel& channel) {
    std::optional<Error> end;
    {
      std::lock_guard lock(mutex_);
      end = channel.lost;
    }
    bool read = false, written = false;
    try {
      read = channel.read();
      written = channel.write();
    } catch (const Error& error) {
      end = Error(ErrorCode::peer, "transport", fmt::format("{}: {}", peer_name(channel.peer()), error.message()), 0);
      read = false;
    }
    if (!end || read) return read || written;  // what came before the end is read first
    channel.ended = true;
    channel.close();
    if (!closing_) receiver_->lost(channel.peer(), *end);
    return true;
  }

  std::unique_ptr<Transport> below_;
  Inbox inbox_;
  std::vector<std::unique_ptr<Channel>> channels_;
  Receiver* receiver_ = nullptr;
  std::atomic<bool> closing_{false}, stopping_{false};
  std::mutex mutex_;
  std::condition_variable written_;
  std::thread progress_;
};

}  // namespace

std::unique_ptr<Transport> with_shared_memory(std::unique_ptr<Transport> below, Store& store, TimePoint deadline,
                                              const std::string& prefix) {
  std::vector<int> members;
  for (int peer = 0; peer < below->size(); ++peer)
    if (peer == below->rank() || below->reaches(peer)) members.push_back(peer);
  Neighbourhood neighbourhood = meet_neighbours(store, below->rank(), members, deadline, prefix);
  if (neighbourhood.neighbours.empty()) return below;
  return std::make_unique<SharedTransport>(std::move(below), std::move(neighbourhood));
}

}  // namespace lockstep::collectives
