#include "lockstep/sharding/params.h"

namespace lockstep {
namespace {

std::string named_text(const Mesh& mesh, const PartitionSpec& spec) {
  return fmt::format("NamedSharding(mesh={}, spec={}, memory_kind=device)", to_string(mesh), to_string(spec));
}

}  // namespace

void print_param(Printer& p, const Mesh& m) { print_text(p, m ? to_string(m) : "Mesh()"); }
void print_param(Printer& p, const PartitionSpec& s) { print_text(p, to_string(s)); }
void print_param(Printer& p, const NamedSpec& s) { print_text(p, named_text(s.mesh, s.spec)); }
void print_param(Printer& p, const UnconstrainedDims& d) {
  std::string text;
  for (auto dim : d.dims) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  print_text(p, "frozenset({" + text + "})");
}

std::size_t hash_param(const Mesh& m) { return m.id(); }
std::size_t hash_param(const PartitionSpec& s) {
  std::size_t h = s.size();
  for (const SpecEntry& e : s.entries()) h = hash_combine(hash_combine(h, e.unconstrained), hash_param(e.axes));
  return h;
}
std::size_t hash_param(const NamedSpec& s) { return hash_combine(hash_param(s.mesh), hash_param(s.spec)); }
std::size_t hash_param(const UnconstrainedDims& d) { return hash_param(d.dims); }

}  // namespace lockstep
