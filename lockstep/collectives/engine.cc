#include "lockstep/collectives/engine.h"

#include <algorithm>
#include <utility>

#include "lockstep/collectives/engine_impl.h"

namespace lockstep::collectives {
namespace {

constexpr std::chrono::seconds kCloseDeadline{5};
constexpr std::size_t kMaxCommunicators = 4096;  // known only from peers' cancelled launches

int threads_or(int wanted, int least) {
  if (wanted > 0) return wanted;
  return std::max<int>(least, static_cast<int>(std::thread::hardware_concurrency()));
}

// An error as a control frame's text: code, operation and message, one after the other.
std::string encode(const Error& error) {
  return fmt::format("{}\n{}\n{}", static_cast<int>(error.code()), error.operation(), error.message());
}
Error decode(const std::string& text, const std::string& from) {
  auto first = text.find('\n'), second = text.find('\n', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    return Error(ErrorCode::peer, "collective", from + " reports an error", 0);
  }
  int code = std::atoi(text.c_str());
  if (code < 0 || code > static_cast<int>(ErrorCode::io)) code = static_cast<int>(ErrorCode::peer);
  return Error(static_cast<ErrorCode>(code), text.substr(first + 1, second - first - 1),
               fmt::format("{} (reported by {})", text.substr(second + 1), from), 0);
}

}  // namespace

std::size_t Engine::Impl::MeetingIdHash::operator()(const MeetingId& id) const {
  std::uint64_t h = id.communicator;
  auto mix = [&](std::uint64_t v) { h = (h ^ v) * 0x9e3779b97f4a7c15ull, h ^= h >> 29; };
  mix(id.launch);
  mix(static_cast<std::uint64_t>(id.op));
  mix(std::uint64_t{id.occurrence} << 32 | id.group);
  return h;
}

Engine::Impl::Impl(std::unique_ptr<Transport> transport, EngineOptions options)
    : options_(options),
      exchange_(std::move(transport), {.eager_bytes = options.direct_bytes}, this),
      workers_(std::make_unique<WorkerPool>("ls-collective", threads_or(options.workers, 1))),
      completions_(std::make_unique<WorkerPool>("ls-complete", threads_or(options.completions, 2))),
      watcher_([this] { watch_deadlines(); }) {
  exchange_.start();
}

void Engine::Impl::close() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
  }
  fail(Error(ErrorCode::cancelled, "collective", "the engine is shut down", 0), false);
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    watch_.notify_all();
  }
  watcher_.join();
  exchange_.close(std::chrono::steady_clock::now() + kCloseDeadline);
  workers_->close();
  completions_->close();
}

void Engine::Impl::add_communicator(Communicator communicator) {
  for (int process : communicator.processes) {
    if (process < 0 || process >= size()) {
      throw_error(ErrorCode::invalid_argument, "add_communicator", "process {} is not one of the {} of the gang",
                  process, size());
    }
    LS_CHECK(process == rank() || exchange_.reaches(process), "process {} is not connected", process);
  }
  std::lock_guard lock(mutex_);
  State& state = communicators_[communicator.id];  // a launch of it may have been cancelled by others already
  state.local = std::count(communicator.processes.begin(), communicator.processes.end(), rank());
  state.communicator = std::move(communicator);
  for (int process : state.communicator.processes) {
    auto gone = process == rank() ? nullptr : exchange_.peer_error(process);
    if (gone && !state.failure) state.failure = gone;
  }
}

void Engine::Impl::remove_communicator(std::uint64_t id) {
  fail_communicator(id, std::make_shared<const Error>(ErrorCode::cancelled, "collective", "the mesh was given up", 0));
  exchange_.forget_launches(id);
  std::lock_guard lock(mutex_);
  communicators_.erase(id);
}

