#include "lockstep/compile/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/compile/hlo.pb.h"
#include "lockstep/compile/shapes.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

using collectives::CollectiveOp;
using collectives::Reduction;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// main(p: f32[4,6]) -> f32[4,6], its one instruction between parameter and result made by the test.
class ModuleBuilder {
 public:
  ModuleBuilder() {
    module_.set_name("m");
    module_.set_id(77);
    module_.set_entry_computation_id(2);
    auto& add = computation(1, "region_1");
    parameter(add, 11, row_major(kF32, {}));
    parameter(add, 12, row_major(kF32, {}));
    auto& sum = instruction(add, 13, "add", row_major(kF32, {}), {11, 12});
    sum.set_name("add.13");
    add.set_root_id(13);
    auto& main = computation(2, "main");
    parameter(main, 21, row_major(kF32, {4, 6}));
    main.set_root_id(22);
    *module_.mutable_host_program_shape()->add_parameters() = row_major(kF32, {4, 6});
    *module_.mutable_host_program_shape()->mutable_result() = row_major(kF32, {4, 6});
  }

  hlo::Module& module() { return module_; }
  hlo::Computation& computation(std::int64_t id, const std::string& name) {
    auto& c = *module_.add_computations();
    c.set_id(id);
    c.set_name(name);
    return c;
  }
  hlo::Computation& main() { return *module_.mutable_computations(1); }
  hlo::Instruction& instruction(hlo::Computation& in, std::int64_t id, const std::string& opcode,
                                const hlo::Shape& shape, std::initializer_list<std::int64_t> operands) {
    auto& i = *in.add_instructions();
    i.set_id(id);
    i.set_opcode(opcode);
    i.set_name(opcode + "." + std::to_string(id));
    *i.mutable_shape() = shape;
    for (auto o : operands) i.add_operand_ids(o);
    return i;
  }
  void parameter(hlo::Computation& in, std::int64_t id, const hlo::Shape& shape) {
    instruction(in, id, "parameter", shape, {});
  }
  hlo::Instruction& collective(const std::string& opcode, std::int64_t id = 22) {
    auto& i = instruction(main(), id, opcode, row_major(kF32, {4, 6}), {21});
    i.set_channel_id(1);
    i.set_use_global_device_ids(true);
    if (opcode == "all-reduce" || opcode == "reduce-scatter") i.add_called_computation_ids(1);
    return i;
  }

  PartitionedProgram rewritten(const RewriteOptions& options = {}) const {
    return rewrite(module_.SerializeAsString(), 2, options);
  }
  hlo::Module result(const RewriteOptions& options = {}) const {
    hlo::Module out;
    EXPECT_TRUE(out.ParseFromString(rewritten(options).module));
    return out;
  }
  std::string refusal() const {
    try {
      rewritten();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::compile);
      return error.what();
    }
    return "accepted";
  }

 private:
  hlo::Module module_;
};

TEST(Rewrite, TurnsACollectiveIntoATypedCustomCall) {
  ModuleBuilder m;
  auto& reduce = m.collective("all-reduce");
  reduce.mutable_metadata()->set_op_name("jit(f)/\"psum\"");
  reduce.set_constrain_layout(true);
  reduce.mutable_collective_device_list()->add_replica_groups()->add_replica_ids(1);
  reduce.mutable_collective_device_list()->add_replica_groups()->add_replica_ids(0);
  m.module().set_schedule("s");
  m.module().set_device_assignment("d");
  hlo::Module out = m.result();
  EXPECT_EQ(out.id(), 0);
  EXPECT_EQ(out.schedule(), "");
  EXPECT_EQ(out.device_assignment(), "");
  const auto& call = out.computations(1).instructions(1);
  EXPECT_EQ(call.opcode(), "custom-call");
  EXPECT_EQ(call.custom_call_target(), "lockstep_collective");
  EXPECT_EQ(call.custom_call_api_version(), 4);
  EXPECT_TRUE(call.custom_call_has_side_effect());
  EXPECT_EQ(call.id(), 22);
  EXPECT_EQ(call.channel_id(), 0);
  EXPECT_FALSE(call.use_global_device_ids());
  EXPECT_FALSE(call.constrain_layout());
  EXPECT_EQ(call.called_computation_ids_size(), 0);
  EXPECT_EQ(call.replica_group_list_case(), hlo::Instruction::REPLICA_GROUP_LIST_NOT_SET);
  EXPECT_EQ(
      call.backend_config(),
      "{op = \"all-reduce\", kind = \"add\", id = 0 : i64, inputs = 1 : i64, group_size = 1 : i64, groups = "
      "array<i64: 1, 0>, outer = array<i64>, pairs = array<i64>, name = \"all-reduce.22 (jit(f)/\\22psum\\22)\"}");
}

