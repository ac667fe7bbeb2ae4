#include "lockstep/pjrt/imports.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

namespace lockstep::pjrt {
namespace {

#if defined(__x86_64__)
constexpr bool is_import(std::uint64_t type) { return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT; }
#elif defined(__aarch64__)
constexpr bool is_import(std::uint64_t type) { return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT; }
#else
constexpr bool is_import(std::uint64_t) { return false; }
#endif

struct Library {
  std::uintptr_t base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  std::uintptr_t relro = 0, relro_end = 0;  // read-only once the loader is through
};

struct Search {
  std::uintptr_t address;
  Library found;
};

int visit(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  Library library;
  library.base = info->dlpi_addr;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    std::uintptr_t start = library.base + header.p_vaddr;
    if (header.p_type == PT_LOAD) inside |= search.address >= start && search.address < start + header.p_memsz;
    if (header.p_type == PT_DYNAMIC) library.dynamic = reinterpret_cast<const ElfW(Dyn)*>(start);
    if (header.p_type == PT_GNU_RELRO) library.relro = start, library.relro_end = start + header.p_memsz;
  }
  if (!inside) return 0;
  search.found = library;
  return 1;
}

bool write(const Library& library, std::uintptr_t slot, void* function) {
  auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  auto* start = reinterpret_cast<void*>(slot / page * page);
  if (::mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return false;
  std::atomic_ref(*reinterpret_cast<void**>(slot)).store(function, std::memory_order_release);
  // The loader protects whole pages only.
  if (slot >= library.relro && slot < library.relro_end / page * page) ::mprotect(start, page, PROT_READ);
  return true;
}

}  // namespace

bool redirect_import(const void* inside, const char* name, void* function) {
  Search search{reinterpret_cast<std::uintptr_t>(inside), {}};
  if (dl_iterate_phdr(visit, &search) == 0 || search.found.dynamic == nullptr) return false;
  const Library& library = search.found;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  struct Table {
    const ElfW(Rela) * begin;
    std::size_t bytes;
  } tables[2] = {};
  bool with_addends = true;
  for (const auto* entry = library.dynamic; entry->d_tag != DT_NULL; ++entry) {
    auto address = static_cast<std::uintptr_t>(entry->d_un.d_ptr);  // which the loader has made absolute
    switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols = reinterpret_cast<const ElfW(Sym)*>(address);
        break;
      case DT_STRTAB:
        names = reinterpret_cast<const char*>(address);
        break;
      case DT_JMPREL:
        tables[0].begin = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_PLTRELSZ:
        tables[0].bytes = entry->d_un.d_val;
        break;
      case DT_RELA:
        tables[1].begin = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_RELASZ:
        tables[1].bytes = entry->d_un.d_val;
        break;
      case DT_PLTREL:
        with_addends = entry->d_un.d_val == DT_RELA;
        break;
      default:
        break;
    }
  }
  // Elsewhere than with the GNU loader the addresses may be relative.
  if (symbols == nullptr || names == nullptr || !with_addends || reinterpret_cast<std::uintptr_t>(names) < library.base)
    return false;
  std::vector<std::uintptr_t> slots;
  for (const Table& table : tables)
    for (std::size_t i = 0; table.begin != nullptr && i < table.bytes / sizeof(ElfW(Rela)); ++i) {
      const auto& relocation = table.begin[i];
      if (is_import(ELF64_R_TYPE(relocation.r_info)) &&
          std::strcmp(names + symbols[ELF64_R_SYM(relocation.r_info)].st_name, name) == 0)
        slots.push_back(library.base + relocation.r_offset);
    }
  if (slots.empty()) return false;
  for (std::uintptr_t slot : slots)
    if (!write(library, slot, function)) return false;
  return true;
}

}  // namespace lockstep::pjrt
