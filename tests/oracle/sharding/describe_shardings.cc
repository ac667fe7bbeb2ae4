// Describes shardings that come on stdin, one a line: "NAME=SIZE,... | ID,... | ENTRY ... | DIM ...", where an entry is
// axes joined by +, "." for none or "?" for unconstrained. Answers with lines, then an empty one: the sharding,
// Shardy's text, and for each partition its region and replica.
#include <iostream>
#include <sstream>

#include "lockstep/sharding/sharding.h"
#include "lockstep/support/error.h"

namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

lockstep::SpecEntry entry(const std::string& text) {
  if (text == ".") return lockstep::none;
  if (text == "?") return lockstep::unconstrained;
  return split(text, '+');
}

void describe(const std::string& line) {
  using namespace lockstep;
  auto fields = split(line, '|');
  std::vector<MeshAxis> axes;
  for (auto& word : split(split(fields[0], ' ')[0], ',')) {
    auto pair = split(word, '=');
    axes.emplace_back(pair[0], std::stoll(pair[1]));
  }
  std::vector<int> ids;
  for (auto& word : split(split(fields[1], ' ')[0], ',')) ids.push_back(std::stoi(word));
  std::vector<SpecEntry> entries;
  for (auto& word : split(fields[2], ' ')) entries.push_back(entry(word));
  Shape shape;
  for (auto& word : split(fields[3], ' ')) shape.push_back(std::stoll(word));

  Mesh mesh(axes, ids);
  PartitionSpec spec(entries);
  check_spec(mesh, spec, shape, "describe");
  std::cout << sdy_mesh(mesh) << '\n' << sdy_sharding(spec, shape.rank()) << '\n';
  const Sharding& s = named_sharding(mesh, spec);
  s.check(shape, "describe");
  std::cout << to_string(s) << '\n' << s.is_fully_replicated() << to_tuple_string(s.shard_shape(shape)) << '\n';
  for (std::int64_t p = 0; p < s.partitions(); ++p)
    std::cout << s.device_ids()[static_cast<std::size_t>(p)] << ' ' << to_string(s.region(p, shape)) << ' '
              << s.replica(p) << '\n';
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      describe(line);
    } catch (const lockstep::Error& e) {
      std::cout << "error " << to_string(e.code()) << '\n';
    }
    std::cout << std::endl;
  }
}