TEST(Rewrite, ReportsSignatureAndCollectives) {
  ModuleBuilder m;
  auto& gather = m.collective("all-gather");
  gather.add_dimensions(1);
  *gather.mutable_shape() = row_major(kF32, {4, 12});
  auto& alias = *m.module().mutable_input_output_alias()->add_entries();
  alias.set_parameter_number(0);
  alias.set_kind(1);
  PartitionedProgram p = m.rewritten();
  EXPECT_THAT(p.parameters, ElementsAre(pjrt::TensorType{DType::float32, {4, 6}}));
  EXPECT_THAT(p.results, ElementsAre(pjrt::TensorType{DType::float32, {4, 6}}));
  ASSERT_EQ(p.aliases.size(), 1u);
  EXPECT_FALSE(p.aliases[0].must);
  ASSERT_EQ(p.collectives.size(), 1u);
  const Collective& c = p.collectives[0];
  EXPECT_EQ(c.spec.op, CollectiveOp::all_gather);
  EXPECT_EQ(c.spec.reduction, Reduction::none);
  EXPECT_THAT(c.spec.groups, ElementsAre(0, 1));
  EXPECT_EQ(c.spec.group_size, 2);
  EXPECT_THAT(c.spec.outer, ElementsAre(4));
  EXPECT_THAT(c.inputs, ElementsAre(pjrt::TensorType{DType::float32, {4, 6}}));
  EXPECT_EQ(c.bytes, 96);
  EXPECT_FALSE(c.in_loop);
  EXPECT_EQ(c.calls, 1);
  EXPECT_FALSE(p.uses_partition_id);
}

TEST(Rewrite, OuterCountsPhysicalDimensions) {
  ModuleBuilder m;
  auto column_major = row_major(kF32, {4, 12});
  column_major.mutable_layout()->set_minor_to_major(0, 0);
  column_major.mutable_layout()->set_minor_to_major(1, 1);
  auto& gather = m.collective("all-gather");
  gather.add_dimensions(1);
  *gather.mutable_shape() = column_major;
  EXPECT_THAT(m.refusal(), HasSubstr("the layouts of operand f32[4,6]{1,0} and result f32[4,12]{0,1} differ"));
  auto& operand = *m.main().mutable_instructions(0)->mutable_shape()->mutable_layout();
  operand.set_minor_to_major(0, 0);
  operand.set_minor_to_major(1, 1);
  EXPECT_THAT(m.rewritten().collectives[0].spec.outer, ElementsAre(1));
}

TEST(Rewrite, PartitionAndReplicaId) {
  ModuleBuilder m;
  m.instruction(m.main(), 23, "partition-id", row_major(kU32, {}), {});
  m.instruction(m.main(), 24, "replica-id", row_major(kU32, {}), {});
  EXPECT_TRUE(m.rewritten().uses_partition_id);
  hlo::Module out = m.result();
  EXPECT_EQ(out.computations(1).instructions(1).custom_call_target(), "lockstep_partition_id");
  EXPECT_FALSE(out.computations(1).instructions(1).custom_call_has_side_effect());
  EXPECT_EQ(out.computations(1).instructions(2).opcode(), "constant");
  EXPECT_THAT(out.computations(1).instructions(2).literal().u32s(), ElementsAre(0u));
}

TEST(Rewrite, RenamesCustomCalls) {
  ModuleBuilder m;
  auto& call = m.instruction(m.main(), 22, "custom-call", row_major(kF32, {}), {});
  call.set_custom_call_target("xla_ffi_python_cpu_callback");
  call.set_backend_config("{index = 3 : i64}");
  hlo::Module out = m.result({.rename_targets = {{"xla_ffi_python_cpu_callback", "ours"}}});
  EXPECT_EQ(out.computations(1).instructions(1).custom_call_target(), "ours");
  EXPECT_EQ(out.computations(1).instructions(1).backend_config(), "{index = 3 : i64}");
  EXPECT_EQ(m.result().computations(1).instructions(1).custom_call_target(), "xla_ffi_python_cpu_callback");
}

