#include "lockstep/sharding/spec_errors.h"

#include <algorithm>

#include "lockstep/sharding/sharding.h"
#include "lockstep/support/error.h"

namespace lockstep {
namespace {

std::string subject(std::string_view argument, const Shape* shape) {
  std::string text = argument.empty() ? (shape ? "an array" : "") : std::string(argument);
  if (shape) text += " of shape " + to_tuple_string(*shape);
  return text.empty() ? "" : text + ": ";
}

std::int64_t parts_of(const Mesh& mesh, const SpecEntry& e) {
  std::int64_t parts = 1;
  for (const std::string& axis : e.axes) parts *= mesh.axis_size(axis).value_or(1);
  return parts;
}

PartitionSpec without_repeats(const PartitionSpec& spec) {
  std::vector<SpecEntry> entries;
  std::vector<std::string> seen;
  for (const SpecEntry& e : spec.entries()) {
    SpecEntry kept = e;
    kept.axes.clear();
    for (const std::string& axis : e.axes)
      if (std::find(seen.begin(), seen.end(), axis) == seen.end()) {
        kept.axes.push_back(axis);
        seen.push_back(axis);
      }
    entries.push_back(std::move(kept));
  }
  return PartitionSpec(std::move(entries));
}

}  // namespace

namespace internal {

void check_axes(const Mesh& mesh, const PartitionSpec& spec, std::string_view operation, std::string_view argument,
                bool allow_unconstrained) {
  auto fail = [&](const std::string& what) {
    throw_error(ErrorCode::sharding, std::string(operation), "{}{}", subject(argument, nullptr), what);
  };
  if (!mesh) fail(fmt::format("the spec {} needs a mesh, and an empty one was given", to_string(spec)));
  std::vector<std::string> seen;
  for (const SpecEntry& e : spec.entries()) {
    if (e.unconstrained && !allow_unconstrained)
      fail(fmt::format("{} leaves a dimension unconstrained, which only a constraint can; use none there",
                       to_string(spec)));
    for (const std::string& axis : e.axes) {
      if (!mesh.axis_size(axis))
        fail(fmt::format("axis '{}' of {} is not in the mesh {}; its axes are {}, so {} would do", axis,
                         to_string(spec), to_string(mesh), axis_names_string(mesh),
                         mesh.axes().empty() ? "P()" : to_string(PartitionSpec({SpecEntry(mesh.axes()[0].name)}))));
      if (std::find(seen.begin(), seen.end(), axis) != seen.end())
        fail(
            fmt::format("axis '{}' is used twice in {} (mesh {}); an axis can split one dimension only, so {} would do",
                        axis, to_string(spec), to_string(mesh), to_string(without_repeats(spec))));
      seen.push_back(axis);
    }
  }
}

PartitionSpec legal_spec(const Mesh& mesh, const PartitionSpec& spec, const Shape& shape) {
  std::vector<SpecEntry> entries(shape.size(), SpecEntry(none));
  std::vector<std::string> homeless;
  auto fits = [&](std::size_t d, const std::string& axis) {
    return shape[d] % (parts_of(mesh, entries[d]) * mesh.axis_size(axis).value_or(1)) == 0;
  };
  for (std::size_t d = 0; d < spec.size(); ++d)
    for (const std::string& axis : spec[d].axes) {
      if (d < shape.size() && fits(d, axis))
        entries[d].axes.push_back(axis);
      else
        homeless.push_back(axis);
    }
  for (const std::string& axis : homeless)
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (entries[d].axes.empty() && shape[d] > 1 && fits(d, axis)) {
        entries[d].axes.push_back(axis);
        break;
      }
  return PartitionSpec(std::move(entries)).trimmed();
}

}  // namespace internal

void check_spec(const Mesh& mesh, const PartitionSpec& spec, const Shape& shape, std::string_view operation,
                std::string_view argument) {
  internal::check_axes(mesh, spec, operation, argument, true);
  auto fail = [&](const std::string& what) {
    throw_error(ErrorCode::sharding, std::string(operation), "{}{}; {} would do", subject(argument, &shape), what,
                to_string(internal::legal_spec(mesh, spec, shape)));
  };
  if (spec.size() > shape.size())
    fail(fmt::format("{} has {} entries, but the array has {} dimensions (mesh {})", to_string(spec), spec.size(),
                     shape.size(), to_string(mesh)));
  for (std::size_t d = 0; d < spec.size(); ++d) {
    std::int64_t parts = parts_of(mesh, spec[d]);
    if (shape[d] % parts == 0) continue;
    std::string axes;
    for (const std::string& axis : spec[d].axes)
      axes += fmt::format("{}'{}' ({})", axes.empty() ? "" : " x ", axis, *mesh.axis_size(axis));
    fail(fmt::format("{} splits dimension {} over axis {} of {}, but its size {} is not a multiple of {}",
                     to_string(spec), d, axes, to_string(mesh), shape[d], parts));
  }
}

}  // namespace lockstep
