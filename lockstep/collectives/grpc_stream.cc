#include "lockstep/collectives/grpc_stream.h"

#include <absl/synchronization/mutex.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "lockstep/collectives/frames.grpc.pb.h"
#include "lockstep/support/error.h"
#include "lockstep/support/handover.h"
#include "lockstep/support/log.h"

namespace lockstep::collectives {
namespace {

constexpr const char* kMethod = "/lockstep.frames.FrameService/Exchange";
constexpr const char* kHello = "lockstep-hello";
constexpr const char* kToken = "lockstep-token";
constexpr int kHandshakeMs = 10000;       // for a stranger to prove that he is none
constexpr int kWindowBytes = 4 << 20;     // that a peer may send ahead
constexpr int kFrameBytes = 1 << 20;      // HTTP/2's
constexpr int kMessageBytes = 1 << 20;    // more than a chunk
constexpr int kStreamsPerConnection = 4;  // a peer needs one

template <class Map>
std::string value_of(const Map& metadata, const char* key) {
  auto it = metadata.find(key);
  return it == metadata.end() ? "" : std::string(it->second.data(), it->second.size());
}

// "ipv6:%5B::1%5D:1234" -> "[::1]:1234"
std::string readable(std::string peer) {
  if (auto colon = peer.find(':'); colon != std::string::npos) peer.erase(0, colon + 1);
  for (auto [code, text] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}}) {
    if (auto at = peer.find(code); at != std::string::npos) peer.replace(at, 3, text);
  }
  return peer;
}

// What both ends of a stream do alike. It keeps itself until gRPC is done with it.
template <class Reactor>
class StreamOf : public Reactor, public ByteStream, public std::enable_shared_from_this<StreamOf<Reactor>> {
 public:
  std::string peer() const override { return peer_; }
  void start(StreamEvents& events) override {
    events_ = &events;
    give();
    this->StartRead(&in_);
  }
  void write(StreamChunk chunk) override {
    grpc::Slice slice;
    if (chunk.size > 0) {
      slice = grpc::Slice(chunk.data.release(), chunk.size, [](void* data) {
        take();
        delete[] static_cast<std::byte*>(data);
      });
    }
    out_ = grpc::ByteBuffer(&slice, 1);
    give();
    this->StartWrite(&out_, grpc::WriteOptions().set_no_compression());
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }
  void OnReadDone(bool ok) override {
    take();
    if (!ok) return events_->finished();
    std::vector<grpc::Slice> slices;
    bool more = true;
    if (in_.Length() == 0) {
      more = events_->received({});
    } else if (in_.Dump(&slices).ok()) {
      for (const grpc::Slice& s : slices) {
        more = more && events_->received({reinterpret_cast<const std::byte*>(s.begin()), s.size()});
      }
    }
    if (!more) return;
    give();
    this->StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    take();
    events_->written(ok);
  }

 protected:
  void keep() { self_ = this->shared_from_this(); }
  // From OnDone, as its last act.
  void end() {
    take();
    auto self = std::move(self_);
    std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

  std::string peer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;

 private:
  StreamEvents* events_ = nullptr;
  grpc::ByteBuffer in_, out_;
  std::shared_ptr<ByteStream> self_;
};

class CallingStream final : public StreamOf<grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  CallingStream(const std::string& address, StreamSecret secret, std::function<void(const std::string&)> done)
      : secret_(std::move(secret)), accepted_(std::move(done)) {
    peer_ = address;
  }
  void call(const std::optional<Tls>& tls, const std::string& hello) {
    keep();
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // they would keep a copy
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
    arguments.SetMaxReceiveMessageSize(kMessageBytes);
    auto credentials = grpc::InsecureChannelCredentials();
    if (tls) {
      credentials = grpc::SslCredentials(
          {.pem_root_certs = tls->ca, .pem_private_key = tls->key, .pem_cert_chain = tls->certificate});
      arguments.SetSslTargetNameOverride(tls->name);
    }
    std::string target = (peer_.starts_with('[') ? "ipv6:" : "ipv4:") + peer_;
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(target, credentials, arguments));
    context_.AddMetadata(kHello, hello);
    context_.AddMetadata(kToken, secret_.call);
    stub_->PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();
    give();
    StartCall();
  }
  void cancel() override { context_.TryCancel(); }
  void release() override {
    context_.TryCancel();
    let_go();
  }
  void OnReadInitialMetadataDone(bool ok) override {
    take();
    std::string shown = ok ? value_of(context_.GetServerInitialMetadata(), kToken) : "";
    if (equal_in_constant_time(shown, secret_.answer)) return answer("");
    if (!shown.empty()) return answer("it is not of this gang");
    let_go();  // then OnDone comes, with the reason
  }
  void OnDone(const grpc::Status& status) override {
    take();
    answer(status.error_message().empty() ? "it closed the connection" : status.error_message());
    end();
  }

 private:
  void let_go() {
    {
      std::lock_guard lock(mutex_);
      if (!std::exchange(held_, false)) return;
    }
    give();
    RemoveHold();
  }
  void answer(const std::string& refusal) {
    if (auto done = std::exchange(accepted_, nullptr)) done(refusal);
  }

  const StreamSecret secret_;
  std::function<void(const std::string&)> accepted_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext context_;
  bool held_ = true;
};

