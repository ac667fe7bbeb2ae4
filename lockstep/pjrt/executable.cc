#include "lockstep/pjrt/executable.h"

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/device.h"
#include "lockstep/pjrt/values.h"

namespace lockstep::pjrt {

LoadedExecutable::LoadedExecutable(const PJRT_Api* api, PJRT_LoadedExecutable* executable)
    : api_(api), executable_(executable) {
  LS_PJRT(PJRT_LoadedExecutable_GetExecutable) get;
  get->loaded_executable = executable;
  get(api);
  description_ = get->executable;
  LS_PJRT(PJRT_Executable_NumOutputs) count;
  count->executable = description_;
  count(api);
  output_count_ = count->num_outputs;
}

LoadedExecutable::~LoadedExecutable() {
  if (description_ != nullptr) {
    LS_PJRT(PJRT_Executable_Destroy) destroy;
    destroy->executable = description_;
    destroy.no_throw(api_);
  }
  if (executable_ != nullptr) {
    LS_PJRT(PJRT_LoadedExecutable_Destroy) destroy;
    destroy->executable = executable_;
    destroy.no_throw(api_);
  }
}

void LoadedExecutable::launch(std::span<PJRT_Buffer* const> inputs, PJRT_Buffer** outputs, const Launch& launch,
                              Event* done) const {
  PJRT_ExecuteOptions options;
  std::memset(&options, 0, sizeof options);
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  options.non_donatable_input_indices = launch.non_donatable_inputs.data();
  options.num_non_donatable_input_indices = launch.non_donatable_inputs.size();
  options.context = launch.context;
  PJRT_Buffer* const* argument_list = inputs.data();
  PJRT_Event* event = nullptr;
  LS_PJRT(PJRT_LoadedExecutable_Execute) execute;
  execute->executable = executable_;
  execute->options = &options;
  execute->argument_lists = &argument_list;
  execute->num_devices = 1;
  execute->num_args = inputs.size();
  execute->output_lists = &outputs;
  execute->device_complete_events = done == nullptr ? nullptr : &event;
  execute->execute_device = launch.device == nullptr ? nullptr : launch.device->raw();
  execute(api_, ErrorCode::execution);
  if (done != nullptr) *done = Event(api_, event, "PJRT_LoadedExecutable_Execute");
}

std::vector<Buffer> LoadedExecutable::execute(std::span<const Buffer* const> inputs, const Launch& launch,
                                              Event* done) const {
  std::vector<PJRT_Buffer*> in, out(output_count_);
  for (const Buffer* b : inputs) in.push_back(b->raw());
  this->launch(in, out.data(), launch, done);
  std::vector<Buffer> owned;
  for (PJRT_Buffer* b : out) owned.emplace_back(api_, b);
  return owned;
}

void LoadedExecutable::launch_all(std::span<const std::vector<PJRT_Buffer*>> inputs,
                                  std::span<std::vector<PJRT_Buffer*>> outputs, const Launch& launch) const {
  std::vector<PJRT_Buffer* const*> argument_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (std::size_t d = 0; d < inputs.size(); ++d) {
    if (inputs[d].size() != inputs[0].size())
      throw_error(ErrorCode::invalid_argument, "PJRT_LoadedExecutable_Execute", "device {} has {} inputs, device 0 {}",
                  d, inputs[d].size(), inputs[0].size());
    argument_lists.push_back(inputs[d].data());
    output_lists.push_back(outputs[d].data());
  }
  PJRT_ExecuteOptions options;
  std::memset(&options, 0, sizeof options);
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  options.non_donatable_input_indices = launch.non_donatable_inputs.data();
  options.num_non_donatable_input_indices = launch.non_donatable_inputs.size();
  LS_PJRT(PJRT_LoadedExecutable_Execute) execute;
  execute->executable = executable_;
  execute->options = &options;
  execute->argument_lists = argument_lists.data();
  execute->num_devices = inputs.size();
  execute->num_args = inputs.empty() ? 0 : inputs[0].size();
  execute->output_lists = output_lists.data();
  execute(api_, ErrorCode::execution);
}

std::vector<std::vector<Buffer>> LoadedExecutable::execute_all(
    std::span<const std::vector<const Buffer*>> inputs) const {
  std::size_t devices = inputs.size();
  std::vector<std::vector<PJRT_Buffer*>> in(devices), out(devices, std::vector<PJRT_Buffer*>(output_count_));
  for (std::size_t d = 0; d < devices; ++d)
    for (const Buffer* b : inputs[d]) in[d].push_back(b->raw());
  launch_all(in, out);
  std::vector<std::vector<Buffer>> owned(devices);
  for (std::size_t d = 0; d < devices; ++d)
    for (PJRT_Buffer* b : out[d]) owned[d].emplace_back(api_, b);
  return owned;
}

std::string LoadedExecutable::name() const {
  LS_PJRT(PJRT_Executable_Name) name;
  name->executable = description_;
  name(api_);
  return {name->executable_name, name->executable_name_size};
}

std::vector<TensorType> LoadedExecutable::output_types() const {
  LS_PJRT(PJRT_Executable_OutputElementTypes) types;
  types->executable = description_;
  types(api_);
  LS_PJRT(PJRT_Executable_OutputDimensions) dims;
  dims->executable = description_;
  dims(api_);
  std::vector<TensorType> out;
  const std::int64_t* at = dims->dims;
  for (std::size_t i = 0; i < types->num_output_types; ++i) {
    std::size_t rank = dims->dim_sizes[i];
    out.push_back({from_c(types->output_types[i], "PJRT_Executable_OutputElementTypes"), {at, at + rank}});
    at += rank;
  }
  return out;
}

std::vector<int> LoadedExecutable::addressable_device_ids() const {
  LS_PJRT(PJRT_LoadedExecutable_AddressableDevices) devices;
  devices->executable = executable_;
  devices(api_);
  std::vector<int> ids;
  for (std::size_t i = 0; i < devices->num_addressable_devices; ++i)
    ids.push_back(Device(api_, devices->addressable_devices[i]).id());
  return ids;
}

std::string LoadedExecutable::serialize() const {
  LS_PJRT(PJRT_Executable_Serialize) serialize;
  serialize->executable = description_;
  serialize(api_);
  std::string bytes(serialize->serialized_bytes, serialize->serialized_bytes_size);
  serialize->serialized_executable_deleter(serialize->serialized_executable);
  return bytes;
}

LoadedExecutable::Program LoadedExecutable::optimized_program() const {
  PJRT_Program program;
  std::memset(&program, 0, sizeof program);
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  LS_PJRT(PJRT_Executable_OptimizedProgram) get;
  get->executable = description_;
  get->program = &program;
  get(api_);  // the first call gives the size
  std::string bytes(program.code_size, '\0');
  program.code = bytes.data();
  get(api_);
  return {std::string(program.format, program.format_size), std::move(bytes)};
}

std::optional<std::map<std::string, double>> LoadedExecutable::cost_analysis() const {
  LS_PJRT(PJRT_Executable_GetCostAnalysis) cost;
  cost->executable = description_;
  if (!cost.if_implemented(api_)) return std::nullopt;
  std::map<std::string, double> out;
  for (const auto& [name, value] : from_c({cost->properties, cost->num_properties})) {
    if (auto* f = std::get_if<float>(&value)) out[name] = *f;
    if (auto* i = std::get_if<std::int64_t>(&value)) out[name] = static_cast<double>(*i);
  }
  return out;
}

CompiledMemoryStats LoadedExecutable::memory_stats() const {
  LS_PJRT(PJRT_Executable_GetCompiledMemoryStats) stats;
  stats->executable = description_;
  stats(api_);
  return {stats->generated_code_size_in_bytes, stats->argument_size_in_bytes, stats->output_size_in_bytes,
          stats->alias_size_in_bytes,          stats->temp_size_in_bytes,     stats->peak_memory_in_bytes};
}

}  // namespace lockstep::pjrt
