#include "lockstep/collectives/exchange.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace lockstep::collectives {
namespace {

constexpr std::uint64_t kKeep = 0, kDiscard = ~std::uint64_t{0};  // landing tokens beside those of posted receives
constexpr std::size_t kMessageCharge = 128;                       // what keeping a message costs beside its bytes
constexpr std::size_t kMaxControlBytes = 64 << 10;
constexpr std::size_t kMaxForgotten = 4096;
constexpr std::size_t kMaxForeignLedgers = 256;  // of meshes that peers have come to before this process

std::shared_ptr<const Error> make_error(ErrorCode code, std::string message) {
  return std::make_shared<const Error>(code, "collective", std::move(message), 0);
}

const std::shared_ptr<const Error>& revoked_error() {
  static const auto error = make_error(ErrorCode::cancelled, "the operation was cancelled");
  return error;
}

}  // namespace

std::size_t Exchange::KeyHash::operator()(const Key& key) const {
  std::uint64_t h = 0;
  auto mix = [&](std::uint64_t v) { h = (h ^ v) * 0x9e3779b97f4a7c15ull, h ^= h >> 29; };
  mix(key.tag.communicator);
  mix(key.tag.launch);
  mix(key.tag.op);
  mix(std::uint64_t{key.tag.occurrence} << 32 | key.tag.group);
  mix(std::uint64_t{key.tag.item} << 32 | key.tag.chunk);
  mix(static_cast<std::uint64_t>(key.peer));
  return h;
}

Exchange::Exchange(std::unique_ptr<Transport> transport, Options options, Events* events)
    : options_(options),
      events_(events),
      transport_(std::move(transport)),
      rank_(transport_->rank()),
      size_(transport_->size()),
      peers_(size_) {}

// The progress thread ends before the tables go.
Exchange::~Exchange() { transport_.reset(); }

FrameHeader Exchange::header_locked(int peer, FrameKind kind, const Tag& tag) {
  FrameHeader header;
  header.kind = kind;
  header.tag = tag;
  header.credit = peers_[peer].announced = peers_[peer].consumed;
  if (auto ledger = ledgers_.find(tag.communicator); ledger != ledgers_.end()) {
    LaunchStamp stamp = ledger->second.launches.stamp(tag.launch);
    header.launched = stamp.history;
    header.program = stamp.program;
  }
  return header;
}

bool Exchange::consume_locked(int peer, std::size_t bytes) {
  Peer& p = peers_[peer];
  p.consumed += bytes + kMessageCharge;
  return p.consumed - p.announced >= options_.window / 4;
}

bool Exchange::forgotten_locked(const Tag& tag) const {
  return std::find(forgotten_.begin(), forgotten_.end(), std::pair(tag.communicator, tag.launch)) != forgotten_.end();
}

std::shared_ptr<const Error> Exchange::mismatch(int peer, std::size_t their_total, std::uint32_t their_fingerprint,
                                                std::size_t total, std::uint32_t fingerprint) const {
  if (their_total == total && their_fingerprint == fingerprint) return nullptr;
  return make_error(ErrorCode::diverged,
                    fmt::format("{} takes part with another operation or other shapes ({} bytes there, {} here): the "
                                "processes run different programs",
                                peer_name(peer), their_total, total));
}

void Exchange::send_header(int peer, FrameKind kind, const Tag& tag, std::uint64_t total, std::uint32_t fingerprint) {
  OutgoingFrame frame;
  {
    std::lock_guard lock(mutex_);
    frame.header = header_locked(peer, kind, tag);
  }
  frame.header.total = total;
  frame.header.fingerprint = fingerprint;
  transport_->send(peer, std::move(frame));
}

void Exchange::begin_launch(std::uint64_t communicator, LaunchedProgram program) {
  std::unique_lock lock(mutex_);
  auto other = own_ledger_locked(communicator).launches.begin(std::move(program));
  lock.unlock();
  if (other) events_->on_diverged(*other, communicator);
}

