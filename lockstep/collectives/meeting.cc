#include "lockstep/collectives/meeting.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep::collectives {
namespace {

constexpr std::size_t kCopyPart = 1 << 20;

thread_local const Meeting* beginning = nullptr;

}  // namespace

Meeting::Meeting(MeetingInit init)
    : host_(init.host),
      id_(init.id),
      spec_(std::move(init.spec)),
      plan_(std::move(init.plan)),
      expected_(init.expected),
      lease_(init.lease),
      started_(init.started),
      deadline_(init.deadline),
      pending_(plan_.sites.size()) {}

void Meeting::arrive_locked(Call call) {
  last_ = call.partition;
  auto behind = [&](const Call& other) { return other.position > call.position; };
  calls_.insert(std::find_if(calls_.begin(), calls_.end(), behind), std::move(call));
}

Done Meeting::begin() {
  auto self = shared_from_this();
  const Meeting* outer = std::exchange(beginning, this);
  try {
    check();
    fingerprint_ = fingerprint();
    run();
  } catch (const Error& error) {
    host_->meeting_failed(*this, error);
  }
  bool ended = release();
  beginning = outer;
  return ended ? std::move(call_at(plan_.position(last_)).done) : Done{};
}

void Meeting::abandon(std::shared_ptr<const Error> error) {
  fail(std::move(error));
  release();
}

void Meeting::fail(std::shared_ptr<const Error> error) {
  {
    std::lock_guard lock(mutex_);
    if (failed_) return;
    error_ = std::move(error);
    failed_ = true;
  }
  host_->exchange().revoke(lease_);
}

std::shared_ptr<const Error> Meeting::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

bool Meeting::release() {
  if (holds_.fetch_sub(1) > 1) return false;
  host_->meeting_ended(*this);
  for (Call& call : calls_) {
    if (beginning == this && call.partition == last_) continue;  // begin() returns it
    host_->completions().post([done = std::move(call.done), error = error()] { done(error.get()); });
  }
  return true;
}

void Meeting::failed_with(const Error& cause) {
  if (failed_) return;
  host_->meeting_failed(*this, Error(cause.code(), to_string(spec_->op), describe() + ": " + cause.message(), 0));
}

void Meeting::recheck() {
  if (failed_) host_->exchange().revoke(lease_);
}

std::size_t Meeting::input_bytes() const {
  std::size_t n = 0;
  for (const Call& call : calls_) {
    for (const InBuffer& input : call.inputs) n += input.bytes;
  }
  return n;
}

std::vector<int> Meeting::waiting_for() const {
  std::vector<int> processes;
  for (std::size_t i = 0; i < plan_.sites.size(); ++i) {
    if (pending_[i] > 0) processes.push_back(plan_.sites[i].process);
  }
  return processes;
}

std::string Meeting::describe() const {
  std::string text = fmt::format("{} in launch {}", spec_->name, id_.launch);
  if (id_.occurrence > 0) text += fmt::format(", call {}", id_.occurrence + 1);
  return text;
}

std::uint32_t Meeting::fingerprint() const {
  std::uint64_t h = 14695981039346656037ull;
  auto mix = [&](std::uint64_t v) { h = (h ^ v) * 1099511628211ull, h ^= h >> 32; };
  mix(static_cast<std::uint64_t>(spec_->op));
  mix(static_cast<std::uint64_t>(spec_->reduction));
  for (std::int64_t member : spec_->groups) mix(member);
  for (std::int64_t partition : spec_->pairs) mix(partition);
  for (const InBuffer& input : calls_.front().inputs) {
    mix(static_cast<std::uint64_t>(input.dtype));
    mix(input.count);
  }
  return static_cast<std::uint32_t>(h ^ (h >> 32));
}

Tag Meeting::tag(std::uint32_t item, std::uint32_t chunk) const {
  return {id_.communicator, id_.launch, static_cast<std::uint64_t>(id_.op), id_.occurrence, id_.group, item, chunk};
}

void Meeting::guarded(const std::function<void()>& task) {
  if (failed_ || !task) return;
  try {
    task();
  } catch (const Error& error) {
    failed_with(error);
  }
}

