#include "lockstep/lower/context.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "lockstep/sharding/sharding.h"
#include "lockstep/support/error.h"

namespace lockstep {

std::string int_list(const Shape& s) {
  std::string text = "[";
  for (std::size_t i = 0; i < s.size(); ++i) text += (i ? ", " : "") + std::to_string(s[i]);
  return text + "]";
}
std::string i64_array(const Shape& s) {
  std::string text = "array<i64";
  for (std::size_t i = 0; i < s.size(); ++i) text += (i ? ", " : ": ") + std::to_string(s[i]);
  return text + ">";
}
std::string mesh_symbol(std::size_t index) { return index == 0 ? "mesh" : fmt::format("mesh_{}", index - 1); }
std::string function_type(std::span<const AvalP> in, std::span<const AvalP> out) {
  std::string text = "(";
  for (std::size_t i = 0; i < in.size(); ++i) text += (i ? ", " : "") + in[i]->mlir;
  text += ") -> ";
  if (out.size() != 1) text += "(";
  for (std::size_t i = 0; i < out.size(); ++i) text += (i ? ", " : "") + out[i]->mlir;
  if (out.size() != 1) text += ")";
  return text;
}

void LowerContext::indent() { body_.append(static_cast<std::size_t>(2 * depth_), ' '); }
void LowerContext::end_line() {
  body_ += suffix_;
  body_ += '\n';
}
void LowerContext::line(std::string_view text) {
  indent();
  body_ += text;
  body_ += '\n';
}
std::vector<std::string> LowerContext::emit_many(std::size_t count, std::string_view text) {
  std::vector<std::string> names;
  indent();
  if (count == 0) {
    body_ += text;
  } else {
    std::string name = fresh();
    if (count == 1) {
      fmt::format_to(std::back_inserter(body_), "{} = {}", name, text);
      names.push_back(name);
    } else {
      fmt::format_to(std::back_inserter(body_), "{}:{} = {}", name, count, text);
      for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("{}#{}", name, i));
    }
  }
  end_line();
  return names;
}
std::string LowerContext::symbol_of(const Mesh& mesh) {
  auto at = std::find(meshes_.begin(), meshes_.end(), mesh);
  auto index = static_cast<std::size_t>(at - meshes_.begin());
  if (at == meshes_.end()) meshes_.push_back(mesh);
  return lockstep::mesh_symbol(index);
}
void LowerContext::begin_region(bool isolated) {
  saved_bodies_.push_back(std::move(body_));
  body_.clear();
  hidden_constants_.emplace_back();
  if (isolated) std::swap(hidden_constants_.back(), constants_);
  constants_.emplace_back();
  ++depth_;
}
std::string LowerContext::end_region() {
  --depth_;
  constants_.pop_back();
  if (!hidden_constants_.back().empty()) constants_ = std::move(hidden_constants_.back());
  hidden_constants_.pop_back();
  std::string region = std::move(body_);
  body_ = std::move(saved_bodies_.back());
  saved_bodies_.pop_back();
  return region;
}

std::string LowerContext::constant(const Scalar& value, AvalP aval) {
  std::string text =
      fmt::format("stablehlo.constant dense<{}> : {}", to_mlir_string(value.cast(aval->dtype)), aval->mlir);
  for (auto it = constants_.rbegin(); it != constants_.rend(); ++it)
    if (auto found = it->find(text); found != it->end()) return found->second;
  return constants_.back()[text] = emit("{}", text);
}
std::string LowerContext::broadcast_to(const std::string& operand, AvalP in, AvalP out) {
  if (in->shape == out->shape) return operand;
  LS_CHECK(in->rank() == 0 || in->rank() == out->rank(), "{} to {}", in->text, out->text);
  Ints dims;
  for (int i = 0; i < in->rank(); ++i) dims.push_back(i);
  return emit("stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {}", operand, int_list(dims), in->mlir,
              mlir_type(out->shape, in->dtype));
}
std::string LowerContext::convert(const std::string& operand, AvalP in, AvalP out) {
  if (in->mlir == out->mlir) return operand;
  return emit("stablehlo.convert {} : ({}) -> {}", operand, in->mlir, out->mlir);
}

