#include "lockstep/multihost_utils/multihost_utils.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <string_view>

#include "lockstep/api/device_put.h"
#include "lockstep/api/jit.h"
#include "lockstep/distributed/agreement.h"
#include "lockstep/distributed/client.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/distributed/preemption.h"
#include "lockstep/numpy/creation.h"
#include "lockstep/numpy/host.h"
#include "lockstep/numpy/reductions.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/runtime/gang.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/support/config.h"

namespace lockstep::multihost_utils {
namespace {

constexpr std::int64_t elements_shown = 8;

// One device of each process that takes part.
Mesh process_mesh() {
  std::vector<int> members = distributed::membership().processes;
  std::vector<Device> first;
  for (const Device& d : devices())
    if (std::binary_search(members.begin(), members.end(), d.process_index) &&
        (first.empty() || first.back().process_index != d.process_index))
      first.push_back(d);
  return make_mesh({{"processes", -1}}, first);
}

bool alone() { return distributed::membership().processes.size() == 1; }

Array whole_here(const Array& replicated) { return replicated.addressable_shards().front().data; }

// The n-th use of this room's agreements among the same processes: the same number on all of them.
std::string next_key(const std::string& what, std::int64_t round) {
  struct Uses {
    std::mutex mutex;
    std::pair<std::uint32_t, std::int64_t> among;
    std::uint64_t count = 0;
  };
  static auto* uses = new Uses;
  std::lock_guard lock(uses->mutex);
  if (std::pair now(config::gang(), round); uses->among != now) {
    uses->among = now;
    uses->count = 0;
  }
  return fmt::format("{} {}.{}", what, round, uses->count++);
}

void agree(const std::string& operation, const std::string& fingerprint, const std::function<std::string()>& text) {
  distributed::Membership members = distributed::membership();
  if (members.processes.size() == 1) return;
  distributed::Proposal proposal{.operation = operation,
                                 .key = next_key(operation, members.round),
                                 .fingerprint = fingerprint,
                                 .text = text,
                                 .participants = members.processes};
  distributed::agree(distributed::client(), proposal, runtime::collective_timeout());
}

Array known(const Array& a, const char* operation) {
  if (a.is_tracer())
    throw_error(ErrorCode::concretization, operation, "it works on values, and {} is traced", a.aval()->text);
  return a.is_fully_addressable() ? device_put(a, local_devices().front()) : a;
}

std::string described(const std::string& path, const Array& given) {
  Array a = known(given, "assert_equal");
  std::string text = fmt::format("{}: {}", path.empty() ? "the value" : path, a.aval()->text);
  if (!a.is_fully_addressable()) return fmt::format("{} laid out as {}", text, to_string(a.sharding()));
  auto host = runtime::to_host(*runtime::as_concrete(a.value()), "assert_equal");
  std::string_view bytes(static_cast<const char*>(static_cast<const void*>(host.data())),
                         static_cast<std::size_t>(a.nbytes()));
  text += a.size() <= elements_shown ? " = " + to_string(a) : "";
  return fmt::format("{} (digest {:016x})", text, std::hash<std::string_view>()(bytes));
}

}  // namespace

void sync_global_devices(const std::string& name, std::source_location where) {
  LocationScope scope(where);
  agree("sync_global_devices", name, [&] { return fmt::format("'{}'", name); });
}

namespace internal {

Arrays broadcast(const Arrays& leaves, std::optional<bool> is_source) {
  Arrays here;
  for (const Array& a : leaves) {
    here.push_back(known(a, "broadcast_one_to_all"));
    if (!here.back().is_fully_addressable())
      throw_error(ErrorCode::sharding, "broadcast_one_to_all",
                  "{} spans processes; what is broadcast has to be wholly on each of them", a.aval()->text);
  }
  if (alone()) return here;
  bool source = is_source.value_or(process_index() == 0);
  Mesh mesh = process_mesh();
  ShardingLike split(mesh, P("processes")), whole(mesh, P());
  Arrays global;
  for (const Array& a : here)
    global.push_back(
        make_array_from_process_local_data(split, numpy::expand_dims(source ? a : numpy::zeros_like(a), 0)));
  Arrays out = jit(
      [](Arrays leaves) {
        for (Array& a : leaves) a = a.dtype() == DType::bool_ ? lax::reduce_or(a, {0}) : lax::reduce_sum(a, {0});
        return leaves;
      },
      {.out_shardings = whole, .name = "broadcast_one_to_all"})(global);
  for (Array& a : out) a = whole_here(a);
  return out;
}

Arrays allgather(const Arrays& leaves, bool tiled) {
  Arrays out;
  for (const Array& leaf : leaves) {
    Array a = known(leaf, "process_allgather");
    if (!a.is_fully_addressable()) {
      if (!tiled)
        throw_error(ErrorCode::sharding, "process_allgather",
                    "{} spans processes: it can be made whole, with .tiled = true, but not stacked", a.aval()->text);
      out.push_back(whole_here(device_put(a, ShardingLike(a.sharding().mesh(), P()))));
      continue;
    }
    if (!tiled || a.ndim() == 0) a = numpy::expand_dims(a, 0);
    if (!alone()) {
      Mesh mesh = process_mesh();
      Array global = make_array_from_process_local_data({mesh, P("processes")}, a);
      a = whole_here(device_put(global, ShardingLike(mesh, P())));
    }
    out.push_back(a);
  }
  return out;
}

void require_equal(const std::vector<std::pair<std::string, Array>>& leaves, const std::string& fail_message) {
  std::string text;
  for (auto& [path, leaf] : leaves) text += described(path, leaf) + "\n";
  agree(fail_message.empty() ? "assert_equal" : "assert_equal: " + fail_message, text, [&] { return text; });
}

}  // namespace internal

bool reached_preemption_sync_point(std::int64_t step, std::source_location where) {
  LocationScope scope(where);
  return distributed::reached_preemption_sync_point(step);
}

}  // namespace lockstep::multihost_utils
