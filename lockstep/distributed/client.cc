#include "lockstep/distributed/client.h"

#include "lockstep/distributed/client_impl.h"

namespace lockstep::distributed {

namespace {

constexpr Milliseconds answer_slack{5000};  // past the deadline that the coordinator keeps
constexpr Milliseconds quick_call{30000};   // for calls that aren't held
constexpr Milliseconds text_exchange{10000};
constexpr Milliseconds retry_pause{50};
constexpr Milliseconds time_for_verdict{1500};  // a broken connection is either back or a failure by then
constexpr Milliseconds report_time{2000};

}  // namespace

const char* to_string(TaskState state) {
  static const char* const names[] = {"absent", "waiting", "connected", "leaving", "left", "failed"};
  return names[static_cast<int>(state)];
}

ErrorCode error_code(Problem::Code code) {
  switch (code) {
    case Problem::CANCELLED:
      return ErrorCode::cancelled;
    case Problem::INVALID:
      return ErrorCode::invalid_argument;
    case Problem::DEADLINE:
      return ErrorCode::timeout;
    case Problem::FAILED:
    case Problem::LEFT:
      return ErrorCode::peer;
    default:
      return ErrorCode::distributed;
  }
}

Failure from_proto(const coordination::Failure& failure) {
  int kind = std::max<int>(failure.kind(), coordination::Failure::CRASHED) - coordination::Failure::CRASHED;
  return {static_cast<FailureKind>(std::min(kind, static_cast<int>(FailureKind::stalled))),
          {failure.processes().begin(), failure.processes().end()},
          failure.message()};
}

Identity from_proto(const coordination::Identity& from) {
  std::map<std::string, std::string> settings;
  for (auto& setting : from.settings()) settings[setting.name()] = setting.value();
  return {.host = from.host(),
          .pid = from.pid(),
          .local_devices = from.local_devices(),
          .build = from.build(),
          .plugin = from.plugin(),
          .settings = std::move(settings),
          .machine = from.machine()};
}

void to_proto(const Identity& from, coordination::Identity* to) {
  to->set_host(from.host);
  to->set_pid(from.pid);
  to->set_local_devices(from.local_devices);
  to->set_build(from.build);
  to->set_plugin(from.plugin);
  for (auto& [name, value] : from.settings) {
    auto* setting = to->add_settings();
    setting->set_name(name);
    setting->set_value(value);
  }
  to->set_machine(from.machine);
}

void Client::Impl::check_usable(const std::string& operation) const {
  if (failure_) throw to_error(*failure_, operation);
  if (closing_) throw_error(ErrorCode::cancelled, operation, "shutdown() has been called");
  if (!connected_) throw_error(ErrorCode::distributed, operation, "this client is not connected");
}

void Client::Impl::await_verdict(const std::string& operation) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time_for_verdict, [&] { return failure_ || closing_; });
  check_usable(operation);
}

void Client::Impl::judge(const std::string& operation, const RpcResult& result, Retry retry, Time deadline) {
  std::unique_lock lock(mutex_);
  if (result.code == RpcResult::deadline || Clock::now() >= deadline) {
    check_usable(operation);
    throw_error(ErrorCode::timeout, operation, "the coordinator at {} has not answered in time", address_);
  }
  // A server that goes may cancel what it has not answered; this side cancels only when it has failed or closes.
  bool lost = result.code == RpcResult::unavailable || result.code == RpcResult::cancelled;
  if (lost && (retry == Retry::yes || !result.sent)) {
    changed_.wait_for(lock, retry_pause, [&] { return failure_ || closing_; });
    return check_usable(operation);
  }
  check_usable(operation);
  if (lost) {
    lock.unlock();
    await_verdict(operation);
  }
  throw_error(ErrorCode::distributed, operation,
              "the connection to the coordinator at {} broke ({}); whether the call took effect is not known", address_,
              result.message);
}

