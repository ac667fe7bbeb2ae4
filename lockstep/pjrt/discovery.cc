#include "lockstep/pjrt/discovery.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>

#include "lockstep/pjrt/plugin.h"
#include "lockstep/support/error.h"
#include "lockstep/support/library.h"

namespace lockstep::pjrt {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> out;
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(separator));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!word.empty()) out.emplace_back(word);
  }
  return out;
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

// What is in a directory, sorted; nothing if it cannot be read.
std::vector<fs::path> entries(const fs::path& directory) {
  std::vector<fs::path> out;
  std::error_code failed;
  for (fs::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed))
    out.push_back(at->path());
  std::sort(out.begin(), out.end());
  return out;
}

void add_named(std::vector<PluginPlace>& out) {
  constexpr const char* variable = "PJRT_NAMES_AND_LIBRARY_PATHS";
  for (const std::string& word : split(environment(variable), ',')) {
    std::size_t colon = word.find(':');
    PluginPlace place{trimmed(word.substr(0, colon)), {}, variable, {}};
    if (colon == word.npos || colon == 0 || colon + 1 == word.size())
      place.problem = fmt::format("'{}' is not of the form NAME:PATH", word);
    else
      place.path = trimmed(word.substr(colon + 1));
    out.push_back(std::move(place));
  }
  if (std::string path = environment("TPU_LIBRARY_PATH"); !path.empty())
    out.push_back({"tpu", path, "TPU_LIBRARY_PATH", {}});
}

// Directories in which Python finds packages.
std::vector<fs::path> package_directories() {
  std::vector<fs::path> out;
  for (const std::string& path : split(environment("PYTHONPATH"), ':')) out.emplace_back(path);
  std::vector<fs::path> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (std::string prefix = environment(name); !prefix.empty()) prefixes.emplace_back(prefix);
  if (std::string home = environment("HOME"); !home.empty()) prefixes.push_back(fs::path(home) / ".local");
  prefixes.emplace_back("/usr/local");
  for (const fs::path& prefix : prefixes)
    for (const fs::path& python : entries(prefix / "lib"))
      if (python.filename().string().starts_with("python3"))
        for (const char* packages : {"site-packages", "dist-packages"}) out.push_back(python / packages);
  out.emplace_back("/usr/lib/python3/dist-packages");
  return out;
}

// The plugin in a module's directory.
void add_module(const std::string& name, const fs::path& directory, const std::string& source, std::set<fs::path>& seen,
                std::vector<PluginPlace>& out) {
  std::error_code failed;
  fs::path known = fs::weakly_canonical(directory, failed);
  if (!seen.insert(known).second) return;
  PluginPlace place{platform_of_name(name), {}, source, {}};
  for (const fs::path& file : entries(directory))
    if (file.extension() == ".so" && exports_symbol(file.string(), "GetPjrtApi")) {
      place.path = file.string();
      break;
    }
  if (place.path.empty())
    place.problem = fmt::format("no library in {} exports GetPjrtApi; give its path in PJRT_NAMES_AND_LIBRARY_PATHS",
                                directory.string());
  out.push_back(std::move(place));
}

void add_packages(std::vector<PluginPlace>& out) {
  std::set<fs::path> seen;
  for (const fs::path& directory : package_directories()) {
    for (const fs::path& info : entries(directory)) {
      if (info.extension() != ".dist-info") continue;
      std::ifstream file(info / "entry_points.txt");
      bool inside = false;
      for (std::string line; std::getline(file, line);) {
        line = trimmed(line);
        if (line.starts_with("[")) inside = line == "[jax_plugins]";
        std::size_t equals = line.find('=');
        if (!inside || equals == line.npos) continue;
        std::string module = trimmed(line.substr(equals + 1));
        module = trimmed(module.substr(0, module.find_first_of(":[")));
        std::replace(module.begin(), module.end(), '.', '/');
        fs::path at = directory / module;
        std::error_code failed;
        if (!fs::is_directory(at, failed)) at = at.parent_path();  // a module that is a file
        std::string package = info.stem().string();
        add_module(trimmed(line.substr(0, equals)), at, "package " + package.substr(0, package.rfind('-')), seen, out);
      }
    }
    for (const fs::path& module : entries(directory / "jax_plugins")) {
      std::error_code failed;
      std::string name = module.filename().string();
      if (fs::is_directory(module, failed) && !name.starts_with("_"))
        add_module(name, module, "module jax_plugins." + name, seen, out);
    }
  }
}