void Exchange::intend_launch(std::uint64_t communicator, LaunchedProgram program) {
  std::unique_lock lock(mutex_);
  auto other = own_ledger_locked(communicator).launches.intend(std::move(program));
  lock.unlock();
  if (other) events_->on_diverged(*other, communicator);
}

void Exchange::end_intent(std::uint64_t communicator, std::uint64_t program) {
  std::lock_guard lock(mutex_);
  own_ledger_locked(communicator).launches.end_intent(program);
}

std::string Exchange::launches(std::uint64_t communicator) const {
  std::lock_guard lock(mutex_);
  auto ledger = ledgers_.find(communicator);
  return ledger == ledgers_.end() ? std::string() : ledger->second.launches.text();
}

void Exchange::forget_launches(std::uint64_t communicator) {
  std::lock_guard lock(mutex_);
  auto ledger = ledgers_.find(communicator);
  if (ledger == ledgers_.end()) return;
  if (!ledger->second.own) --foreign_ledgers_;
  ledgers_.erase(ledger);
}

Exchange::Ledger& Exchange::own_ledger_locked(std::uint64_t communicator) {
  auto [it, fresh] = ledgers_.try_emplace(communicator);
  if (!it->second.own && !fresh) --foreign_ledgers_;
  it->second.own = true;
  return it->second;
}

Exchange::Ledger* Exchange::ledger_for_peer_locked(std::uint64_t communicator) {
  if (auto it = ledgers_.find(communicator); it != ledgers_.end()) return &it->second;
  if (foreign_ledgers_ >= kMaxForeignLedgers) return nullptr;
  ++foreign_ledgers_;
  return &ledgers_[communicator];
}

void Exchange::control(int peer, FrameKind kind, const Tag& tag, std::string payload) {
  if (payload.size() > kMaxControlBytes) payload.resize(kMaxControlBytes);
  auto text = std::make_shared<const std::string>(std::move(payload));
  OutgoingFrame frame;
  {
    std::lock_guard lock(mutex_);
    if (peers_[peer].gone) return;
    frame.header = header_locked(peer, kind, tag);
  }
  frame.header.length = frame.header.total = text->size();
  frame.pieces.push_back(std::as_bytes(std::span(*text)));
  frame.sent = [text](bool) {};
  transport_->send(peer, std::move(frame));
}

std::shared_ptr<const Error> Exchange::peer_error(int peer) const {
  std::lock_guard lock(mutex_);
  return peers_[peer].gone;
}

// ---- the caller's side ----------------------------------------------------------------------------------------------

void Exchange::send(int peer, const Tag& tag, std::uint32_t fingerprint, std::vector<Piece> pieces, std::uint64_t lease,
                    Outcome outcome) {
  Waiting waiting{std::move(pieces), 0, fingerprint, lease, std::move(outcome)};
  waiting.total = total_bytes(waiting.pieces);
  Key key{peer, tag};
  std::unique_lock lock(mutex_);
  if (peer == rank_) {
    auto it = posted_.find(key);
    if (it == posted_.end()) {
      waiting_.emplace(key, std::move(waiting));
      return;
    }
    Posted posted = std::move(it->second);
    posted_.erase(it);
    lock.unlock();
    meet_at_home(std::move(posted), std::move(waiting));
    return;
  }
  if (auto error = peers_[peer].gone) {
    lock.unlock();
    waiting.outcome(error.get());
    return;
  }
  Peer& p = peers_[peer];
  std::size_t charge = waiting.total + kMessageCharge;
  if (waiting.total <= options_.eager_bytes && p.sent - p.returned + charge <= options_.window) {
    p.sent += charge;
    OutgoingFrame frame;
    frame.header = header_locked(peer, FrameKind::eager, tag);
    lock.unlock();
    frame.header.length = frame.header.total = waiting.total;
    frame.header.fingerprint = fingerprint;
    frame.pieces = std::move(waiting.pieces);
    frame.lease = lease;
    frame.sent = [this, peer, outcome = std::move(waiting.outcome)](bool ok) {
      auto error = ok ? nullptr : peer_error(peer);
      outcome(ok ? nullptr : error ? error.get() : revoked_error().get());
    };
    transport_->send(peer, std::move(frame));
    return;
  }
  auto accepted = accepted_.find(key);
  if (accepted == accepted_.end()) {
    std::size_t total = waiting.total;
    waiting_.emplace(key, std::move(waiting));
    lock.unlock();
    send_header(peer, FrameKind::offer, tag, total, fingerprint);
    return;
  }
  auto error = mismatch(peer, accepted->second.total, accepted->second.fingerprint, waiting.total, fingerprint);
  accepted_.erase(accepted);
  lock.unlock();
  if (error) {
    waiting.outcome(error.get());
  } else {
    send_bulk(peer, tag, std::move(waiting));
  }
}