void LowerContext::lower_eqns(const Jaxpr& j, std::unordered_map<VarId, std::string>& env) {
  std::vector<std::string> in, out;
  AvalList in_avals, out_avals;
  for (const Eqn& e : j.eqns) {
    in.clear(), out.clear(), in_avals.clear(), out_avals.clear();
    for (Atom a : j.in(e)) {
      in_avals.push_back(j.aval(a));
      in.push_back(is_literal(a) ? constant(j.literals[~a].value, j.literals[~a].aval) : env.at(a));
    }
    for (VarId v : j.out(e)) out_avals.push_back(j.vars[v]);
    LocationOverride scope(e.where);
    LocationId outer_where = std::exchange(where, e.where);
    std::string outer_suffix = std::move(suffix_);
    if (locations_ != nullptr) {
      suffix_ = fmt::format(" loc(\"{}#{}\")", e.primitive->name, locations_->size());
      locations_->push_back(e.where);
    }
    if (e.primitive->lower == nullptr) throw_error(ErrorCode::missing_rule, e.primitive->name, "has no lowering rule");
    e.primitive->lower(*this, e.params, in_avals, out_avals, in, out);
    LS_CHECK(out.size() == e.num_out, "{} lowered to {} results", e.primitive->name, out.size());
    for (std::size_t i = 0; i < out.size(); ++i) env[j.out(e)[i]] = out[i];
    where = outer_where;
    suffix_ = std::move(outer_suffix);
  }
}
std::vector<std::string> LowerContext::inline_jaxpr(const ClosedJaxpr& closed, std::span<const std::string> args) {
  auto live = dead_code_eliminate(*closed);
  const Jaxpr& j = *live;
  LS_CHECK(args.size() == j.invars.size());
  std::unordered_map<VarId, std::string> env;
  for (std::size_t i = 0; i < args.size(); ++i) env[j.invars[i]] = args[i];
  for (std::size_t i = 0; i < j.constvars.size(); ++i) {
    const Value& v = *(*closed.consts)[i];
    LS_CHECK(v.kind() == Value::Kind::scalar, "a jaxpr is lowered with array constants: hoist them first");
    env[j.constvars[i]] = constant(static_cast<const ScalarValue&>(v).scalar, v.aval());
  }
  lower_eqns(j, env);
  std::vector<std::string> outs;
  for (Atom a : j.outvars)
    outs.push_back(is_literal(a) ? constant(j.literals[~a].value, j.literals[~a].aval) : env.at(a));
  return outs;
}

std::string LowerContext::function_for(const ClosedJaxpr& j, std::string_view name) {
  auto [it, fresh_one] = function_names_.try_emplace(j.jaxpr.get());
  if (!fresh_one) return it->second;
  std::string symbol(name);
  for (char& c : symbol)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (symbol.empty()) symbol = "fn";
  if (int n = symbol_counts_[symbol]++) symbol += "_" + std::to_string(n);
  it->second = symbol;

  auto saved_body = std::move(body_);
  auto saved_constants = std::exchange(constants_, {{}});
  int saved_next = std::exchange(next_, 0), saved_depth = std::exchange(depth_, 2);
  body_.clear();
  AvalList ins = j->in_avals(), outs = j->out_avals();
  std::string head = "  func.func private @" + symbol + "(";
  std::vector<std::string> args;
  for (std::size_t i = 0; i < ins.size(); ++i) {
    args.push_back(fmt::format("%arg{}", i));
    fmt::format_to(std::back_inserter(head), "{}{}: {}", i ? ", " : "", args.back(), ins[i]->mlir);
  }
  head += ") -> (";
  std::string types;
  for (std::size_t i = 0; i < outs.size(); ++i) types += (i ? ", " : "") + outs[i]->mlir;
  head += types + ") {\n";
  auto results = inline_jaxpr(j, args);
  std::string ret = "return";
  for (std::size_t i = 0; i < results.size(); ++i) ret += (i ? ", " : " ") + results[i];
  line(results.empty() ? ret : ret + " : " + types);
  functions_ += head + body_ + "  }\n";
  body_ = std::move(saved_body);
  constants_ = std::move(saved_constants);
  next_ = saved_next;
  depth_ = saved_depth;
  return symbol;
}

