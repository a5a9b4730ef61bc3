// SPDX-License-Identifier: Apache-2.0
#include "shim/interpose.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "support/file.h"

namespace tilec::shim {
namespace {

// An entry becomes a jump of five bytes (some are not much longer) to a trampoline near by, which
// jumps anywhere: jmp *0(%rip), then the address.
constexpr size_t kNearJump = 5, kTrampoline = 16, kTrampolines = 1024;

struct Main {
  uint64_t bias = 0;
  bool found = false;
};

int First(dl_phdr_info* info, size_t, void* out) {
  auto* main = static_cast<Main*>(out);
  main->bias = info->dlpi_addr;
  main->found = true;
  return 1;  // the program comes first
}

template <typename T>
bool At(const std::string& file, uint64_t offset, T* out) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return false;
  memcpy(out, file.data() + offset, sizeof(T));
  return true;
}

// Pages for trampolines within reach of a near jump from `around`; null: none are free.
uint8_t* NearPages(uint64_t around) {
  constexpr uint64_t kStep = 1 << 20, kReach = 1 << 30;
  const size_t bytes = kTrampoline * kTrampolines;
  for (uint64_t d = kStep; d < kReach; d += kStep)
    for (const uint64_t hint : {around - d, around + d}) {
      if (hint > around && d > around) continue;  // below zero
      void* at = mmap(reinterpret_cast<void*>(hint / kStep * kStep), bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (at == MAP_FAILED) continue;
      if (reinterpret_cast<uint64_t>(at) == hint / kStep * kStep) return static_cast<uint8_t*>(at);
      munmap(at, bytes);  // of a kernel that takes the hint for one
    }
  return nullptr;
}

class Patches {
 public:
  ~Patches() {
    if (pages_ != nullptr) mprotect(pages_, kTrampoline * kTrampolines, PROT_READ | PROT_EXEC);
  }
  bool Redirect(uint64_t address, void* target) {
    if (pages_ == nullptr) pages_ = NearPages(address);
    if (pages_ == nullptr || used_ == kTrampolines) return false;
    uint8_t* trampoline = pages_ + kTrampoline * used_;
    constexpr uint8_t kJump[] = {0xff, 0x25, 0, 0, 0, 0};
    memcpy(trampoline, kJump, sizeof kJump);
    memcpy(trampoline + sizeof kJump, &target, sizeof target);
    const int64_t distance = static_cast<int64_t>(reinterpret_cast<uint64_t>(trampoline)) -
                             static_cast<int64_t>(address + kNearJump);
    if (distance != static_cast<int32_t>(distance)) return false;
    ++used_;
    uint8_t code[kNearJump] = {0xe9};
    const auto near = static_cast<int32_t>(distance);
    memcpy(code + 1, &near, sizeof near);
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t begin = address / page * page;
    const uint64_t bytes = (address + kNearJump + page - 1) / page * page - begin;
    void* pages = reinterpret_cast<void*>(begin);
    if (mprotect(pages, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return false;
    memcpy(reinterpret_cast<void*>(address), code, kNearJump);
    return mprotect(pages, bytes, PROT_READ | PROT_EXEC) == 0;
  }

 private:
  uint8_t* pages_ = nullptr;
  size_t used_ = 0;
};

}  // namespace

Interposed ReplaceStaticRuntime() {
  Interposed out;
#if !defined(__x86_64__)
  return out;
#else
  std::string file, why;
  if (!ReadFile("/proc/self/exe", &file, &why)) return out;
  Elf64_Ehdr header;
  if (!At(file, 0, &header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr))
    return out;
  Main main;
  dl_iterate_phdr(First, &main);
  if (!main.found) return out;
  Patches patches;
  std::set<uint64_t> done;
  for (unsigned s = 0; s < header.e_shnum; ++s) {
    Elf64_Shdr symbols, strings;
    if (!At(file, header.e_shoff + s * sizeof(Elf64_Shdr), &symbols)) return out;
    if (symbols.sh_type != SHT_SYMTAB || symbols.sh_entsize != sizeof(Elf64_Sym)) continue;
    if (symbols.sh_link >= header.e_shnum ||
        !At(file, header.e_shoff + symbols.sh_link * sizeof(Elf64_Shdr), &strings))
      return out;
    for (uint64_t k = 0; k < symbols.sh_size / sizeof(Elf64_Sym); ++k) {
      Elf64_Sym symbol;
      if (!At(file, symbols.sh_offset + k * sizeof(Elf64_Sym), &symbol)) return out;
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
          symbol.st_size < kNearJump || symbol.st_name >= strings.sh_size)
        continue;
      const uint64_t at = strings.sh_offset + symbol.st_name;
      if (at >= file.size()) continue;
      const char* name = file.data() + at;
      const size_t bytes = strnlen(name, file.size() - at);
      if (bytes < 6 || bytes > 100 ||
          (memcmp(name, "cuda", 4) != 0 && memcmp(name, "__cuda", 6) != 0))
        continue;
      void* target = RuntimeEntry(std::string(name, bytes).c_str());
      if (target == nullptr || !done.insert(symbol.st_value).second) continue;
      if (!patches.Redirect(main.bias + symbol.st_value, target)) {
        out.wrong = "the pages of the program's runtime library cannot be written";
        return out;
      }
      ++out.entries;
    }
  }
  return out;
#endif
}

namespace {

// Runs when the library is loaded, which `tilec check` has the loader do first.
__attribute__((constructor)) void AtStart() {
  const Interposed done = ReplaceStaticRuntime();
  if (!done.wrong.empty()) fprintf(stderr, "tilec check: %s\n", done.wrong.c_str());
}

}  // namespace
}  // namespace tilec::shim