void Exchange::receive(int peer, const Tag& tag, std::uint32_t fingerprint, std::vector<MutablePiece> pieces,
                       std::uint64_t lease, Outcome outcome) {
  std::size_t total = total_bytes(std::span<const MutablePiece>(pieces));
  post(peer, tag, {std::move(pieces), {}, total, fingerprint, lease, std::move(outcome)});
}

void Exchange::receive(int peer, const Tag& tag, std::uint32_t fingerprint, std::size_t bytes, Sink sink,
                       std::uint64_t lease, Outcome outcome) {
  post(peer, tag, {{}, std::move(sink), bytes, fingerprint, lease, std::move(outcome)});
}

void Exchange::Posted::take(std::span<const Piece> message) const {
  if (!sink) {
    copy_pieces(pieces, message);
    return;
  }
  for (Piece part : message) {
    if (!part.empty()) sink(part);
  }
}

void Exchange::post(int peer, const Tag& tag, Posted posted) {
  Key key{peer, tag};
  std::unique_lock lock(mutex_);
  posted.token = next_token_++;
  if (peer == rank_) {
    auto it = waiting_.find(key);
    if (it == waiting_.end()) {
      posted_.emplace(key, std::move(posted));
      return;
    }
    Waiting waiting = std::move(it->second);
    waiting_.erase(it);
    lock.unlock();
    meet_at_home(std::move(posted), std::move(waiting));
    return;
  }
  bool accept = posted.total > options_.eager_bytes;
  if (auto it = kept_.find(key); it != kept_.end()) {
    bool complete = it->second.complete, offered = it->second.offered;
    auto error = mismatch(peer, it->second.total, it->second.fingerprint, posted.total, posted.fingerprint);
    if (complete) {
      Kept kept = std::move(it->second);
      kept_.erase(it);
      bool credit = consume_locked(peer, kept.total);
      lock.unlock();
      Piece message(kept.data.get(), kept.total);
      if (!error) posted.take(std::span(&message, 1));
      if (credit) send_header(peer, FrameKind::credit, tag, 0, 0);
      posted.outcome(error.get());
      return;
    }
    if (offered) {
      kept_.erase(it);
      if (error) {
        lock.unlock();
        posted.outcome(error.get());
        return;
      }
      accept = true;
    }
  }
  if (auto error = peers_[peer].gone) {
    lock.unlock();
    posted.outcome(error.get());
    return;
  }
  std::size_t total = posted.total;
  std::uint32_t fingerprint = posted.fingerprint;
  bool fresh = posted_.emplace(key, std::move(posted)).second;
  LS_CHECK(fresh, "two receives for one message (op {}, item {}, chunk {})", tag.op, tag.item, tag.chunk);
  lock.unlock();
  if (accept) send_header(peer, FrameKind::accept, tag, total, fingerprint);
}

void Exchange::meet_at_home(Posted posted, Waiting waiting) {
  auto error = mismatch(rank_, waiting.total, waiting.fingerprint, posted.total, posted.fingerprint);
  if (!error) posted.take(waiting.pieces);
  posted.outcome(error.get());
  waiting.outcome(error.get());
}