class AnsweringStream final : public StreamOf<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  AnsweringStream(grpc::CallbackServerContext* context, std::function<void()> gone)
      : context_(context), gone_(std::move(gone)) {
    peer_ = readable(context->peer());
  }
  void accept(const std::string& token) {
    keep();
    context_->AddInitialMetadata(kToken, token);
    give();
    StartSendInitialMetadata();
  }
  void refuse(grpc::StatusCode code, const std::string& why) {
    keep();
    give();
    Finish({code, why});
  }
  void cancel() override {
    std::lock_guard lock(mutex_);
    if (!done_) context_->TryCancel();
  }
  void release() override {
    give();
    Finish(grpc::Status::OK);
  }
  void OnDone() override {
    auto gone = std::move(gone_);
    end();
    gone();
  }

 private:
  grpc::CallbackServerContext* context_;
  std::function<void()> gone_;
};

// Why a caller's certificate is refused; "": it is good.
std::string objection(const grpc::CallbackServerContext& context, const std::string& name) {
  if (name.empty()) return "";
  auto texts = [peer = context.auth_context()](const char* property) {
    std::vector<std::string> all;
    for (const grpc::string_ref& text : peer->FindPropertyValues(property)) all.emplace_back(text.data(), text.size());
    return all;
  };
  auto common_names = texts(GRPC_X509_CN_PROPERTY_NAME);
  bool good = carries_name(texts(GRPC_PEER_DNS_PROPERTY_NAME), common_names.empty() ? "" : common_names[0], name);
  return good ? "" : "the certificate is not for the name " + name;
}

}  // namespace

std::shared_ptr<ByteStream> call_stream(const std::string& address, const std::optional<Tls>& tls,
                                        const std::string& hello, const StreamSecret& secret,
                                        std::function<void(const std::string&)> done) {
  auto stream = std::make_shared<CallingStream>(address, secret, std::move(done));
  stream->call(tls, hello);
  return stream;
}

class StreamServer::Impl final
    : public frames::FrameService::WithRawCallbackMethod_Exchange<frames::FrameService::Service> {
 public:
  Impl(const std::string& address, const std::optional<Tls>& tls, StreamSecret secret, Accept accept, Arrived arrived)
      : secret_(std::move(secret)),
        name_(tls ? tls->name : ""),
        accept_(std::move(accept)),
        arrived_(std::move(arrived)) {
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // costs every lock a search
    auto credentials = grpc::InsecureServerCredentials();
    if (tls) {
      grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
      options.pem_root_certs = tls->ca;
      options.pem_key_cert_pairs.push_back({tls->key, tls->certificate});
      credentials = grpc::SslServerCredentials(options);
    }
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kWindowBytes);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kFrameBytes);
    builder.SetMaxReceiveMessageSize(kMessageBytes);
    builder.AddListeningPort(address, credentials, &port_);
    builder.RegisterService(this);
    give();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      throw_error(ErrorCode::distributed, "connect", "cannot listen on {} for the collectives' connections", address);
    }
  }
  ~Impl() override {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_ == 0; });
  }
  int port() const { return port_; }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(grpc::CallbackServerContext* context) override {
    take();
    {
      std::lock_guard lock(mutex_);
      ++open_;
    }
    auto stream = std::make_shared<AnsweringStream>(context, [this] {
      std::lock_guard lock(mutex_);
      --open_;
      changed_.notify_all();
    });
    auto* reactor = stream.get();
    grpc::StatusCode code = grpc::StatusCode::UNAUTHENTICATED;
    std::string why = objection(*context, name_);
    if (why.empty() && !equal_in_constant_time(value_of(context->client_metadata(), kToken), secret_.call))
      why = "the token is not this gang's";
    if (why.empty()) {
      code = grpc::StatusCode::FAILED_PRECONDITION;
      std::string hello = value_of(context->client_metadata(), kHello);
      why = accept_(hello);
      if (why.empty()) {
        stream->accept(secret_.answer);
        arrived_(hello, std::move(stream));
        return reactor;
      }
    }
    log::debug("a call from {} is none of this gang's ({}): refused", stream->peer(), why);
    stream->refuse(code, why);
    return reactor;
  }

 private:
  const StreamSecret secret_;
  const std::string name_;
  const Accept accept_;
  const Arrived arrived_;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  int open_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

StreamServer::StreamServer(const std::string& address, const std::optional<Tls>& tls, StreamSecret secret,
                           Accept accept, Arrived arrived)
    : impl_(std::make_unique<Impl>(address, tls, std::move(secret), std::move(accept), std::move(arrived))) {}
StreamServer::~StreamServer() = default;
int StreamServer::port() const { return impl_->port(); }

}  // namespace lockstep::collectives