const std::vector<Identity>& Client::Impl::members() {
  std::call_once(roster_read_, [this] {
    coordination::Roster roster;
    roster.ParseFromString(roster_);
    for (int p = 0; p < roster.host_size(); ++p) {
      Identity& member = members_.emplace_back(options_.identity);  // the rest is equal on all
      member.host = roster.hosts(roster.host(p));
      member.machine = roster.machines(roster.machine(p));
      member.pid = roster.pid(p);
      member.local_devices = roster.local_devices(p);
    }
  });
  return members_;
}

void Client::Impl::barrier(const std::string& name, Milliseconds timeout, const std::vector<int>& processes) {
  coordination::BarrierRequest request;
  request.set_name(name);
  request.set_timeout_ms(timeout.count());
  for (int p : processes) request.add_participants(p);
  {
    std::lock_guard lock(mutex_);
    BarrierUse& use = barriers_[name];
    if (use.waiting)
      throw_error(ErrorCode::invalid_argument, "barrier", "another thread of this process waits in '{}'", name);
    use.waiting = true;
    request.set_counter(use.counter);
  }
  struct Leave {
    Impl& client;
    const std::string& name;
    ~Leave() {
      std::lock_guard lock(client.mutex_);
      client.barriers_[name].waiting = false;
    }
  } leave{*this, name};
  Problem problem;
  auto response = call<coordination::BarrierResponse>("barrier", request, timeout + answer_slack, Retry::yes, &problem);
  {
    std::lock_guard lock(mutex_);
    barriers_[name].counter = response.counter();
  }
  if (problem.code() != Problem::OK) throw_error(error_code(problem.code()), "barrier", "{}", problem.message());
}

void Client::Impl::cancel_barrier(const std::string& name) {
  coordination::CancelBarrierRequest request;
  request.set_name(name);
  {
    std::lock_guard lock(mutex_);
    request.set_counter(barriers_[name].counter);
  }
  call<coordination::CancelBarrierResponse>("cancel_barrier", request, quick_call, Retry::no);
}

std::vector<TaskInfo> Client::Impl::tasks() {
  coordination::WatchTasksRequest request;
  request.set_version(-1);
  auto response = call<coordination::WatchTasksResponse>("tasks", request, quick_call, Retry::yes);
  std::vector<TaskInfo> result;
  for (auto& task : response.tasks())
    result.push_back({.process = task.process_id(),
                      .state = static_cast<TaskState>(task.state()),
                      .identity = from_proto(task.identity()),
                      .phase = task.phase().text(),
                      .phase_age = Milliseconds(task.phase().age_ms())});
  return result;
}

void Client::Impl::report_error(FailureKind kind, const std::string& message,
                                const std::vector<int>& processes) noexcept {
  try {
    coordination::ReportErrorRequest request;
    request.mutable_failure()->set_kind(
        static_cast<coordination::Failure::Kind>(static_cast<int>(kind) + coordination::Failure::CRASHED));
    request.mutable_failure()->set_message(message);
    for (int p : processes) request.mutable_failure()->add_processes(p);
    call<coordination::ReportErrorResponse>("report_error", request, report_time, Retry::no);
  } catch (const std::exception&) {
    // Nobody is left to be told, or everybody knows.
  }
}

void Client::Impl::shut_down(Milliseconds timeout) {
  bool needed;
  {
    std::lock_guard lock(mutex_);
    needed = connected_ && !closing_ && !failure_;
  }
  if (needed) {
    coordination::ShutdownRequest request;
    request.set_timeout_ms(timeout.count());
    try {
      call<coordination::ShutdownResponse>("shutdown", request, timeout + answer_slack, Retry::yes);
    } catch (...) {
      close();
      throw;
    }
  }
  close();
}

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

void Client::connect() { impl_->connect(); }
void Client::shutdown(Milliseconds timeout) { impl_->shut_down(timeout); }
void Client::close() { impl_->close(); }
const std::string& Client::coordinator_address() const { return impl_->address(); }
int Client::process_id() const { return impl_->options().process_id; }
int Client::num_processes() const { return impl_->options().num_processes; }
const std::vector<Identity>& Client::members() const { return impl_->members(); }
std::optional<Failure> Client::failure() const { return impl_->failure(); }

