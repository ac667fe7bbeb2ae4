#include "lockstep/pjrt/transform.h"

#include <exception>
#include <map>
#include <mutex>

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/extensions.h"

namespace lockstep::pjrt {
namespace {

struct Request {
  const Transform* transform;
  std::exception_ptr failure;
};
thread_local Request* current_request = nullptr;

void fail(TransformArgs* args, std::string text) {
  auto* kept = new std::string(std::move(text));
  args->has_error = true;
  args->error_code = PJRT_Error_Code_INTERNAL;
  args->error = {kept->data(), kept->size()};
  args->cleanup_data = kept;
  args->cleanup = [](void* data) { delete static_cast<std::string*>(data); };
}

void hook(TransformCallbacks*, TransformArgs* args) {
  args->changed = false;
  Request* request = current_request;
  if (request == nullptr) return;
  try {
    TransformOutcome outcome = (*request->transform)({args->module.data, args->module.size});
    switch (outcome.kind) {
      case TransformOutcome::Kind::keep:
        return;
      case TransformOutcome::Kind::stop:
        return fail(args, "stopped by the transform");
      case TransformOutcome::Kind::replace: {
        auto* kept = new std::string(std::move(outcome.module));
        args->transformed_module = {kept->data(), kept->size()};
        args->changed = true;
        args->cleanup_data = kept;
        args->cleanup = [](void* data) { delete static_cast<std::string*>(data); };
      }
    }
  } catch (const std::exception& error) {
    request->failure = std::current_exception();
    fail(args, error.what());
  }
}

const TransformExtension* find(const Plugin& plugin) {
  auto* extension = static_cast<const TransformExtension*>(
      plugin.extension(kTransformExtension, offsetof(TransformExtension, clear_transform)));
  return extension != nullptr && extension->register_transform != nullptr ? extension : nullptr;
}

void register_once(const Plugin& plugin) {
  static auto* mutex = new std::mutex;
  static auto* done = new std::map<const Plugin*, bool>;
  std::lock_guard lock(*mutex);
  bool& registered = (*done)[&plugin];
  if (registered) return;
  auto* extension = find(plugin);
  if (extension == nullptr)
    throw_error(ErrorCode::plugin, "with_transform", "the plugin {} has no XlaTransform extension", plugin.path());
  static TransformCallbacks callbacks{1, nullptr, hook};
  constexpr std::string_view name = "lockstep";
  constexpr std::uint32_t before_scheduling = 0;
  TransformRegisterArgs args{sizeof args, name.data(), name.size(), before_scheduling, &callbacks};
  if (PJRT_Error* error = extension->register_transform(&args))
    throw take_error(plugin.api(), error, "PJRT_Register_Xla_Transform", ErrorCode::plugin);
  registered = true;
}

}  // namespace

bool has_transform_hook(const Plugin& plugin) { return find(plugin) != nullptr; }

void with_transform(const Plugin& plugin, const Transform& transform, const std::function<void()>& body) {
  register_once(plugin);
  Request request{&transform, nullptr};
  struct Scope {
    Request* outer;
    explicit Scope(Request* inner) : outer(std::exchange(current_request, inner)) {}
    ~Scope() { current_request = outer; }
  } scope(&request);
  try {
    body();
  } catch (...) {
    if (request.failure) std::rethrow_exception(request.failure);
    throw;
  }
}

}  // namespace lockstep::pjrt
