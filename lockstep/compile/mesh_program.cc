// A program over a mesh: partitioned here, executed by every process on its own devices, one partition per launch
// (partition.h, inject.h). Collectives go through the gang's engine, whether the partitions are in one process or many.
// Where the plugin does all that itself it is compiled once for all partitions, and each process launches its own.
#include <openssl/sha.h>

#include <algorithm>
#include <cstring>

#include "lockstep/compile/inject.h"
#include "lockstep/compile/optimized.h"
#include "lockstep/compile/options.h"
#include "lockstep/compile/partition.h"
#include "lockstep/compile/placement.h"
#include "lockstep/compile/result_shardings.h"
#include "lockstep/pjrt/ffi.h"
#include "lockstep/runtime/arrays.h"
#include "lockstep/runtime/backend.h"
#include "lockstep/runtime/collective_handler.h"
#include "lockstep/runtime/gang.h"
#include "lockstep/runtime/placement.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

using runtime::as_concrete;
using runtime::ConcreteArray;

Route route_of(const Mesh& mesh) {
  runtime::Backend& b = runtime::backend();
  if (b.plugin_spans_processes()) return Route::native;
  const pjrt::Plugin& plugin = b.client().plugin();
  Route route = best_route(plugin);
  bool local = Placement::of(named_sharding(mesh, PartitionSpec())).is_fully_addressable();
  if (route == Route::native && !local)
    throw_error(
        ErrorCode::plugin, "jit",
        "the mesh {} has devices of several processes, which the CPU plugin {} (PJRT C API {}.{}) cannot run {}; "
        "use the plugin that comes with lockstep",
        to_string(mesh), plugin.path(), plugin.major_version(), plugin.minor_version(),
        pjrt::has_ffi(plugin) ? "by LOCKSTEP_PARTITION_ROUTE=native" : "without an FFI extension that lockstep knows");
  return route;
}

class MeshProgram final : public Program {
 public:
  MeshProgram(Lowered lowered, AvalList in_avals, AvalList out_avals)
      : lowered_(std::move(lowered)),
        in_avals_(std::move(in_avals)),
        out_avals_(std::move(out_avals)),
        replicated_(&named_sharding(lowered_.mesh, PartitionSpec())),
        local_(Placement::of(*replicated_).local()),
        route_(route_of(lowered_.mesh)),
        channel_(runtime::channel(lowered_.mesh, route_ != Route::native)),
        name_(std::make_shared<const std::string>("jit(" + lowered_.name + ")")) {
    runtime::Backend& b = runtime::backend();
    CompileOptions options;
    options.num_partitions = lowered_.mesh.size();
    for (auto* s : lowered_.out) options.propagate_to_results.push_back(s == nullptr);
    RewriteOptions rewriting;
    rewriting.background = local_.size() > 1;
    if (route_ == Route::native)
      for (int id : lowered_.mesh.device_ids()) options.device_assignment.push_back(b.plugin_id(id));
    auto take = [&] {
      if (route_ == Route::native)
        executable_ = b.client().compile(lowered_.located_text, serialize(options));
      else
        partitioned_ = partition(b.partitioner(static_cast<int>(options.num_partitions)), lowered_.located_text,
                                 options, rewriting, route_);
    };
    take();
    std::vector<std::optional<PartitionSpec>> specs(out_avals_.size(), PartitionSpec());
    bool open = std::any_of(lowered_.out.begin(), lowered_.out.end(), [](auto* s) { return s == nullptr; });
    if (options.num_partitions > 1 && open) {
      specs = result_specs(route_ == Route::native ? optimized_hlo(executable_) : partitioned_.module, lowered_.mesh,
                           out_avals_);
      bool again = false;
      for (std::size_t i = 0; i < specs.size(); ++i)
        if (lowered_.out[i] == nullptr && !specs[i]) {  // a layout that no spec says: every device gets the whole
          specs[i] = PartitionSpec();
          options.propagate_to_results[i] = false;
          again = true;
        }
      if (again) take();
    }
    for (std::size_t i = 0; i < out_avals_.size(); ++i) {
      const Sharding* s = lowered_.out[i];
      if (s == nullptr) s = &named_sharding(lowered_.mesh, *specs[i]);
      out_.push_back(s);
      if (route_ == Route::native) continue;
      LS_CHECK(Shape(partitioned_.results[i].dims) == s->shard_shape(out_avals_[i]->shape),
               "result {} of {}: {} laid out as {} in parts of {}", i, lowered_.name, out_avals_[i]->text,
               to_string(*s), to_string(Shape(partitioned_.results[i].dims)));
    }
    if (route_ == Route::native) return;
    executable_ = inject(b.client(), partitioned_, {}, route_);
    runtime::drain_before_exit();
    program_ = std::make_shared<runtime::CollectiveProgram>(channel_.engine(), channel_.communicator(),
                                                            names_of_collectives());
  }

