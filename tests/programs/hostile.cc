// Programs that mean harm to whoever checks them: `hostile_host CASE` does one such thing through
// the driver's interface, or beside it, and says `held` if it was refused as it should be. What
// matters as much: that `tilec check` ends soon after, and well (hostile.sh).
//
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

void* library = nullptr;

template <typename... Args>
int Cu(const char* name, Args... args) {
  auto* entry = reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
  return entry == nullptr ? -1 : entry(args...);
}

constexpr char kHead[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
constexpr char kPoke[] =
    ".visible .entry k(.param .u64 p) {\n.reg .u64 %a;\nld.param.u64 %a, [p];\n"
    "st.u32 [%a], 7;\nret;\n}\n";
constexpr char kPeek[] =
    ".visible .entry k(.param .u64 p) {\n.reg .u64 %a;\n.reg .u32 %v;\nld.param.u64 %a, [p];\n"
    "ld.u32 %v, [%a];\nret;\n}\n";
constexpr char kNothing[] = ".visible .entry k(.param .u64 p) {\nret;\n}\n";
constexpr char kEndless[] = ".visible .entry k(.param .u64 p) {\nX: bra X;\n}\n";

int Load(const void* image, void** module) { return Cu("cuModuleLoadData", module, image); }

void* Kernel(const char* body) {
  const std::string text = std::string(kHead) + body;
  void *module = nullptr, *function = nullptr;
  if (Load(text.c_str(), &module) != 0) return nullptr;
  Cu("cuModuleGetFunction", &function, module, "k");
  return function;
}

int Launch(void* function, uint64_t argument) {
  void* arguments[] = {&argument};
  const int code =
      Cu("cuLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, static_cast<void*>(nullptr),
         static_cast<void**>(arguments), static_cast<void**>(nullptr));
  return code != 0 ? code : Cu("cuCtxSynchronize");
}

// Memory that ends with a page that is not there; what is asked for is its end.
char* AtTheEnd(size_t bytes) {
  const size_t page = 4096, all = (bytes + page - 1) / page * page;
  auto* at = static_cast<char*>(
      mmap(nullptr, all + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  munmap(at + all, page);
  return at + all - bytes;
}

// A container that claims `bytes` of entries.
void Header(char* at, uint64_t bytes) {
  const uint32_t magic = 0xBA55ED50;
  const uint16_t version = 1, header = 16;
  memcpy(at, &magic, 4);
  memcpy(at + 4, &version, 2);
  memcpy(at + 6, &header, 2);
  memcpy(at + 8, &bytes, 8);
}

bool FatbinPastItsEnd() {
  for (const uint64_t claims : {uint64_t{1}, uint64_t{1} << 20, uint64_t{4} << 30, ~uint64_t{0}}) {
    char* at = AtTheEnd(16);
    Header(at, claims);
    void* module = nullptr;
    if (Load(at, &module) == 0) return false;
  }
  // Too short for its own header, for a wrapper, for a magic word.
  for (const size_t bytes : {15u, 8u, 4u, 3u, 1u}) {
    char head[16];
    Header(head, 0);
    char* at = AtTheEnd(bytes);
    memcpy(at, head, bytes);
    void* module = nullptr;
    if (Load(at, &module) == 0) return false;
    const uint32_t wrapper = 0x466243b1;
    memcpy(at, &wrapper, bytes < 4 ? bytes : 4);
    if (Load(at, &module) == 0) return false;
  }
  return true;
}

bool TextWithoutEnd() {
  const std::string text = std::string(kHead) + kNothing;
  char* at = AtTheEnd(text.size());
  memcpy(at, text.data(), text.size());
  void* module = nullptr;
  if (Load(at, &module) == 0) return false;
  char* blanks = AtTheEnd(100);
  memset(blanks, ' ', 100);
  return Load(blanks, &module) != 0;
}

bool WildImages() {
  void* module = nullptr;
  for (const uint64_t at : {uint64_t{16}, uint64_t{1} << 46, ~uint64_t{0}, ~uint64_t{0} - 8})
    if (Load(reinterpret_cast<const void*>(at), &module) == 0) return false;
  // A wrapper around nothing.
  struct {
    uint32_t magic = 0x466243b1, version = 1;
    const void* data = reinterpret_cast<const void*>(24);
    void* more = nullptr;
  } wrapper;
  return Load(&wrapper, &module) != 0;
}

// Little that unpacks to zeros, again and again: an hour of work, were each of them done.
bool Bomb() {
  const uint64_t unpacked = 60 << 20;
  std::string block("\x1f\0\x01\0", 4);  // a zero, then a copy of the byte before
  uint64_t length = unpacked - 1 - 5 - 4 - 15;
  for (; length >= 255; length -= 255) block += '\xff';
  block += static_cast<char>(length);
  block += std::string("\x50", 1) + std::string(5, '\0');
  const auto packed = static_cast<uint32_t>(block.size());
  block.resize((block.size() + 7) / 8 * 8);
  std::string entry(64, '\0');
  const uint16_t kind = 1, version = 0x101;
  const uint32_t header = 64, arch = 80;
  const uint64_t bytes = block.size();
  memcpy(&entry[0], &kind, 2);
  memcpy(&entry[2], &version, 2);
  memcpy(&entry[4], &header, 4);
  memcpy(&entry[8], &bytes, 8);
  memcpy(&entry[16], &packed, 4);
  memcpy(&entry[28], &arch, 4);
  memcpy(&entry[56], &unpacked, 8);
  entry += block;
  std::string all(16, '\0');
  for (int k = 0; k < 300; ++k) all += entry;
  Header(all.data(), all.size() - 16);
  void *module = nullptr, *function = nullptr;
  const int loaded = Load(all.data(), &module);
  return loaded != 0 || Cu("cuModuleGetFunction", &function, module, "k") != 0;
}

bool ForgedHandles() {
  uint64_t mine[64] = {};
  for (uint64_t& word : mine) word = reinterpret_cast<uint64_t>(mine);
  void* out = nullptr;
  void* forged = mine;
  size_t bytes = 0;
  return Cu("cuModuleGetFunction", &out, forged, "k") != 0 && Launch(forged, 0) != 0 &&
         Cu("cuStreamSynchronize", forged) != 0 && Cu("cuEventRecord", forged, forged) != 0 &&
         Cu("cuGraphLaunch", forged, static_cast<void*>(nullptr)) != 0 &&
         Cu("cuGraphInstantiateWithFlags", &out, forged, 0ull) != 0 &&
         Cu("cuModuleGetGlobal_v2", &out, &bytes, forged, "k") != 0 &&
         Cu("cuModuleUnload", forged) != 0 && Cu("cuMemFree_v2", forged) != 0 &&
         Cu("cuGraphDestroy", forged) != 0 && Cu("cuStreamDestroy_v2", forged) != 0;
}

bool KernelWritesHost() {
  static uint32_t word = 5;
  void* kernel = Kernel(kPoke);
  return kernel != nullptr && Launch(kernel, reinterpret_cast<uint64_t>(&word)) != 0 && word == 5;
}
bool KernelReadsHost() {
  void* kernel = Kernel(kPeek);
  return kernel != nullptr && Launch(kernel, reinterpret_cast<uint64_t>(&KernelReadsHost)) != 0;
}
bool KernelNeverEnds() {
  void* kernel = Kernel(kEndless);
  return kernel != nullptr && Launch(kernel, 0) != 0;
}

bool MemoryWithoutEnd() {
  uint64_t at = 0;
  for (int k = 0; k < 1000; ++k)
    if (Cu("cuMemAlloc_v2", &at, size_t{1} << 28) != 0)
      return Cu("cuMemAlloc_v2", &at, ~size_t{0}) != 0 &&
             Cu("cuMemAlloc_v2", &at, size_t{1} << 60) != 0;
  return false;
}

bool CopiesPastTheEnd() {
  uint64_t at = 0;
  static char host[64];
  if (Cu("cuMemAlloc_v2", &at, size_t{64}) != 0) return false;
  return Cu("cuMemcpyHtoD_v2", at, static_cast<const void*>(host), ~size_t{0}) != 0 &&
         Cu("cuMemcpyHtoD_v2", at + 63, static_cast<const void*>(host), size_t{2}) != 0 &&
         Cu("cuMemcpyDtoH_v2", static_cast<void*>(host), at, size_t{65}) != 0 &&
         Cu("cuMemcpyDtoD_v2", at, at + (uint64_t{1} << 40), size_t{8}) != 0 &&
         Cu("cuMemsetD8_v2", at, static_cast<unsigned char>(1), size_t{1} << 50) != 0 &&
         Cu("cuMemsetD32_v2", at, 1u, (~size_t{0} >> 2) + 1 + 16) != 0;
}

// ---- beside the interface: the folder that reports come back in ----

std::string Folder() {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  const std::string all = path == nullptr ? "" : path;
  return all.substr(0, all.find(':'));
}
bool Run() {
  void* kernel = Kernel(kNothing);
  return kernel != nullptr && Launch(kernel, 0) == 0;
}
bool Write(const std::string& name, const std::string& text) {
  std::ofstream(Folder() + "/" + name) << text;
  return true;
}

bool ReportsThatBlock() {
  for (const char* kind : {"counts.1", "findings.1", "notes.1"})
    if (mkfifo((Folder() + "/" + kind).c_str(), 0600) != 0) return false;
  return Run();
}
bool ReportsWithoutEnd() {
  for (const char* kind : {"counts.2", "findings.2", "notes.2"})
    if (symlink("/dev/zero", (Folder() + "/" + kind).c_str()) != 0) return false;
  return Run();
}
bool ReportsThatAreHuge() {
  for (const char* kind : {"counts.3", "findings.3", "notes.3"}) {
    Write(kind, "[");
    if (truncate((Folder() + "/" + kind).c_str(), off_t{1} << 36) != 0) return false;
  }
  return Run();
}
bool ReportsThatAreDeep() {
  Write("findings.4", std::string(1 << 20, '['));
  std::string closed(1 << 18, '[');
  Write("findings.5", closed + std::string(closed.size(), ']'));
  return Run();
}
bool ReportsThatLie() {
  Write("counts.6", std::string(4096, '\xff'));
  Write("findings.6", "[{\"check\": \"M1\", \"count\": -1, \"accesses\": 7}]");
  Write("findings.7", "[{\"check\": \"" + std::string(1 << 20, 'M') + "\"}]");
  Write("findings.8", "[{\"check\": 1, \"accesses\": [[]], \"seed\": 1e400}, null]");
  return Run();
}
bool FolderGone() {
  const std::string folder = Folder();
  const bool ran = Run();
  for (const char* name : {"settings.json", "libcuda.so", "libcuda.so.1", "libcudart.so.13"})
    unlink((folder + "/" + name).c_str());
  return ran && rename(folder.c_str(), (folder + ".away").c_str()) == 0 &&
         symlink("/nowhere", folder.c_str()) == 0;
}
bool ChildrenIgnored() {
  std::signal(SIGCHLD, SIG_IGN);
  return Run();
}
// A process that stays behind, with all that was open.
bool LeftBehind() {
  const bool ran = Run();
  if (fork() == 0) {
    sleep(30);
    _exit(0);
  }
  return ran;
}

struct Case {
  const char* name;
  bool (*run)();
};
constexpr Case kCases[] = {{"fatbin_past_its_end", FatbinPastItsEnd},
                           {"text_without_end", TextWithoutEnd},
                           {"wild_images", WildImages},
                           {"bomb", Bomb},
                           {"forged_handles", ForgedHandles},
                           {"kernel_writes_host", KernelWritesHost},
                           {"kernel_reads_host", KernelReadsHost},
                           {"kernel_never_ends", KernelNeverEnds},
                           {"memory_without_end", MemoryWithoutEnd},
                           {"copies_past_the_end", CopiesPastTheEnd},
                           {"reports_that_block", ReportsThatBlock},
                           {"reports_without_end", ReportsWithoutEnd},
                           {"reports_that_are_huge", ReportsThatAreHuge},
                           {"reports_that_are_deep", ReportsThatAreDeep},
                           {"reports_that_lie", ReportsThatLie},
                           {"folder_gone", FolderGone},
                           {"children_ignored", ChildrenIgnored},
                           {"left_behind", LeftBehind}};

}  // namespace

int main(int argc, char** argv) {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  void* context = nullptr;
  if (library == nullptr || Cu("cuInit", 0u) != 0 || Cu("cuCtxCreate_v2", &context, 0u, 0) != 0)
    return printf("no driver\n"), 2;
  for (const Case& c : kCases)
    if (argc == 2 && argv[1] == std::string(c.name)) {
      const bool held = c.run();
      printf("%s\n", held ? "held" : "NOT HELD");
      return held ? 0 : 1;
    }
  for (const Case& c : kCases) printf("%s\n", c.name);
  return 2;
}
