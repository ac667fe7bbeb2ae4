// The key-value store of a gang. Keys are paths: empty segments are dropped ("/a//b/" is "a/b"). Not thread-safe.
#pragma once

#include <map>
#include <string>

#include "lockstep/distributed/call.h"
#include "lockstep/distributed/coordination.pb.h"

namespace lockstep::distributed::coordinator {

std::string normalized_key(const std::string& key);

class KeyValueStore {
 public:
  // EXISTS if the key is there and `overwrite` isn't set.
  void insert(const coordination::InsertRequest& request, CallFor<coordination::InsertResponse>* call, Outbox& out);
  // Held until the key is there; DEADLINE after the request's time, which doesn't count if it is negative.
  void get(const coordination::GetRequest& request, CallFor<coordination::GetResponse>* call, Time now, Outbox& out);
  void try_get(const coordination::TryGetRequest& request, coordination::TryGetResponse* response) const;
  void directory(const coordination::DirectoryRequest& request, coordination::DirectoryResponse* response) const;
  // The value is decimal text, an absent key counts as 0. PRECONDITION if it is no number or would overflow.
  void increment(const coordination::IncrementRequest& request, coordination::IncrementResponse* response, Outbox& out);
  // Removes the key and everything below it.
  void erase(const coordination::DeleteRequest& request);

  void expire(Time now, Outbox& out);
  Time next_deadline() const;
  void fail_all(const coordination::Problem& problem, Outbox& out);
  void forget(Call* call);
  void waits(int process, std::vector<std::string>& waits) const;

 private:
  struct Waiter {
    CallFor<coordination::GetResponse>* call;
    Time since, deadline;
  };
  void put(const std::string& key, std::string value, Outbox& out);

  std::map<std::string, std::string> values_;
  std::multimap<std::string, Waiter> waiters_;
};

}  // namespace lockstep::distributed::coordinator
