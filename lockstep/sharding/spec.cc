#include "lockstep/sharding/spec.h"

#include <algorithm>

namespace lockstep {
namespace {

std::string entry_text(const SpecEntry& e) {
  if (e.unconstrained) return "UNCONSTRAINED";
  if (e.axes.empty()) return "None";
  if (e.axes.size() == 1) return "'" + e.axes[0] + "'";
  std::string text;
  for (const std::string& axis : e.axes) text += (text.empty() ? "('" : ", '") + axis + "'";
  return text + ")";
}

}  // namespace

PartitionSpec PartitionSpec::trimmed() const {
  PartitionSpec p = *this;
  while (!p.entries_.empty() && p.entries_.back() == SpecEntry(none)) p.entries_.pop_back();
  return p;
}

bool PartitionSpec::mentions(std::string_view axis) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const SpecEntry& e) { return std::find(e.axes.begin(), e.axes.end(), axis) != e.axes.end(); });
}

std::string to_string(const PartitionSpec& p) {
  std::string text;
  for (const SpecEntry& e : p.entries()) text += (text.empty() ? "" : ", ") + entry_text(e);
  return "P(" + text + (p.size() == 1 ? ",)" : ")");
}

}  // namespace lockstep