void add_directory(const fs::path& directory, const std::string& source, std::vector<PluginPlace>& out) {
  for (const fs::path& file : entries(directory)) {
    std::string name = file.filename().string();
    if (file.extension() != ".so") continue;
    if (name.starts_with("pjrt_c_api_") || name.starts_with("pjrt-plugin-") || name.starts_with("libpjrt_"))
      out.push_back({platform_of_name(file.stem().string()), file.string(), source, {}});
  }
}

// Reads n bytes at an offset; false if they are not there.
bool read_at(std::ifstream& file, std::uint64_t offset, void* to, std::size_t n) {
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(static_cast<char*>(to), static_cast<std::streamsize>(n)));
}

}  // namespace

std::string platform_of_name(std::string name) {
  auto strip = [&](std::string_view what) {
    if (name.starts_with(what)) name.erase(0, what.size());
  };
  auto strip_end = [&](std::string_view what) {
    if (name.ends_with(what) && name.size() > what.size()) name.erase(name.size() - what.size());
  };
  strip_end(".so");
  for (const char* start : {"libpjrt_", "pjrt_c_api_", "pjrt-plugin-", "pjrt_plugin_", "xla_"}) strip(start);
  for (const char* end : {"_plugin", "-plugin", "_pjrt"}) strip_end(end);
  std::size_t digits = name.size();
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
  for (const char* numbered : {"cuda", "rocm"})
    if (name.compare(0, digits, numbered) == 0) name.erase(digits);
  return name;
}

bool exports_symbol(const std::string& path, const std::string& symbol) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header;
  if (!read_at(file, 0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr))
    return false;
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  if (!read_at(file, header.e_shoff, sections.data(), sections.size() * sizeof(Elf64_Shdr))) return false;
  std::error_code failed;
  std::uint64_t size = fs::file_size(path, failed);
  auto fits = [&](const Elf64_Shdr& s) { return s.sh_offset <= size && s.sh_size <= size - s.sh_offset; };
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_DYNSYM || table.sh_link >= sections.size() || !fits(table) ||
        !fits(sections[table.sh_link]))
      continue;
    std::string names(sections[table.sh_link].sh_size, '\0');
    std::vector<Elf64_Sym> symbols(table.sh_size / sizeof(Elf64_Sym));
    if (!read_at(file, sections[table.sh_link].sh_offset, names.data(), names.size()) ||
        !read_at(file, table.sh_offset, symbols.data(), symbols.size() * sizeof(Elf64_Sym)))
      continue;
    for (const Elf64_Sym& s : symbols)
      if (s.st_shndx != SHN_UNDEF && s.st_name < names.size() && symbol == names.c_str() + s.st_name) return true;
  }
  return false;
}

std::vector<PluginPlace> find_plugins() {
  std::vector<PluginPlace> out;
  add_named(out);
  add_packages(out);
  for (const std::string& directory : split(environment("LOCKSTEP_PLUGIN_PATH"), ':')) {
    std::error_code failed;
    if (fs::is_directory(directory, failed))
      add_directory(directory, "LOCKSTEP_PLUGIN_PATH", out);
    else
      out.push_back({"?", {}, "LOCKSTEP_PLUGIN_PATH", fmt::format("no such directory: {}", directory)});
  }
  if (std::string bundled = support::bundled_plugin_directory(); !bundled.empty()) {
    std::vector<PluginPlace> beside;
    add_directory(bundled, "with the library", beside);
    for (PluginPlace& place : beside)
      if (place.platform != "cpu") out.push_back(std::move(place));
  }
  PluginPlace cpu{
      "cpu", {}, environment("LOCKSTEP_CPU_PLUGIN").empty() ? "with the library" : "LOCKSTEP_CPU_PLUGIN", {}};
  try {
    cpu.path = find_cpu_plugin();
  } catch (const Error& error) {
    cpu.problem = error.message();
  }
  out.push_back(std::move(cpu));
  return out;
}

}  // namespace lockstep::pjrt