TEST(Rewrite, KeepsWhatItDoesNotKnow) {
  ModuleBuilder m;
  m.collective("all-reduce");
  std::string bytes = m.module().SerializeAsString();
  const std::string unknown = "\xfa\x01\x03xyz";  // field 31, a string
  PartitionedProgram p = rewrite(bytes + unknown, 2);
  EXPECT_THAT(p.module, HasSubstr(unknown));
}

// A collective in the body of one loop within another.
TEST(Rewrite, CountsTheCallsInLoops) {
  ModuleBuilder m;
  m.collective("all-reduce");
  auto reduce = m.main().instructions(1);
  m.main().mutable_instructions()->RemoveLast();
  auto loop = [&](hlo::Computation& in, std::int64_t id, std::int64_t body,
                  std::int64_t condition) -> hlo::Instruction& {
    auto& i = m.instruction(in, id, "while", row_major(kF32, {4, 6}), {21});
    i.add_called_computation_ids(body);
    i.add_called_computation_ids(condition);
    return i;
  };
  auto& outer = m.computation(3, "outer");
  auto& inner = m.computation(4, "inner");
  auto& condition = m.computation(5, "condition");
  loop(m.main(), 22, 3, 6).set_backend_config(R"({"known_trip_count":{"n":"3"},"other":1})");
  auto& second = loop(outer, 32, 4, 5);
  second.set_backend_config(R"({"known_trip_count":{"n":"5"}})");
  *inner.add_instructions() = reduce;
  reduce.set_id(52);
  *condition.add_instructions() = reduce;
  PartitionedProgram p = m.rewritten();
  ASSERT_EQ(p.collectives.size(), 2u);
  EXPECT_TRUE(p.collectives[0].in_loop);
  EXPECT_EQ(p.collectives[0].calls, 15);
  EXPECT_EQ(p.collectives[1].calls, 18);
  second.clear_backend_config();
  EXPECT_FALSE(m.rewritten().collectives[0].calls.has_value());
}

TEST(Rewrite, EquationsOfCollectivesAreToldAndLeftOut) {
  ModuleBuilder m;
  m.collective("all-reduce").mutable_metadata()->set_op_name("jit/dot_general#17");
  PartitionedProgram p = m.rewritten();
  EXPECT_EQ(p.collectives[0].equation, 17u);
  EXPECT_EQ(p.collectives[0].spec.name, "all-reduce.22 (jit/dot_general)");
  EXPECT_EQ(m.result().computations(1).instructions(1).metadata().op_name(), "jit/dot_general");
  m.main().mutable_instructions(1)->mutable_metadata()->set_op_name("a #name");
  EXPECT_FALSE(m.rewritten().collectives[0].equation.has_value());
  EXPECT_EQ(m.rewritten().collectives[0].op_name, "a #name");
}

TEST(Rewrite, AMergedCollectiveIsNamedByTheFirstOfItsParts) {
  ModuleBuilder m;
  hlo::Shape pair;
  pair.set_element_type(kTuple);
  *pair.add_tuple_shapes() = row_major(kF32, {4, 6});
  *pair.add_tuple_shapes() = row_major(kF32, {4, 6});
  auto& merged = m.instruction(m.main(), 30, "all-reduce", pair, {21, 21});
  merged.add_called_computation_ids(1);
  merged.set_channel_id(1);
  merged.set_use_global_device_ids(true);
  m.instruction(m.main(), 31, "get-tuple-element", row_major(kF32, {4, 6}), {30})
      .mutable_metadata()
      ->set_op_name("mul#4");
  m.instruction(m.main(), 32, "get-tuple-element", row_major(kF32, {4, 6}), {30})
      .mutable_metadata()
      ->set_op_name("sub#5");
  m.instruction(m.main(), 22, "add", row_major(kF32, {4, 6}), {31, 32});
  PartitionedProgram p = m.rewritten();
  ASSERT_EQ(p.collectives.size(), 1u);
  EXPECT_EQ(p.collectives[0].equation, 4u);
  EXPECT_EQ(p.collectives[0].spec.name, "all-reduce.30 (mul)");
}