void Exchange::send_bulk(int peer, const Tag& tag, Waiting waiting) {
  struct Progress {
    std::atomic<std::size_t> left;
    std::atomic<bool> failed{false};
    Outcome outcome;
  };
  std::size_t fragments =
      std::max<std::size_t>(1, (waiting.total + options_.fragment_bytes - 1) / options_.fragment_bytes);
  auto progress = std::make_shared<Progress>();
  progress->left = fragments;
  progress->outcome = std::move(waiting.outcome);
  for (std::size_t i = 0; i < fragments; ++i) {
    OutgoingFrame frame;
    {
      std::lock_guard lock(mutex_);
      frame.header = header_locked(peer, FrameKind::bulk, tag);
    }
    frame.header.offset = i * options_.fragment_bytes;
    frame.header.length = std::min(options_.fragment_bytes, waiting.total - frame.header.offset);
    frame.header.total = waiting.total;
    frame.header.fingerprint = waiting.fingerprint;
    frame.pieces = slice(std::span<const Piece>(waiting.pieces), frame.header.offset, frame.header.length);
    frame.lease = waiting.lease;
    frame.urgent = false;
    frame.sent = [this, peer, progress](bool ok) {
      if (!ok) progress->failed = true;
      if (--progress->left > 0) return;
      auto error = progress->failed ? peer_error(peer) : nullptr;
      progress->outcome(!progress->failed ? nullptr : error ? error.get() : revoked_error().get());
    };
    transport_->send(peer, std::move(frame));
  }
}

void Exchange::revoke(std::uint64_t lease) {
  std::vector<Outcome> outcomes;
  {
    std::lock_guard lock(mutex_);
    auto take = [&](auto& table) {
      for (auto it = table.begin(); it != table.end();) {
        if (it->second.lease != lease) {
          ++it;
          continue;
        }
        outcomes.push_back(std::move(it->second.outcome));
        it = table.erase(it);
      }
    };
    take(posted_);
    take(waiting_);
  }
  transport_->revoke(lease);
  for (Outcome& outcome : outcomes) outcome(revoked_error().get());
}

void Exchange::forget(std::uint64_t communicator, std::uint64_t launch) {
  std::vector<bool> credit(size_);
  {
    std::lock_guard lock(mutex_);
    forgotten_.emplace_back(communicator, launch);
    if (forgotten_.size() > kMaxForgotten) forgotten_.pop_front();
    auto mine = [&](const Key& key) { return key.tag.communicator == communicator && key.tag.launch == launch; };
    for (auto it = kept_.begin(); it != kept_.end();) {
      bool arriving = !it->second.complete && !it->second.offered;
      if (!mine(it->first) || arriving) {  // what arrives now is dropped when it has landed
        ++it;
        continue;
      }
      if (it->second.complete && consume_locked(it->first.peer, it->second.total)) credit[it->first.peer] = true;
      it = kept_.erase(it);
    }
    std::erase_if(accepted_, [&](const auto& entry) { return mine(entry.first); });
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (credit[peer]) send_header(peer, FrameKind::credit, {}, 0, 0);
  }
}

void Exchange::leave() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) return;
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (!transport_->reaches(peer)) continue;
    OutgoingFrame frame;
    {
      std::lock_guard lock(mutex_);
      if (peers_[peer].gone) continue;
      frame.header = header_locked(peer, FrameKind::goodbye, {});
    }
    frame.urgent = false;
    transport_->send(peer, std::move(frame));
  }
}

void Exchange::close(TimePoint deadline) {
  leave();
  transport_->close(deadline);
}

// ---- the progress thread's side -------------------------------------------------------------------------------------