  void run(std::span<Value* const> args, ValueRef* outs, LocationId where) override {
    if (!agreed_) agree(where);
    std::vector<ConcreteArray*> in;
    std::vector<ValueRef> moved;
    SmallVector<ConcreteArray*, 32> donated;
    SmallVector<std::int64_t, 8> kept_anyway;
    for (std::size_t i = 0; i < args.size(); ++i) {
      bool donate = !lowered_.donated.empty() && lowered_.donated[i];
      if (!lowered_.kept[i] && !donate) continue;
      ConcreteArray* array = as_concrete(args[i]);
      if (array != nullptr) array->shards(lowered_.name.c_str());
      if (lowered_.kept[i]) {
        ConcreteArray* placed = place(args[i], i, moved);
        if (placed != array) {
          if (donate) kept_anyway.push_back(static_cast<std::int64_t>(in.size()));
          in.push_back(placed);
        } else {
          in.push_back(array);
        }
      }
      if (donate && array != nullptr) donated.push_back(array);
    }
    for (auto* a : donated) a->donate(where, lowered_.name.c_str());
    std::size_t num_outs = out_avals_.size();
    std::vector<std::vector<pjrt::Buffer>> results(num_outs);
    std::vector<PJRT_Buffer*> inputs(in.size()), outputs(num_outs);
    const pjrt::Plugin& plugin = runtime::backend().client().plugin();
    const PJRT_Api* api = plugin.api();
    channel_.launch({program_id_, name_, where}, [&](std::uint64_t number) {
      if (route_ == Route::native) return launch_all(in, results, kept_anyway);
      for (std::size_t l = 0; l < local_.size(); ++l) {
        for (std::size_t i = 0; i < in.size(); ++i) inputs[i] = in[i]->slot(l).raw();
        std::fill(outputs.begin(), outputs.end(), nullptr);
        runtime::launch_partition(plugin, executable_, program_, number, local_[l].partition,
                                  runtime::backend().local_device(local_[l].device), inputs, outputs.data(),
                                  kept_anyway);
        for (std::size_t i = 0; i < num_outs; ++i) results[i].emplace_back(api, outputs[i]);
      }
    });
    for (auto* a : donated) a->release_shards();
    for (std::size_t i = 0; i < num_outs; ++i)
      outs[i] = ValueRef(new ConcreteArray(out_avals_[i], out_[i], results[i]));
  }

  bool spans_mesh() const override { return true; }
  const std::string& stablehlo() const override { return lowered_.text; }
  std::string compiled_text() const override { return executable_.optimized_program().bytes; }
  std::map<std::string, double> cost_analysis() const override { return cost_of(executable_); }
  pjrt::CompiledMemoryStats memory_analysis() const override { return executable_.memory_stats(); }
  std::vector<CollectiveReport> collectives() const override {
    std::vector<CollectiveReport> out;
    if (route_ == Route::native) return native_collectives(optimized_hlo(executable_), lowered_.mesh.size());
    for (auto& c : partitioned_.collectives)
      out.push_back({collectives::to_string(c.spec.op), c.spec.name, c.bytes, c.calls});
    return out;
  }

 private:
  // "all-reduce.3 (dot_general, train.cc:42)"
  std::vector<std::string> names_of_collectives() {
    std::vector<std::string> names;
    for (Collective& c : partitioned_.collectives) {
      if (c.equation && *c.equation < lowered_.locations.size())
        if (std::string line = to_string(lowered_.locations[*c.equation]); !line.empty() && c.spec.name.ends_with(')'))
          c.spec.name.insert(c.spec.name.size() - 1, ", " + line);
      names.push_back(c.spec.name);
    }
    return names;
  }

