#include "lockstep/distributed/identity.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "lockstep/distributed/build_id.h"

namespace lockstep::distributed {
namespace {

struct Search {
  std::uintptr_t inside;  // an address of the object that is looked for
  std::string id;
};

std::string build_id_of_notes(const char* note, std::size_t size) {
  auto aligned = [](std::size_t n) { return (n + 3) & ~std::size_t{3}; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, note, sizeof header);
    std::size_t total = sizeof header + aligned(header.n_namesz) + aligned(header.n_descsz);
    if (total > size) break;
    const char* name = note + sizeof header;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string text;
      for (std::size_t i = 0; i < header.n_descsz; ++i)
        text += fmt::format("{:02x}", static_cast<unsigned char>(name[aligned(4) + i]));
      return text;
    }
    note += total;
    size -= total;
  }
  return "";
}

int visit(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& p = info->dlpi_phdr[i];
    std::uintptr_t begin = info->dlpi_addr + p.p_vaddr;
    inside = inside || (p.p_type == PT_LOAD && search.inside >= begin && search.inside < begin + p.p_memsz);
  }
  if (!inside) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& p = info->dlpi_phdr[i];
    if (p.p_type == PT_NOTE && search.id.empty())
      search.id = build_id_of_notes(reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr), p.p_memsz);
  }
  return 1;
}

}  // namespace

std::string process_ranges(const std::vector<int>& processes) {
  std::string text;
  for (std::size_t i = 0; i < processes.size();) {
    std::size_t j = i;
    while (j + 1 < processes.size() && processes[j + 1] == processes[j] + 1) ++j;
    if (!text.empty()) text += ", ";
    text += std::to_string(processes[i]);
    if (j > i) text += (j == i + 1 ? ", " : "-") + std::to_string(processes[j]);
    i = j + 1;
  }
  return text.empty() ? "none" : text;
}

const char* version() { return LOCKSTEP_VERSION; }

std::string build_id_at(const void* address) {
  Search search{reinterpret_cast<std::uintptr_t>(address), ""};
  ::dl_iterate_phdr(visit, &search);
  return search.id;
}

const std::string& build_id() {
  static const auto* id = [] {
    std::string own = build_id_at(reinterpret_cast<const void*>(&build_id));
    return new std::string(own.empty() ? version() : fmt::format("{} {}", version(), own));
  }();
  return *id;
}

Identity local_identity() {
  Identity identity;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  identity.host = host;
  identity.pid = ::getpid();
  identity.build = build_id();
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  ::stat("/proc/self/ns/net", &network);
  identity.machine = fmt::format("{:016x}", std::hash<std::string>()(fmt::format("{}/{}", boot, network.st_ino)));
  return identity;
}

}  // namespace lockstep::distributed
