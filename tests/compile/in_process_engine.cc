#include "tests/compile/in_process_engine.h"

#include <algorithm>
#include <complex>
#include <cstring>

namespace lockstep::compile {
namespace {

using collectives::CollectiveOp;
using collectives::CollectiveSpec;
using collectives::InBuffer;
using collectives::OutBuffer;
using collectives::Reduction;

template <class T>
void reduce(Reduction kind, T* out, const T* in, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (kind == Reduction::add) out[i] = static_cast<T>(out[i] + in[i]);
    if (kind == Reduction::multiply) out[i] = static_cast<T>(out[i] * in[i]);
    if constexpr (!std::is_same_v<T, std::complex<float>>) {
      if (kind == Reduction::maximum) out[i] = std::max(out[i], in[i]);
      if (kind == Reduction::minimum) out[i] = std::min(out[i], in[i]);
    }
    if constexpr (std::is_integral_v<T>) {
      if (kind == Reduction::and_) out[i] = static_cast<T>(out[i] & in[i]);
      if (kind == Reduction::or_) out[i] = static_cast<T>(out[i] | in[i]);
      if (kind == Reduction::xor_) out[i] = static_cast<T>(out[i] ^ in[i]);
    }
  }
}

void reduce(DType dtype, Reduction kind, void* out, const void* in, std::size_t n) {
  auto as = [&](auto zero) {
    using T = decltype(zero);
    reduce(kind, static_cast<T*>(out), static_cast<const T*>(in), n);
  };
  switch (dtype) {
    case DType::bool_:
    case DType::uint8:
      return as(std::uint8_t());
    case DType::int8:
      return as(std::int8_t());
    case DType::int32:
      return as(std::int32_t());
    case DType::uint32:
      return as(std::uint32_t());
    case DType::float32:
      return as(float());
    case DType::complex64:
      return as(std::complex<float>());
    case DType::float16:
      for (std::size_t i = 0; i < n; ++i) {
        auto& o = static_cast<Half*>(out)[i];
        float a = to_float(o), b = to_float(static_cast<const Half*>(in)[i]);
        reduce(kind, &a, &b, 1);
        o = to_half(a);
      }
      return;
    default:
      LS_CHECK(false, "no reduction of {}", name(dtype));
  }
}

// The members' inputs lie in group order; returns the results of all outputs of member `me`.
void compute(const CollectiveSpec& spec, const std::vector<std::vector<InBuffer>>& in, std::size_t me,
             const std::vector<OutBuffer>& out) {
  auto bytes = [](const InBuffer& b) { return static_cast<const char*>(b.data); };
  std::size_t members = in.size();
  for (std::size_t k = 0; k < out.size(); ++k) {
    auto* to = static_cast<char*>(out[k].data);
    switch (spec.op) {
      case CollectiveOp::all_reduce:
        std::memcpy(to, in[0][k].data, out[k].bytes);
        for (std::size_t m = 1; m < members; ++m) reduce(out[k].dtype, spec.reduction, to, in[m][k].data, out[k].count);
        break;
      case CollectiveOp::all_gather: {
        auto outer = static_cast<std::size_t>(spec.outer[k]);
        std::size_t block = outer == 0 ? 0 : in[0][k].bytes / outer;
        for (std::size_t m = 0; m < members; ++m)
          for (std::size_t o = 0; o < outer; ++o)
            std::memcpy(to + (o * members + m) * block, bytes(in[m][k]) + o * block, block);
        break;
      }
      case CollectiveOp::reduce_scatter: {
        auto outer = static_cast<std::size_t>(spec.outer[k]);
        std::size_t block = outer == 0 ? 0 : out[k].bytes / outer;
        for (std::size_t o = 0; o < outer; ++o)
          for (std::size_t m = 0; m < members; ++m) {
            const char* from = bytes(in[m][k]) + (o * members + me) * block;
            if (m == 0)
              std::memcpy(to + o * block, from, block);
            else
              reduce(out[k].dtype, spec.reduction, to + o * block, from, out[k].count / outer);
          }
        break;
      }
      case CollectiveOp::all_to_all:
        std::memcpy(to, in[k][me].data, out[k].bytes);
        break;
      case CollectiveOp::collective_broadcast:
        std::memcpy(to, in[0][k].data, out[k].bytes);
        break;
      case CollectiveOp::ragged_all_to_all: {
        std::memcpy(to, in[me][1].data, out[k].bytes);
        const InBuffer& operand = in[me][0];
        std::size_t row = operand.dims[0] == 0 ? 0 : operand.bytes / static_cast<std::size_t>(operand.dims[0]);
        for (std::size_t m = 0; m < members; ++m) {
          auto at = [&](int which) { return static_cast<const std::int32_t*>(in[m][which].data)[me]; };
          std::memcpy(to + at(4) * row, bytes(in[m][0]) + at(2) * row, at(3) * row);
        }
        break;
      }
      case CollectiveOp::collective_permute:
        LS_CHECK(false);
    }
  }
}

}  // namespace