void Meeting::send(int site, const Tag& tag, std::vector<Piece> pieces, std::function<void()> then) {
  int process = plan_.sites[site].process;
  if (site != plan_.home) sent_ += total_bytes(pieces);
  hold();
  host_->exchange().send(process, tag, fingerprint_, std::move(pieces), lease_,
                         [self = shared_from_this(), then = std::move(then)](const Error* error) {
                           if (error) self->failed_with(*error);
                           self->guarded(then);
                           self->release();
                         });
  recheck();
}

void Meeting::receive(int site, const Tag& tag, std::vector<MutablePiece> pieces, std::function<void()> then) {
  host_->exchange().receive(plan_.sites[site].process, tag, fingerprint_, std::move(pieces), lease_,
                            receiving(site, std::move(then)));
  recheck();
}

void Meeting::receive(int site, const Tag& tag, std::size_t bytes, Sink sink, std::function<void()> then) {
  host_->exchange().receive(plan_.sites[site].process, tag, fingerprint_, bytes, std::move(sink), lease_,
                            receiving(site, std::move(then)));
  recheck();
}

Exchange::Outcome Meeting::receiving(int site, std::function<void()> then) {
  hold();
  ++pending_[site];
  return [self = shared_from_this(), site, then = std::move(then)](const Error* error) {
    --self->pending_[site];
    if (error) self->failed_with(*error);
    self->guarded(then);
    self->release();
  };
}

void Meeting::work(std::size_t bytes, std::function<void()> task) {
  if (bytes <= host_->options().inline_bytes) {
    guarded(task);
    return;
  }
  hold();
  host_->workers().post([self = shared_from_this(), task = std::move(task)] {
    self->guarded(task);
    self->release();
  });
}

void Meeting::copy(void* to, const void* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kCopyPart) {
    std::size_t n = std::min(kCopyPart, bytes - at);
    work(bytes, [=] { std::memcpy(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at, n); });
  }
}

Call& Meeting::call_at(int position) {
  auto found = std::find_if(calls_.begin(), calls_.end(), [&](const Call& c) { return c.position == position; });
  LS_CHECK(found != calls_.end());
  return *found;
}

void Meeting::reject(ErrorCode code, const std::string& why) const {
  throw Error(code, to_string(spec_->op), describe() + ": " + why, 0);
}

void Meeting::check_like(std::size_t input_factor, std::size_t output_factor) const {
  const Call& first = calls_.front();
  for (const Call& call : calls_) {
    if (call.inputs.size() != call.outputs.size() || call.inputs.size() != first.inputs.size()) {
      reject(ErrorCode::invalid_argument, fmt::format("partition {} has {} inputs and {} outputs", call.partition,
                                                      call.inputs.size(), call.outputs.size()));
    }
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      const InBuffer& in = call.inputs[k];
      const OutBuffer& out = call.outputs[k];
      bool alike = in.dtype == out.dtype && in.bytes * input_factor == out.bytes * output_factor &&
                   in.bytes == in.count * itemsize(in.dtype) && in.bytes == first.inputs[k].bytes &&
                   in.dtype == first.inputs[k].dtype;
      if (!alike) {
        reject(ErrorCode::shape,
               fmt::format("partition {}: input {} is {}[{}], output {} is {}[{}]: the group has {} members",
                           call.partition, k, short_name(in.dtype), in.count, k, short_name(out.dtype), out.count,
                           plan_.members.size()));
      }
    }
  }
}

std::shared_ptr<Meeting> make_meeting(MeetingInit init) {
  switch (init.spec->op) {
    case CollectiveOp::all_reduce:
      return make_all_reduce(std::move(init));
    case CollectiveOp::all_gather:
      return make_all_gather(std::move(init));
    case CollectiveOp::reduce_scatter:
      return make_reduce_scatter(std::move(init));
    case CollectiveOp::all_to_all:
      return make_all_to_all(std::move(init));
    case CollectiveOp::collective_permute:
      return make_permute(std::move(init));
    case CollectiveOp::collective_broadcast:
      return make_broadcast(std::move(init));
    case CollectiveOp::ragged_all_to_all:
      return make_ragged_all_to_all(std::move(init));
  }
  LS_CHECK(false, "unknown collective");
}

}  // namespace lockstep::collectives