  // The argument on the mesh as the executable takes it.
  ConcreteArray* place(Value* v, std::size_t i, std::vector<ValueRef>& moved) {
    const Sharding* want = lowered_.in[i];
    ConcreteArray* array = as_concrete(v);
    if (array == nullptr) {
      const Scalar& s = static_cast<ScalarValue*>(v)->scalar;
      auto bytes = std::make_shared<std::vector<std::byte>>(itemsize(s.dtype()));
      s.write(bytes->data());
      runtime::HostBox box{bytes->data(), {}, bytes};  // which may be read after this call
      moved.push_back(runtime::put_host(v->aval(), *want, box));
      return as_concrete(moved.back().get());
    }
    if (array->sharding() != nullptr && array->sharding()->canonical() == want->canonical()) return array;
    if (array->sharding() == want) return array;
    if (!runtime::is_fully_addressable(*array))
      throw_error(
          ErrorCode::sharding, "jit(" + lowered_.name + ")",
          "argument {} is {} laid out as {}, but the program takes it as {}; move it with a jitted identity that has "
          "out_shardings, or leave in_shardings out",
          i, in_avals_[i]->text, to_string(*array->sharding()), to_string(*want));
    moved.push_back(runtime::reshard(*array, *want, lowered_.name.c_str()));
    return as_concrete(moved.back().get());
  }

  void launch_all(const std::vector<ConcreteArray*>& in, std::vector<std::vector<pjrt::Buffer>>& results,
                  std::span<const std::int64_t> kept_anyway) const {
    std::vector<std::vector<PJRT_Buffer*>> inputs(local_.size()),
        outputs(local_.size(), std::vector<PJRT_Buffer*>(results.size()));
    for (std::size_t l = 0; l < local_.size(); ++l)
      for (ConcreteArray* a : in) inputs[l].push_back(a->slot(l).raw());
    executable_.launch_all(inputs, outputs, {.non_donatable_inputs = kept_anyway});
    for (std::size_t l = 0; l < local_.size(); ++l)
      for (std::size_t i = 0; i < results.size(); ++i)
        results[i].emplace_back(runtime::backend().client().api(), outputs[l][i]);
  }

  // Once, before the first launch: the processes compare programs.
  void agree(LocationId where) {
    std::lock_guard lock(agree_mutex_);
    if (agreed_) return;
    std::string canonical = lowered_.name + "\n" + lowered_.key() + partitioned_.module;
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(canonical.data()), canonical.size(), digest);
    std::memcpy(&program_id_, digest, sizeof program_id_);
    LocationOverride scope(lowered_.where);
    channel_.agree({program_id_, name_, where}, std::string(reinterpret_cast<char*>(digest), sizeof digest), [this] {
      std::string text = "program " + lowered_.name + "\n";
      for (std::size_t i = 0; i < in_avals_.size(); ++i)
        text += fmt::format("argument {}: {}, laid out as {}\n", i, in_avals_[i]->text, to_string(*lowered_.in[i]));
      return text + lowered_.text;
    });
    agreed_ = true;
  }

  Lowered lowered_;
  AvalList in_avals_, out_avals_;
  const Sharding* replicated_;
  std::span<const Placement::Shard> local_;
  const Route route_;
  runtime::MeshChannel& channel_;
  PartitionedProgram partitioned_;
  std::vector<const Sharding*> out_;
  pjrt::LoadedExecutable executable_;
  std::shared_ptr<runtime::CollectiveProgram> program_;
  std::shared_ptr<const std::string> name_;
  std::uint64_t program_id_ = 0;  // the same in every process; set by agree()
  std::mutex agree_mutex_;
  std::atomic<bool> agreed_{false};
};

}  // namespace

std::shared_ptr<Program> compile_over_mesh(Lowered lowered, AvalList in_avals, AvalList out_avals) {
  LocationOverride scope(lowered.where);  // of what may fail meanwhile: the first connection of all processes
  return std::make_shared<MeshProgram>(std::move(lowered), std::move(in_avals), std::move(out_avals));
}

}  // namespace lockstep::compile