InProcessEngine::InProcessEngine()
    : worker_([this] {
        std::unique_lock lock(mutex_);
        while (true) {
          changed_.wait(lock, [&] { return stopping_ || !completions_.empty(); });
          if (completions_.empty()) return;
          auto work = std::move(completions_.front());
          completions_.pop_front();
          lock.unlock();
          work();
          lock.lock();
        }
      }) {}

InProcessEngine::~InProcessEngine() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

runtime::CollectiveProgram::Start InProcessEngine::starter() {
  return [this](auto spec, auto launch, auto partition, auto inputs, auto outputs, auto done) {
    start(spec, launch, partition, inputs, outputs, std::move(done));
  };
}

int InProcessEngine::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

void InProcessEngine::fail_with(const Error& error) {
  std::lock_guard lock(mutex_);
  failure_ = std::make_unique<Error>(error);
}

void InProcessEngine::complete_later(std::function<void()> work) {
  completions_.push_back(std::move(work));
  changed_.notify_all();
}

void InProcessEngine::start(const Spec& spec, std::uint64_t launch, std::int64_t partition,
                            std::span<const InBuffer> inputs, std::span<const OutBuffer> outputs,
                            collectives::Done done) {
  std::lock_guard lock(mutex_);
  ++calls_;
  if (failure_) return complete_later([error = *failure_, done] { done(&error); });
  // Who takes part, in group order. The whole of a permute's pairs is one group.
  std::vector<std::int64_t> members;
  std::int64_t group = 0;
  if (spec->op == CollectiveOp::collective_permute) {
    for (std::int64_t p : spec->pairs)
      if (std::find(members.begin(), members.end(), p) == members.end()) members.push_back(p);
  } else {
    auto it = std::find(spec->groups.begin(), spec->groups.end(), partition);
    LS_CHECK(it != spec->groups.end());
    group = (it - spec->groups.begin()) / spec->group_size;
    auto first = spec->groups.begin() + group * spec->group_size;
    members.assign(first, first + spec->group_size);
  }
  if (std::find(members.begin(), members.end(), partition) == members.end()) {
    for (const OutBuffer& b : outputs) std::memset(b.data, 0, b.bytes);
    return complete_later([done] { done(nullptr); });
  }
  std::int64_t occurrence = occurrences_[{launch, spec->id, partition}]++;
  auto& calls = waiting_[{launch, spec->id, group, occurrence}];
  calls.push_back({partition, {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}, std::move(done)});
  if (calls.size() < members.size()) return;

  auto position = [&](std::int64_t p) { return std::find(members.begin(), members.end(), p) - members.begin(); };
  std::sort(calls.begin(), calls.end(),
            [&](const Call& a, const Call& b) { return position(a.partition) < position(b.partition); });
  std::vector<std::vector<InBuffer>> in;
  for (const Call& call : calls) in.push_back(call.inputs);
  for (std::size_t me = 0; me < calls.size(); ++me) {
    if (spec->op == CollectiveOp::collective_permute) {
      for (const OutBuffer& b : calls[me].outputs) std::memset(b.data, 0, b.bytes);
      for (std::size_t i = 0; i < spec->pairs.size(); i += 2)
        if (spec->pairs[i + 1] == members[me])
          for (std::size_t k = 0; k < calls[me].outputs.size(); ++k)
            std::memcpy(calls[me].outputs[k].data, in[position(spec->pairs[i])][k].data, calls[me].outputs[k].bytes);
    } else {
      compute(*spec, in, me, calls[me].outputs);
    }
  }
  complete_later([calls = std::move(calls)] {
    for (const Call& call : calls) call.done(nullptr);
  });
  waiting_.erase({launch, spec->id, group, occurrence});
}

}  // namespace lockstep::compile
