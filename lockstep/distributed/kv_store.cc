#include "lockstep/distributed/kv_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace lockstep::distributed::coordinator {

using coordination::Problem;

std::string normalized_key(const std::string& key) {
  std::string result;
  for (std::size_t begin = 0; begin < key.size();) {
    std::size_t end = std::min(key.find('/', begin), key.size());
    if (end > begin) {
      if (!result.empty()) result += '/';
      result.append(key, begin, end - begin);
    }
    begin = end + 1;
  }
  return result;
}

void KeyValueStore::put(const std::string& key, std::string value, Outbox& out) {
  auto [begin, end] = waiters_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    it->second.call->response->set_value(value);
    out.finish(it->second.call);
  }
  waiters_.erase(begin, end);
  values_[key] = std::move(value);
}

void KeyValueStore::insert(const coordination::InsertRequest& request, CallFor<coordination::InsertResponse>* call,
                           Outbox& out) {
  std::string key = normalized_key(request.kv().key());
  if (!request.overwrite() && values_.contains(key)) {
    Problem* problem = call->response->mutable_problem();
    problem->set_code(Problem::EXISTS);
    problem->set_message(fmt::format("the key '{}' is already set; overwriting has to be asked for", key));
  } else {
    put(key, request.kv().value(), out);
  }
  out.finish(call);
}

void KeyValueStore::get(const coordination::GetRequest& request, CallFor<coordination::GetResponse>* call, Time now,
                        Outbox& out) {
  std::string key = normalized_key(request.key());
  if (auto it = values_.find(key); it != values_.end()) {
    call->response->set_value(it->second);
    out.finish(call);
    return;
  }
  call->what = fmt::format("key '{}'", key);
  Time deadline = request.timeout_ms() < 0 ? Time::max() : now + sensible(request.timeout_ms());
  waiters_.emplace(std::move(key), Waiter{call, now, deadline});
}

void KeyValueStore::try_get(const coordination::TryGetRequest& request, coordination::TryGetResponse* response) const {
  std::string key = normalized_key(request.key());
  if (auto it = values_.find(key); it != values_.end()) {
    response->set_value(it->second);
  } else {
    response->mutable_problem()->set_code(Problem::NOT_FOUND);
    response->mutable_problem()->set_message(fmt::format("the key '{}' is not set", key));
  }
}

void KeyValueStore::directory(const coordination::DirectoryRequest& request,
                              coordination::DirectoryResponse* response) const {
  std::string prefix = normalized_key(request.directory());
  if (!prefix.empty()) prefix += '/';
  for (auto it = values_.lower_bound(prefix); it != values_.end() && it->first.starts_with(prefix); ++it) {
    auto* entry = response->add_entries();
    entry->set_key(it->first);
    entry->set_value(it->second);
  }
}

void KeyValueStore::increment(const coordination::IncrementRequest& request, coordination::IncrementResponse* response,
                              Outbox& out) {
  std::string key = normalized_key(request.key());
  std::int64_t value = 0;
  if (auto it = values_.find(key); it != values_.end()) {
    const char* end = it->second.data() + it->second.size();
    auto parsed = std::from_chars(it->second.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      response->mutable_problem()->set_code(Problem::PRECONDITION);
      response->mutable_problem()->set_message(fmt::format("the value of the key '{}' is no integer", key));
      return;
    }
  }
  if (__builtin_add_overflow(value, request.by(), &value)) {
    response->mutable_problem()->set_code(Problem::PRECONDITION);
    response->mutable_problem()->set_message(fmt::format("the counter '{}' would leave the range of int64", key));
    return;
  }
  response->set_value(value);
  put(key, std::to_string(value), out);
}

void KeyValueStore::erase(const coordination::DeleteRequest& request) {
  std::string key = normalized_key(request.key());
  values_.erase(key);
  std::string prefix = key.empty() ? "" : key + "/";
  auto begin = values_.lower_bound(prefix), end = begin;
  while (end != values_.end() && end->first.starts_with(prefix)) ++end;
  values_.erase(begin, end);
}

void KeyValueStore::expire(Time now, Outbox& out) {
  std::erase_if(waiters_, [&](const auto& entry) {
    const Waiter& waiter = entry.second;
    if (now < waiter.deadline) return false;
    Problem* problem = waiter.call->response->mutable_problem();
    problem->set_code(Problem::DEADLINE);
    problem->set_message(fmt::format("nobody has set the key '{}' within {:.1f} s", entry.first,
                                     std::chrono::duration<double>(now - waiter.since).count()));
    out.finish(waiter.call);
    return true;
  });
}

Time KeyValueStore::next_deadline() const {
  Time next = Time::max();
  for (auto& [key, waiter] : waiters_) next = std::min(next, waiter.deadline);
  return next;
}

void KeyValueStore::fail_all(const Problem& problem, Outbox& out) {
  for (auto& [key, waiter] : waiters_) {
    *waiter.call->response->mutable_problem() = problem;
    out.finish(waiter.call);
  }
  waiters_.clear();
}

void KeyValueStore::forget(Call* call) {
  std::erase_if(waiters_, [&](auto& entry) { return entry.second.call == call; });
}

void KeyValueStore::waits(int process, std::vector<std::string>& waits) const {
  for (auto& [key, waiter] : waiters_)
    if (waiter.call->process == process) waits.push_back(waiter.call->what);
}

}  // namespace lockstep::distributed::coordinator