TEST(Rewrite, Refusals) {
  {
    ModuleBuilder m;
    m.collective("all-reduce").mutable_metadata()->set_op_name("jit(f)/reduce");
    m.module().mutable_computations(0)->mutable_instructions(2)->set_opcode("subtract");
    EXPECT_THAT(m.refusal(), HasSubstr("all-reduce.22 (jit(f)/reduce) cannot run over several processes: its reduction "
                                       "region_1 is not one of add, multiply"));
  }
  {
    ModuleBuilder m;  // x * x, not x * y
    m.collective("all-reduce");
    m.module().mutable_computations(0)->mutable_instructions(2)->set_operand_ids(1, 11);
    EXPECT_THAT(m.refusal(), HasSubstr("is not one of add"));
  }
  for (const char* opcode : {"all-reduce-start", "collective-permute-done", "send", "recv-done"}) {
    ModuleBuilder m;
    m.collective(opcode);
    EXPECT_THAT(m.refusal(), HasSubstr("asynchronous form is not supported")) << opcode;
  }
  {
    ModuleBuilder m;
    auto& wrapped = m.computation(3, "wrapped");
    m.collective("all-reduce");
    *wrapped.add_instructions() = m.main().instructions(1);
    m.main().mutable_instructions()->RemoveLast();
    m.instruction(m.main(), 22, "async-start", row_major(kF32, {}), {21}).add_called_computation_ids(3);
    EXPECT_THAT(m.refusal(), HasSubstr("asynchronous form is not supported"));
    m.main().mutable_instructions(1)->set_opcode("call");
    EXPECT_EQ(m.refusal(), "accepted");
    m.instruction(m.main(), 23, "call", row_major(kF32, {}), {21}).add_called_computation_ids(3);
    EXPECT_THAT(m.refusal(), HasSubstr("the computation wrapped around it is called from 2 places"));
  }
  {
    ModuleBuilder m;
    m.collective("all-to-all").add_dimensions(0);
    EXPECT_THAT(m.refusal(), HasSubstr("array form"));
  }
  {
    ModuleBuilder m;
    m.module().mutable_host_program_shape()->mutable_result()->mutable_layout()->set_minor_to_major(0, 0);
    EXPECT_THAT(m.refusal(), HasSubstr("result 0 has the layout"));
  }
  {
    ModuleBuilder m;
    m.module().mutable_host_program_shape()->mutable_parameters(0)->set_element_type(28);
    EXPECT_THAT(m.refusal(), HasSubstr("parameter 0 has elements of XLA type 28"));
  }
  try {
    rewrite("garbage", 2);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::compile);
  }
}

// The weight goes before the first collective outside of loops, with ids that are free.
TEST(Rewrite, WeighsDownProgramsThatMustRunInTheBackground) {
  ModuleBuilder m;
  auto& inner = m.computation(3, "inner");
  m.collective("all-reduce", 25);
  *inner.add_instructions() = m.main().instructions(1);
  m.main().mutable_instructions(1)->set_id(22);
  m.instruction(m.main(), 23, "call", row_major(kF32, {}), {22}).add_called_computation_ids(3);
  hlo::Module out = m.result({.background = true});
  const auto& main = out.computations(1);
  ASSERT_EQ(main.instructions_size(), 5);
  EXPECT_EQ(main.instructions(1).opcode(), "iota");
  EXPECT_EQ(main.instructions(2).opcode(), "negate");
  EXPECT_EQ(main.instructions(2).operand_ids(0), main.instructions(1).id());
  EXPECT_EQ(main.instructions(3).id(), 22);
  EXPECT_THAT(main.instructions(3).operand_ids(), ElementsAre(21, main.instructions(2).id()));
  EXPECT_THAT(main.instructions(3).backend_config(), HasSubstr("inputs = 1 : i64"));
  EXPECT_EQ(main.instructions(4).id(), 23);
  EXPECT_THAT(main.instructions(1).id(), 24);
  EXPECT_THAT(main.instructions(2).id(), 26);
  EXPECT_EQ(out.computations(2).instructions_size(), 1);
}

}  // namespace
}  // namespace lockstep::compile