Landing Exchange::landing(int peer, const FrameHeader& header) {
  auto require = [&](bool condition) {
    if (!condition) throw Error(ErrorCode::peer, "transport", peer_name(peer) + " sent a malformed frame", 0);
  };
  std::lock_guard lock(mutex_);
  Key key{peer, header.tag};
  switch (header.kind) {
    case FrameKind::eager: {
      require(header.length == header.total && header.total <= options_.eager_bytes);
      if (auto it = posted_.find(key); it != posted_.end()) {
        const Posted& posted = it->second;
        if (posted.total != header.total) return {.token = posted.token};
        return {posted.pieces, posted.sink, posted.lease, posted.token};
      }
      if (forgotten_locked(header.tag)) return {.token = kDiscard};
      auto [it, fresh] = kept_.try_emplace(key);
      require(fresh);
      Kept& kept = it->second;
      kept.data = std::make_unique_for_overwrite<std::byte[]>(header.total);
      kept.total = header.total;
      kept.fingerprint = header.fingerprint;
      return {.pieces = {MutablePiece(kept.data.get(), kept.total)}, .token = kKeep};
    }
    case FrameKind::bulk: {
      require(header.offset <= header.total && header.length <= header.total - header.offset);
      auto it = posted_.find(key);
      if (it == posted_.end()) return {.token = kDiscard};
      const Posted& posted = it->second;
      require(posted.total == header.total);  // he has seen our total in the accept
      if (posted.sink) {
        require(posted.received == header.offset);
        return {{}, posted.sink, posted.lease, posted.token};
      }
      return {slice(std::span<const MutablePiece>(posted.pieces), header.offset, header.length),
              {},
              posted.lease,
              posted.token};
    }
    case FrameKind::cancel:
    case FrameKind::abort:
    case FrameKind::reply:
    case FrameKind::history: {
      require(header.length <= kMaxControlBytes);
      std::string& text = peers_[peer].control;
      text.resize(header.length);
      return {.pieces = {std::as_writable_bytes(std::span(text))}};
    }
    case FrameKind::offer:
    case FrameKind::accept:
    case FrameKind::credit:
    case FrameKind::query:
    case FrameKind::recall:
    case FrameKind::goodbye:
      require(header.length == 0);
      return {};
  }
  require(false);
  return {};
}

void Exchange::landed(int peer, const FrameHeader& header, std::uint64_t token) {
  std::string text;
  bool same = true;
  {
    std::lock_guard lock(mutex_);
    peers_[peer].returned = std::max(peers_[peer].returned, header.credit);
    text.swap(peers_[peer].control);
    if (header.launched != 0 && header.kind != FrameKind::bulk)
      if (Ledger* ledger = ledger_for_peer_locked(header.tag.communicator))
        same = ledger->launches.check(peer, header.tag.launch, {header.launched, header.program});
  }
  if (!same) events_->on_diverged(peer, header.tag.communicator);
  switch (header.kind) {
    case FrameKind::eager:
      return landed_eager(peer, header, token);
    case FrameKind::bulk:
      return landed_bulk(peer, header, token);
    case FrameKind::offer:
      return landed_offer(peer, header);
    case FrameKind::accept:
      return landed_accept(peer, header);
    case FrameKind::credit:
      return;
    case FrameKind::goodbye: {
      Calls calls;
      {
        std::lock_guard lock(mutex_);
        peers_[peer].left = true;
        peer_gone_locked(
            peer,
            make_error(ErrorCode::peer,
                       peer_name(peer) + " has left the gang, in good order: it takes part in nothing more"),
            calls);
      }
      for (auto& [outcome, error] : calls) outcome(error.get());
      return;
    }
    case FrameKind::cancel:
    case FrameKind::abort:
    case FrameKind::query:
    case FrameKind::reply:
    case FrameKind::recall:
    case FrameKind::history:
      if (!peer_error(peer)) events_->on_control(peer, header, text);
  }
}

void Exchange::landed_eager(int peer, const FrameHeader& header, std::uint64_t token) {
  Key key{peer, header.tag};
  Outcome outcome;
  std::shared_ptr<const Error> error;
  bool credit;
  {
    std::lock_guard lock(mutex_);
    auto posted = posted_.find(key);
    bool wanted = token != kDiscard && posted != posted_.end() && (token == kKeep || posted->second.token == token);
    if (wanted) {
      error = mismatch(peer, header.total, header.fingerprint, posted->second.total, posted->second.fingerprint);
    }
    if (token == kKeep) {
      auto kept = kept_.find(key);
      LS_CHECK(kept != kept_.end());
      if (!wanted && !forgotten_locked(header.tag)) {
        kept->second.complete = true;
        return;
      }
      if (wanted && !error) {  // the receive came while the message was arriving
        Piece message(kept->second.data.get(), kept->second.total);
        posted->second.take(std::span(&message, 1));
      }
      kept_.erase(kept);
    }
    if (wanted) {
      outcome = std::move(posted->second.outcome);
      posted_.erase(posted);
    }
    credit = consume_locked(peer, header.total);
  }
  if (credit) send_header(peer, FrameKind::credit, {}, 0, 0);
  if (outcome) outcome(error.get());
}