void Engine::Impl::start(std::shared_ptr<const CollectiveSpec> spec, std::uint64_t communicator, std::uint64_t launch,
                         std::int64_t partition, std::span<const InBuffer> inputs, std::span<const OutBuffer> outputs,
                         Done done) {
  Call call;
  call.partition = partition;
  call.inputs.assign(inputs.begin(), inputs.end());
  call.outputs.assign(outputs.begin(), outputs.end());
  if (!inputs.empty() && !inputs[0].dims.empty()) call.rows_in = inputs[0].dims[0];
  if (!outputs.empty() && !outputs[0].dims.empty()) call.rows_out = outputs[0].dims[0];
  for (InBuffer& input : call.inputs) input.dims = {};
  for (OutBuffer& output : call.outputs) output.dims = {};

  Failure failure;
  std::shared_ptr<Meeting> meeting;
  bool begins = false;
  try {
    std::lock_guard lock(mutex_);
    auto found = communicators_.find(communicator);
    if (found == communicators_.end() || found->second.local == 0) {
      throw_error(ErrorCode::invalid_argument, to_string(spec->op), "{}: there is no communicator {} here", spec->name,
                  communicator);
    }
    State& state = found->second;
    state.latest = std::max(state.latest, launch);
    Launch& record = state.launches[launch];
    failure = failure_locked(state, record);
    if (!failure) {
      MeetingInit init{this, {communicator, launch, spec->id}, std::move(spec)};
      init.id.occurrence = record.calls[{init.id.op, partition}]++;
      init.plan = make_plan(*init.spec, state.communicator, partition, rank());
      bool alone = init.spec->op == CollectiveOp::collective_permute;
      init.id.group = static_cast<std::uint32_t>(alone ? partition : init.plan.members.front());
      call.position = init.plan.position(partition);
      init.expected = alone ? 1 : init.plan.here().positions.size();
      Entry& entry = meetings_[init.id];
      if (!entry.meeting) {
        init.lease = next_lease_++;
        init.started = std::chrono::steady_clock::now();
        entry.deadline = init.deadline = init.started + options_.deadline;
        entry.meeting = make_meeting(std::move(init));
        if (entry.deadline < wakes_) watch_.notify_all();
      }
      call.done = std::move(done);
      meeting = entry.meeting;
      meeting->arrive_locked(std::move(call));
      begins = entry.begun = meeting->all_here_locked();
    }
  } catch (const Error& error) {
    fail_launch(communicator, launch, error, true);
    done(&error);
    return;
  }
  if (failure) {
    done(failure.get());
  } else if (begins) {
    if (Done mine = meeting->begin()) mine(meeting->error().get());
  }
}

void Engine::Impl::end_launch(std::uint64_t communicator, std::uint64_t launch, std::int64_t) {
  std::lock_guard lock(mutex_);
  auto state = communicators_.find(communicator);
  if (state == communicators_.end()) return;
  state->second.latest = std::max(state->second.latest, launch);
  Launch& record = state->second.launches[launch];
  if (++record.ended == state->second.local) state->second.launches.erase(launch);
}

// ---- meetings' ends -------------------------------------------------------------------------------------------------

void Engine::Impl::meeting_failed(const Meeting& meeting, const Error& error) {
  fail_launch(meeting.id().communicator, meeting.id().launch, error, true);
}

void Engine::Impl::meeting_ended(const Meeting& meeting) {
  auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  meetings_.erase(meeting.id());
  OpStatistics& total = statistics_[{meeting.spec().op, meeting.spec().name}];
  total.calls += meeting.calls().size();
  total.bytes += meeting.input_bytes();
  total.sent += meeting.bytes_sent();
  total.time += now - meeting.started();
}

Engine::Impl::Failure Engine::Impl::failure_locked(const State& state, const Launch& launch) const {
  return failure_ ? failure_ : state.failure ? state.failure : launch.failure;
}

template <class Predicate>
std::vector<Engine::Impl::Doomed> Engine::Impl::take_locked(Predicate predicate) {
  std::vector<Doomed> doomed;
  for (auto& [id, entry] : meetings_) {
    if (predicate(id)) doomed.push_back({entry.meeting, std::exchange(entry.begun, true)});
  }
  return doomed;
}