void Client::set(const std::string& key, const std::string& value, bool overwrite) {
  coordination::InsertRequest request;
  request.mutable_kv()->set_key(key);
  request.mutable_kv()->set_value(value);
  request.set_overwrite(overwrite);
  impl_->call<coordination::InsertResponse>("kv.set", request, quick_call,
                                            overwrite ? Impl::Retry::yes : Impl::Retry::no);
}

std::string Client::get(const std::string& key, Milliseconds timeout) {
  coordination::GetRequest request;
  request.set_key(key);
  request.set_timeout_ms(timeout.count());
  auto response = impl_->call<coordination::GetResponse>("kv.get", request, timeout + answer_slack, Impl::Retry::yes);
  return std::move(*response.mutable_value());
}

std::optional<std::string> Client::try_get(const std::string& key) {
  coordination::TryGetRequest request;
  request.set_key(key);
  Problem problem;
  auto response =
      impl_->call<coordination::TryGetResponse>("kv.try_get", request, quick_call, Impl::Retry::yes, &problem);
  if (problem.code() == Problem::NOT_FOUND) return std::nullopt;
  if (problem.code() != Problem::OK) throw_error(error_code(problem.code()), "kv.try_get", "{}", problem.message());
  return std::move(*response.mutable_value());
}

std::vector<std::pair<std::string, std::string>> Client::directory(const std::string& key) {
  coordination::DirectoryRequest request;
  request.set_directory(key);
  auto response = impl_->call<coordination::DirectoryResponse>("kv.directory", request, quick_call, Impl::Retry::yes);
  std::vector<std::pair<std::string, std::string>> result;
  for (auto& entry : *response.mutable_entries())
    result.emplace_back(std::move(*entry.mutable_key()), std::move(*entry.mutable_value()));
  return result;
}

std::int64_t Client::increment(const std::string& key, std::int64_t by) {
  coordination::IncrementRequest request;
  request.set_key(key);
  request.set_by(by);
  return impl_->call<coordination::IncrementResponse>("kv.increment", request, quick_call, Impl::Retry::no).value();
}

void Client::erase(const std::string& key) {
  coordination::DeleteRequest request;
  request.set_key(key);
  impl_->call<coordination::DeleteResponse>("kv.erase", request, quick_call, Impl::Retry::yes);
}

void Client::barrier(const std::string& name, Milliseconds timeout, const std::vector<int>& processes) {
  impl_->barrier(name, timeout, processes);
}
void Client::cancel_barrier(const std::string& name) { impl_->cancel_barrier(name); }

Membership Client::live(Milliseconds timeout) {
  coordination::LiveRequest request;
  request.set_timeout_ms(timeout.count());
  auto response =
      impl_->call<coordination::LiveResponse>("live_processes", request, timeout + answer_slack, Impl::Retry::yes);
  return {response.round(), {response.processes().begin(), response.processes().end()}};
}

VoteResult Client::vote(const Vote& vote, Milliseconds timeout) {
  coordination::AgreeRequest request;
  request.set_key(vote.key);
  request.set_fingerprint(vote.fingerprint);
  request.set_call_site(vote.call_site);
  request.set_note(vote.note);
  for (int p : vote.participants) request.add_participants(p);
  request.set_timeout_ms(timeout.count());
  auto response = impl_->call<coordination::AgreeResponse>("agree", request, timeout + answer_slack, Impl::Retry::no);
  VoteResult result;
  for (auto& group : response.groups())
    result.groups.push_back({{group.processes().begin(), group.processes().end()}, group.call_site()});
  result.notes.assign(response.notes().begin(), response.notes().end());
  return result;
}

std::vector<std::string> Client::exchange_texts(const std::string& key, const std::string& text) {
  coordination::DifferRequest request;
  request.set_key(key);
  request.set_text(text);
  auto response = impl_->call<coordination::DifferResponse>("agree", request, text_exchange, Impl::Retry::no);
  return {response.texts().begin(), response.texts().end()};
}

std::vector<TaskInfo> Client::tasks() { return impl_->tasks(); }

void Client::report_error(FailureKind kind, const std::string& message, const std::vector<int>& processes) noexcept {
  impl_->report_error(kind, message, processes);
}

}  // namespace lockstep::distributed