void Exchange::landed_bulk(int peer, const FrameHeader& header, std::uint64_t token) {
  Outcome outcome;
  {
    std::lock_guard lock(mutex_);
    auto it = posted_.find({peer, header.tag});
    if (it == posted_.end() || it->second.token != token) return;
    it->second.received += header.length;
    if (it->second.received < it->second.total) return;
    outcome = std::move(it->second.outcome);
    posted_.erase(it);
  }
  outcome(nullptr);
}

void Exchange::landed_offer(int peer, const FrameHeader& header) {
  Key key{peer, header.tag};
  Outcome outcome;
  std::shared_ptr<const Error> error;
  {
    std::lock_guard lock(mutex_);
    auto it = posted_.find(key);
    if (it == posted_.end()) {
      if (!forgotten_locked(header.tag)) {
        kept_[key] = {.total = header.total, .fingerprint = header.fingerprint, .offered = true};
      }
      return;
    }
    error = mismatch(peer, header.total, header.fingerprint, it->second.total, it->second.fingerprint);
    if (error) {
      outcome = std::move(it->second.outcome);
      posted_.erase(it);
    } else if (it->second.total > options_.eager_bytes) {
      return;  // accepted when it was posted
    }
  }
  if (error) {
    outcome(error.get());
  } else {
    send_header(peer, FrameKind::accept, header.tag, header.total, header.fingerprint);
  }
}

void Exchange::landed_accept(int peer, const FrameHeader& header) {
  Key key{peer, header.tag};
  Waiting waiting;
  {
    std::lock_guard lock(mutex_);
    auto it = waiting_.find(key);
    if (it == waiting_.end()) {
      if (!forgotten_locked(header.tag)) accepted_[key] = {header.total, header.fingerprint};
      return;
    }
    waiting = std::move(it->second);
    waiting_.erase(it);
  }
  if (auto error = mismatch(peer, header.total, header.fingerprint, waiting.total, waiting.fingerprint)) {
    waiting.outcome(error.get());
  } else {
    send_bulk(peer, header.tag, std::move(waiting));
  }
}

void Exchange::peer_gone_locked(int peer, std::shared_ptr<const Error> error, Calls& calls) {
  peers_[peer].gone = error;
  auto take = [&](auto& table) {
    for (auto it = table.begin(); it != table.end();) {
      if (it->first.peer != peer) {
        ++it;
        continue;
      }
      calls.emplace_back(std::move(it->second.outcome), error);
      it = table.erase(it);
    }
  };
  take(posted_);
  take(waiting_);
  std::erase_if(accepted_, [&](const auto& entry) { return entry.first.peer == peer; });
}

void Exchange::lose(int peer, const Error& error) {
  {
    std::lock_guard lock(mutex_);
    if (peers_[peer].gone) return;
    peers_[peer].gone = std::make_shared<const Error>(error);
  }
  events_->on_lost(peer, error);
}

void Exchange::lost(int peer, const Error& error) {
  auto shared = std::make_shared<const Error>(error);
  Calls calls;
  bool expected;
  {
    std::lock_guard lock(mutex_);
    expected = peers_[peer].left;
    if (!expected) peer_gone_locked(peer, shared, calls);
    // A message that was arriving will not complete.
    std::erase_if(kept_, [&](const auto& entry) { return entry.first.peer == peer && !entry.second.complete; });
  }
  for (auto& [outcome, reason] : calls) outcome(reason.get());
  if (!expected) events_->on_lost(peer, error);
}

}  // namespace lockstep::collectives