void Engine::Impl::end_with(const std::vector<Doomed>& doomed, const Failure& failure) {
  for (const auto& [meeting, begun] : doomed) {
    if (begun) {
      meeting->fail(failure);
    } else {
      meeting->abandon(failure);
    }
  }
}

std::vector<int> Engine::Impl::others_locked(const State& state) const {
  std::vector<int> others = state.communicator.processes;
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  std::erase(others, rank());
  return others;
}

void Engine::Impl::fail_launch(std::uint64_t communicator, std::uint64_t launch, const Error& error, bool tell) {
  auto failure = std::make_shared<const Error>(error);
  std::vector<Doomed> doomed;
  std::vector<int> others;
  {
    std::lock_guard lock(mutex_);
    // One that is not known here may be made later; but peers can't fill the memory.
    if (!tell && communicators_.size() >= kMaxCommunicators && !communicators_.contains(communicator)) return;
    State& state = communicators_[communicator];
    Launch& record = state.launches[launch];
    if (failure_locked(state, record)) return;
    record.failure = failure;
    doomed = take_locked([&](const MeetingId& id) { return id.communicator == communicator && id.launch == launch; });
    if (tell) others = others_locked(state);
  }
  exchange_.forget(communicator, launch);
  for (int other : others) {
    exchange_.control(other, FrameKind::cancel, {.communicator = communicator, .launch = launch}, encode(error));
  }
  end_with(doomed, failure);
}

void Engine::Impl::fail_communicator(std::uint64_t id, const Failure& failure) {
  std::vector<Doomed> doomed;
  std::vector<std::uint64_t> launches;
  {
    std::lock_guard lock(mutex_);
    auto state = communicators_.find(id);
    if (state == communicators_.end() || state->second.failure) return;
    state->second.failure = failure;
    for (const auto& [launch, record] : state->second.launches) launches.push_back(launch);
    doomed = take_locked([&](const MeetingId& meeting) { return meeting.communicator == id; });
  }
  for (std::uint64_t launch : launches) exchange_.forget(id, launch);
  end_with(doomed, failure);
}

void Engine::Impl::fail(const Error& error, bool tell) {
  auto failure = std::make_shared<const Error>(error);
  std::vector<Doomed> doomed;
  {
    std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    doomed = take_locked([](const MeetingId&) { return true; });
  }
  for (int other = 0; tell && other < size(); ++other) {
    if (exchange_.reaches(other)) exchange_.control(other, FrameKind::abort, {}, encode(error));
  }
  end_with(doomed, failure);
}

// ---- what peers say -------------------------------------------------------------------------------------------------

void Engine::Impl::on_control(int peer, const FrameHeader& header, const std::string& payload) {
  std::string from = exchange_.peer_name(peer);
  switch (header.kind) {
    case FrameKind::cancel:
      return fail_launch(header.tag.communicator, header.tag.launch, decode(payload, from), false);
    case FrameKind::abort: {
      Error error = decode(payload, from);
      if (error.code() == ErrorCode::diverged && options_.on_diverged) options_.on_diverged(error);
      if (error.code() == ErrorCode::timeout && options_.on_stalled) options_.on_stalled(error);
      if (error.code() != ErrorCode::diverged && options_.recoverable)
        return exchange_.lose(peer, Error(ErrorCode::peer, "collective", error.message(), 0));
      return fail(error, false);
    }
    case FrameKind::query:
      return exchange_.control(peer, FrameKind::reply, header.tag, answer(header.tag));
    case FrameKind::reply:
      return answered(peer, header, payload);
    case FrameKind::recall:
      return exchange_.control(peer, FrameKind::history, header.tag, exchange_.launches(header.tag.communicator));
    case FrameKind::history:
      return recalled(peer, header, payload);
    default:
      LS_CHECK(false, "not a control frame");
  }
}

