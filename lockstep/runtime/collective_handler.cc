#include "lockstep/runtime/collective_handler.h"

#include <atomic>
#include <condition_variable>

#include "lockstep/runtime/gang.h"
#include "lockstep/support/small_vector.h"

namespace lockstep::runtime {
namespace {

using collectives::CollectiveSpec;
using collectives::InBuffer;
using collectives::OutBuffer;
using pjrt::FfiBuffer;
using pjrt::FfiCall;

std::atomic<std::int64_t> launch_type = 0;

// Launches that have not ended.
struct InFlight {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t count = 0;
};
InFlight& in_flight() {
  static auto* f = new InFlight;
  return *f;
}
void add_in_flight(int by) {
  InFlight& f = in_flight();
  std::lock_guard lock(f.mutex);
  f.count += static_cast<std::size_t>(by);
  if (f.count == 0) f.changed.notify_all();
}

// One launch of one partition, from the call that launches it until it has ended: what handlers find in its context.
struct PartitionLaunch {
  std::shared_ptr<CollectiveProgram> program;
  std::uint64_t number;
  std::int64_t partition;
  pjrt::ExecuteContext context;

  void end(const Error* error) const {
    if (error != nullptr) program->engine.cancel_launch(program->communicator, number, *error);
    program->engine.end_launch(program->communicator, number, partition);
  }
};

PartitionLaunch& launch_of(const FfiCall& call) { return *static_cast<PartitionLaunch*>(call.user_data(launch_type)); }

std::size_t count_of(const FfiBuffer& buffer) {
  std::size_t n = 1;
  for (std::int64_t d : buffer.dims) n *= static_cast<std::size_t>(d);
  return n;
}

std::shared_ptr<CollectiveSpec> decode(const FfiCall& call) {
  auto list = [&](const char* name) {
    auto values = call.integers(name);
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  auto spec = std::make_shared<CollectiveSpec>();
  auto op = collectives::parse_collective_op(call.text("op"));
  auto kind = call.text("kind");
  auto reduction = kind.empty() ? collectives::Reduction::none : collectives::parse_reduction(kind);
  if (!op || !reduction)
    throw_error(ErrorCode::execution, kCollectiveTarget, "unknown collective '{}' of kind '{}'", call.text("op"), kind);
  spec->op = *op;
  spec->reduction = *reduction;
  spec->id = call.integer("id");
  spec->group_size = call.integer("group_size");
  spec->groups = list("groups");
  spec->outer = list("outer");
  spec->pairs = list("pairs");
  spec->name = call.text("name");
  return spec;
}

void run_collective(FfiCall& call) {
  PartitionLaunch& launch = launch_of(call);
  auto spec = launch.program->spec(call.integer("id"), call);
  SmallVector<InBuffer, 8> inputs;
  SmallVector<OutBuffer, 8> outputs;
  auto input_count = static_cast<std::size_t>(call.integer("inputs"));
  for (std::size_t i = 0; i < input_count; ++i) {
    FfiBuffer b = call.argument(i);
    inputs.push_back({b.data, b.bytes, b.dtype, count_of(b), b.dims});
  }
  for (std::size_t i = 0; i < call.result_count(); ++i) {
    FfiBuffer b = call.result(i);
    outputs.push_back({b.data, b.bytes, b.dtype, count_of(b), b.dims});
  }
  pjrt::FfiCompletion completion = call.defer();
  launch.program->engine.start(
      std::move(spec), launch.program->communicator, launch.number, launch.partition, {inputs.data(), inputs.size()},
      {outputs.data(), outputs.size()},
      [completion](const Error* error) { error == nullptr ? completion.done() : completion.fail(*error); });
}

void tell_partition(FfiCall& call) {
  *static_cast<std::uint32_t*>(call.result(0).data) = static_cast<std::uint32_t>(launch_of(call).partition);
}

}  // namespace

std::shared_ptr<const CollectiveSpec> CollectiveProgram::spec(std::int64_t id, const FfiCall& call) {
  std::lock_guard lock(mutex_);
  auto at = static_cast<std::size_t>(id);
  if (specs_.size() <= at) specs_.resize(at + 1);
  if (specs_[at] == nullptr) {
    auto spec = decode(call);
    if (at < names_.size()) spec->name = names_[at];
    specs_[at] = std::move(spec);
  }
  return specs_[at];
}

void register_collective_handlers(const pjrt::Plugin& plugin) {
  std::int64_t type = pjrt::register_user_data_type(plugin, "lockstep_launch"), before = 0;
  if (!launch_type.compare_exchange_strong(before, type) && before != type)
    throw_error(ErrorCode::plugin, "register_collective_handlers",
                "another plugin already has the handlers; one in a process can carry collectives");
  pjrt::register_handler<run_collective>(plugin, kCollectiveTarget);
  pjrt::register_handler<tell_partition>(plugin, kPartitionIdTarget);
}

void launch_partition(const pjrt::Plugin& plugin, const pjrt::LoadedExecutable& executable,
                      std::shared_ptr<CollectiveProgram> program, std::uint64_t number, std::int64_t partition,
                      const pjrt::Device& device, std::span<PJRT_Buffer* const> inputs, PJRT_Buffer** outputs,
                      std::span<const std::int64_t> non_donatable_inputs) {
  auto launch = std::make_shared<PartitionLaunch>(std::move(program), number, partition, pjrt::ExecuteContext(plugin));
  launch->context.add(launch_type, launch.get());
  pjrt::Event ended;
  try {
    executable.launch(
        inputs, outputs,
        {.device = &device, .context = launch->context.raw(), .non_donatable_inputs = non_donatable_inputs}, &ended);
  } catch (const Error& error) {
    launch->end(&error);
    throw;
  }
  add_in_flight(1);
  ended.on_ready([launch](const Error* error) {
    launch->end(error);
    if (!launch->program->has_run.exchange(true)) drain_before_exit();
    add_in_flight(-1);
  });
}

bool wait_for_launches(std::chrono::steady_clock::time_point deadline) {
  InFlight& f = in_flight();
  std::unique_lock lock(f.mutex);
  return f.changed.wait_until(lock, deadline, [&] { return f.count == 0; });
}

}  // namespace lockstep::runtime