class ModuleLowering {
 public:
  static std::string run(const ClosedJaxpr& j, const ModuleOptions& options) {
    LowerContext ctx;
    ctx.axes = options.axes;
    ctx.locations_ = options.locations;
    ctx.meshes_ = options.meshes;
    ctx.symbol_counts_["main"] = 1;
    AvalList ins = j->in_avals(), outs = j->out_avals();
    std::string text;
    auto out = std::back_inserter(text);
    fmt::format_to(out, "module @{} attributes {{mhlo.num_partitions = {} : i32, mhlo.num_replicas = 1 : i32}} {{\n",
                   options.name, options.num_partitions);
    const std::size_t meshes_at = text.size();
    text += "  func.func public @main(";
    std::vector<std::string> args;
    for (std::size_t i = 0; i < ins.size(); ++i) {
      args.push_back(fmt::format("%arg{}", i));
      fmt::format_to(out, "{}{}: {}", i ? ", " : "", args.back(), ins[i]->mlir);
      if (i < options.in.size()) attributes(text, options.in[i], true);
    }
    text += ") -> (";
    std::string types;
    for (std::size_t i = 0; i < outs.size(); ++i) {
      types += (i ? ", " : "") + outs[i]->mlir;
      fmt::format_to(out, "{}{}", i ? ", " : "", outs[i]->mlir);
      if (i < options.out.size()) attributes(text, options.out[i], false);
    }
    text += ") {\n";
    auto results = ctx.inline_jaxpr(j, args);
    std::string ret = "return";
    for (std::size_t i = 0; i < results.size(); ++i) ret += (i ? ", " : " ") + results[i];
    ctx.line(results.empty() ? ret : ret + " : " + types);
    text.insert(meshes_at, meshes(ctx.meshes_, options.devices));
    return text + ctx.body_ + "  }\n" + ctx.functions_ + "}\n";
  }

 private:
  static std::string meshes(std::span<const Mesh> all, std::span<const int> devices) {
    std::string text;
    for (std::size_t i = 0; i < all.size(); ++i)
      text += fmt::format("  sdy.mesh @{} = {}\n", mesh_symbol(i),
                          sdy_mesh(all[i], devices.empty() ? all[0].device_ids() : devices));
    return text;
  }
  static void attributes(std::string& text, const LowerArgument& a, bool input) {
    std::string list;
    auto add = [&](std::string item) { list += (list.empty() ? "" : ", ") + item; };
    if (!a.sharding.empty()) add("sdy.sharding = " + a.sharding);
    if (input && a.aliased_output >= 0) add(fmt::format("tf.aliasing_output = {} : i32", a.aliased_output));
    if (input && a.donated && a.aliased_output < 0) add("jax.buffer_donor = true");
    if (!list.empty()) text += " {" + list + "}";
  }
};

std::string lower_to_stablehlo(const ClosedJaxpr& j, const ModuleOptions& options) {
  return ModuleLowering::run(j, options);
}

std::string without_locations(std::string_view text) {
  constexpr std::string_view begin = " loc(\"", end = "\")";
  std::string out;
  out.reserve(text.size());
  for (;;) {
    std::size_t at = text.find(begin);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    text.remove_prefix(text.find(end, at) + end.size());
  }
}

}  // namespace lockstep