void Engine::Impl::on_lost(int peer, const Error& error) {
  std::vector<std::uint64_t> hit;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, state] : communicators_) {
      const auto& processes = state.communicator.processes;
      if (std::find(processes.begin(), processes.end(), peer) != processes.end()) hit.push_back(id);
    }
  }
  auto failure = std::make_shared<const Error>(error.code(), "collective", error.message(), 0);
  for (std::uint64_t id : hit) fail_communicator(id, failure);
}

void Engine::Impl::set_deadline(std::chrono::nanoseconds deadline) {
  std::lock_guard lock(mutex_);
  options_.deadline = deadline;
}

std::vector<Outstanding> Engine::Impl::snapshot() const {
  auto now = std::chrono::steady_clock::now();
  std::vector<Outstanding> result;
  std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : meetings_) {
    const Meeting& meeting = *entry.meeting;
    Outstanding o{meeting.spec().op,    meeting.spec().name,     id.communicator,        id.launch,
                  id.occurrence,        now - meeting.started(), meeting.plan().members, {},
                  meeting.waiting_for()};
    for (const Call& call : meeting.calls()) o.arrived.push_back(call.partition);
    result.push_back(std::move(o));
  }
  return result;
}

std::vector<OpStatistics> Engine::Impl::statistics() const {
  std::lock_guard lock(mutex_);
  std::vector<OpStatistics> result;
  for (const auto& [key, total] : statistics_) {
    result.push_back(total);
    std::tie(result.back().op, result.back().name) = key;
  }
  return result;
}

// ---- the public face ------------------------------------------------------------------------------------------------

Engine::Engine(std::unique_ptr<Transport> transport, EngineOptions options)
    : impl_(std::make_unique<Impl>(std::move(transport), options)) {}
Engine::~Engine() = default;
int Engine::rank() const { return impl_->rank(); }
int Engine::size() const { return impl_->size(); }
void Engine::add_communicator(Communicator communicator) { impl_->add_communicator(std::move(communicator)); }
void Engine::remove_communicator(std::uint64_t id) { impl_->remove_communicator(id); }
void Engine::start(std::shared_ptr<const CollectiveSpec> spec, std::uint64_t communicator, std::uint64_t launch,
                   std::int64_t partition, std::span<const InBuffer> inputs, std::span<const OutBuffer> outputs,
                   Done done) {
  impl_->start(std::move(spec), communicator, launch, partition, inputs, outputs, std::move(done));
}
void Engine::end_launch(std::uint64_t communicator, std::uint64_t launch, std::int64_t partition) {
  impl_->end_launch(communicator, launch, partition);
}
void Engine::cancel_launch(std::uint64_t communicator, std::uint64_t launch, const Error& error) {
  impl_->fail_launch(communicator, launch, error, true);
}
void Engine::fail(const Error& error) { impl_->fail(error, true); }
void Engine::lose(int peer, const Error& error) { impl_->lose(peer, error); }
void Engine::close() { impl_->close(); }
void Engine::leave() { impl_->leave(); }
void Engine::set_deadline(std::chrono::nanoseconds deadline) { impl_->set_deadline(deadline); }
void Engine::begin_launch(std::uint64_t communicator, LaunchedProgram program) {
  impl_->begin_launch(communicator, std::move(program));
}
Engine::Intent::Intent(Engine& engine, std::uint64_t communicator, LaunchedProgram program)
    : engine_(engine), communicator_(communicator), program_(program.id) {
  engine_.impl_->intend_launch(communicator, std::move(program));
}
Engine::Intent::~Intent() { engine_.impl_->end_intent(communicator_, program_); }
std::vector<Outstanding> Engine::snapshot() const { return impl_->snapshot(); }
std::vector<OpStatistics> Engine::statistics() const { return impl_->statistics(); }

}  // namespace lockstep::collectives
