// gRPC as the client needs it, behind a wall: no gRPC header here. Internal.
//
// rpc.cc and service.cc are the only files that touch gRPC. They are compiled without ThreadSanitizer, which can't see
// how gRPC's own threads synchronise, so they hold no more than which call is which and what is written next;
// everything around them is checked.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "lockstep/distributed/coordination.pb.h"
#include "lockstep/support/tls.h"

namespace lockstep::distributed {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

struct RpcResult {
  enum Code { ok, cancelled, deadline, unavailable, unimplemented, denied, other };
  Code code = ok;
  std::string message;
  bool sent = true;  // false: the coordinator has not seen the request
};

// A call in progress, so that it can be cancelled from another thread. Outlives the call.
class RpcContext {
 public:
  RpcContext();
  ~RpcContext();
  RpcContext(const RpcContext&) = delete;
  RpcContext& operator=(const RpcContext&) = delete;
  void cancel();

 private:
  friend class Rpc;
  friend class Session;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A connection to a coordinator. Proxy variables are not used. Thread-safe.
class Rpc {
 public:
  // `target` as gRPC wants it: "ipv4:127.0.0.1:1234". The connection is made by the first call.
  Rpc(const std::string& target, std::string token, const std::optional<Tls>& tls = {});
  ~Rpc();
  Rpc(const Rpc&) = delete;
  Rpc& operator=(const Rpc&) = delete;

  // The requests that are calls of their own, outside of any session.
  template <class Request>
  static constexpr bool carries = std::is_same_v<Request, coordination::HeartbeatRequest> ||
                                  std::is_same_v<Request, coordination::ReportErrorRequest> ||
                                  std::is_same_v<Request, coordination::WatchTasksRequest>;
  // Time::max() is no deadline.
  template <class Request, class Response>
  RpcResult call(RpcContext& context, Time deadline, const Request& request, Response* response);
  // `done` is called on a thread of gRPC's; until then everything given has to stay.
  template <class Request, class Response>
  void start(RpcContext& context, Time deadline, const Request& request, Response* response,
             std::function<void(RpcResult)> done);

 private:
  friend class Session;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The stream of questions, answers and events between this process and the coordinator. The callbacks come one at a
// time, on threads of gRPC's; after `ended` there is none, and only then may the session go. Thread-safe.
class Session {
 public:
  // `first`: a registration or a ListenRequest.
  Session(Rpc& rpc, const coordination::Ask& first, std::function<void(coordination::Event&)> on_event,
          std::function<void(RpcResult)> ended);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // For the pairs of request and response that an Ask and an Answer can hold; any number at a time.
  template <class Request, class Response>
  RpcResult call(RpcContext& context, Time deadline, const Request& request, Response* response);
  void cancel();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::distributed
