// A program over a mesh: partitioned here, executed by every process on its own devices, one partition per launch
// (partition.h, inject.h). Collectives go through the gang's engine, whether the partitions are in one process or many.
#include <openssl/sha.h>

#include <cstring>

#include "lockstep/compile/inject.h"
#include "lockstep/compile/options.h"
#include "lockstep/compile/partition.h"
#include "lockstep/compile/placement.h"
#include "lockstep/compile/result_shardings.h"
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

class MeshProgram final : public Program {
 public:
  MeshProgram(Lowered lowered, AvalList in_avals, AvalList out_avals)
      : lowered_(std::move(lowered)),
        in_avals_(std::move(in_avals)),
        out_avals_(std::move(out_avals)),
        replicated_(&named_sharding(lowered_.mesh, PartitionSpec())),
        local_(Placement::of(*replicated_).local()),
        channel_(runtime::channel(lowered_.mesh)),
        name_(std::make_shared<const std::string>("jit(" + lowered_.name + ")")) {
    runtime::Backend& b = runtime::backend();
    CompileOptions options;
    options.num_partitions = lowered_.mesh.size();
    for (auto* s : lowered_.out) options.propagate_to_results.push_back(s == nullptr);
    RewriteOptions rewriting;
    rewriting.background = local_.size() > 1;
    auto take = [&] {
      partitioned_ =
          partition(b.partitioner(static_cast<int>(options.num_partitions)), lowered_.text, options, rewriting);
    };
    take();
    std::vector<std::optional<PartitionSpec>> specs(out_avals_.size(), PartitionSpec());
    if (options.num_partitions > 1) {
      specs = result_specs(partitioned_.module, lowered_.mesh, out_avals_);
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
      LS_CHECK(Shape(partitioned_.results[i].dims) == s->shard_shape(out_avals_[i]->shape),
               "result {} of {}: {} laid out as {} in parts of {}", i, lowered_.name, out_avals_[i]->text,
               to_string(*s), to_string(Shape(partitioned_.results[i].dims)));
    }
    executable_ = inject(b.client(), partitioned_);
    runtime::drain_before_exit();
    program_ = std::make_shared<runtime::CollectiveProgram>(runtime::engine(), channel_.communicator());
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

  const std::string& stablehlo() const override { return lowered_.text; }
  std::string compiled_text() const override { return executable_.optimized_program().bytes; }
  std::map<std::string, double> cost_analysis() const override {
    return executable_.cost_analysis().value_or(std::map<std::string, double>());
  }
  pjrt::CompiledMemoryStats memory_analysis() const override { return executable_.memory_stats(); }
  std::vector<CollectiveReport> collectives() const override {
    std::vector<CollectiveReport> out;
    for (auto& c : partitioned_.collectives)
      out.push_back({collectives::to_string(c.spec.op), c.spec.name, c.bytes, c.calls});
    return out;
  }

 private:
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
      return "program " + lowered_.name + "\nmesh " + to_string(lowered_.mesh) + "\n" + lowered_.text;
    });
    agreed_ = true;
  }

  Lowered lowered_;
  AvalList in_avals_, out_avals_;
  const Sharding* replicated_;
  std::span<const Placement::Shard> local_;
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
  return std::make_shared<MeshProgram>(std::move(lowered), std::move(in_avals), std::move(out_avals));
}

}  // namespace lockstep::compile
