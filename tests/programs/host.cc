// A host for the kernels of this folder that needs no toolkit: the driver's interface by dlopen, in
// declarations of its own, and PTX from a file. `program_host NAME FILE.ptx` runs a kernel once and
// says whether the result is right.
//
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Device = uint64_t;
struct alignas(128) TensorMap {
  uint64_t words[16];
};

void* library = nullptr;
const char* failed = nullptr;

// Calls an entry by its name; keeps the first that failed.
template <typename... Args>
void Cu(const char* name, Args... args) {
  if (failed != nullptr) return;
  auto* entry = reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
  if (entry == nullptr || entry(args...) != 0) failed = name;
}

struct Buffer {
  Device at = 0;
  uint64_t bytes = 0;
  explicit Buffer(uint64_t n) : bytes(n) { Cu("cuMemAlloc_v2", &at, static_cast<size_t>(n)); }
  template <typename T>
  explicit Buffer(const std::vector<T>& host) : Buffer(host.size() * sizeof(T)) {
    Cu("cuMemcpyHtoD_v2", at, static_cast<const void*>(host.data()), static_cast<size_t>(bytes));
  }
  template <typename T>
  std::vector<T> Read() const {
    std::vector<T> host(bytes / sizeof(T));
    Cu("cuMemcpyDtoH_v2", static_cast<void*>(host.data()), at, static_cast<size_t>(bytes));
    return host;
  }
};

void* Kernel(const std::string& ptx, const char* name) {
  void *module = nullptr, *function = nullptr;
  Cu("cuModuleLoadData", &module, static_cast<const void*>(ptx.c_str()));
  Cu("cuModuleGetFunction", &function, module, name);
  return function;
}
template <typename... Args>
void Launch(void* function, unsigned x, unsigned y, unsigned threads, unsigned smem, bool together,
            Args... args) {
  void* pointers[] = {static_cast<void*>(&args)...};
  if (together)
    Cu("cuLaunchCooperativeKernel", function, x, y, 1u, threads, 1u, 1u, smem,
       static_cast<void*>(nullptr), static_cast<void**>(pointers));
  else
    Cu("cuLaunchKernel", function, x, y, 1u, threads, 1u, 1u, smem, static_cast<void*>(nullptr),
       static_cast<void**>(pointers), static_cast<void**>(nullptr));
}

bool VectorAdd(const std::string& ptx) {
  const int n = 1000;
  std::vector<float> in(n);
  for (int i = 0; i < n; ++i) in[i] = float(i % 17);
  const Buffer a(in), b(n * 4);
  Launch(Kernel(ptx, "smooth"), 4, 1, 256, 0, false, a.at, b.at, n);
  const auto out = b.Read<float>();
  for (int i = 0; i < n; ++i)
    if (out[i] != (i + 1 < n ? in[i] + in[i + 1] : in[i])) return false;
  return true;
}

bool Reduction(const std::string& ptx) {
  const int n = 5000;
  std::vector<float> in(n);
  float want = 0;
  for (int i = 0; i < n; ++i) want += in[i] = float(i % 7);
  const Buffer a(in), parts(std::vector<float>(4)), out(4);
  Launch(Kernel(ptx, "sum"), 4, 1, 128, 0, true, a.at, parts.at, out.at, n);
  return out.Read<float>()[0] == want;
}

uint16_t Bf16(float f) {  // of a small whole number
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return static_cast<uint16_t>(bits >> 16);
}

bool Gemm(const std::string& ptx) {
  const int m = 128, n = 128, k = 320;
  std::vector<uint16_t> a(m * k), b(n * k);
  for (int i = 0; i < m * k; ++i) a[i] = Bf16(float(i % 13 - 6));
  for (int i = 0; i < n * k; ++i) b[i] = Bf16(float(i % 11 - 5));
  const Buffer da(a), db(b), dc(m * n * 4);
  TensorMap ma, mb;
  for (const auto& [map, base, rows] : {std::tuple{&ma, da.at, m}, std::tuple{&mb, db.at, n}}) {
    const uint64_t dims[] = {uint64_t(k), uint64_t(rows)}, strides[] = {uint64_t(k) * 2};
    const uint32_t box[] = {64, 64}, steps[] = {1, 1};
    Cu("cuTensorMapEncodeTiled", static_cast<void*>(map), 9, 2u, reinterpret_cast<void*>(base),
       static_cast<const uint64_t*>(dims), static_cast<const uint64_t*>(strides),
       static_cast<const uint32_t*>(box), static_cast<const uint32_t*>(steps), 0, 3, 2, 0);
  }
  void* gemm = Kernel(ptx, "gemm");
  Launch(gemm, 2, 2, 256, 32768, false, ma, mb, dc.at, n, k);
  const auto c = dc.Read<float>();
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float want = 0;
      for (int x = 0; x < k; ++x) want += float((i * k + x) % 13 - 6) * float((j * k + x) % 11 - 5);
      if (c[i * n + j] != want) return false;
    }
  return true;
}

bool Persistent(const std::string& ptx) {
  const int tiles = 40, n = tiles * 768;
  std::vector<float> in(n);
  for (int i = 0; i < n; ++i) in[i] = float(i % 101);
  const Buffer a(in), b(n * 4);
  Launch(Kernel(ptx, "scale"), 6, 1, 128, 0, false, a.at, b.at, tiles, 2.5f);
  const auto out = b.Read<float>();
  for (int i = 0; i < n; ++i)
    if (out[i] != in[i] * 2.5f) return false;
  return true;
}

bool Graphs(const std::string& ptx) {
  const int n = 512;
  std::vector<int> in(n);
  for (int i = 0; i < n; ++i) in[i] = i * 3;
  const Buffer a(in), b(n * 4), c(n * 4);
  void *module = nullptr, *reverse = nullptr, *add = nullptr, *stream = nullptr, *graph = nullptr;
  void* exec = nullptr;
  Cu("cuModuleLoadData", &module, static_cast<const void*>(ptx.c_str()));
  Cu("cuModuleGetFunction", &reverse, module, "reverse");
  Cu("cuModuleGetFunction", &add, module, "add");
  Cu("cuStreamCreate", &stream, 1u);
  Cu("cuStreamBeginCapture_v2", stream, 0);
  Device pa = a.at, pb = b.at, pc = c.at;
  int what = 7;
  void* first[] = {&pa, &pb};
  void* second[] = {&pb, &pc, &what};
  Cu("cuLaunchKernel", reverse, 4u, 1u, 1u, 128u, 1u, 1u, 0u, stream, static_cast<void**>(first),
     static_cast<void**>(nullptr));
  Cu("cuLaunchKernel", add, 4u, 1u, 1u, 128u, 1u, 1u, 0u, stream, static_cast<void**>(second),
     static_cast<void**>(nullptr));
  Cu("cuStreamEndCapture", stream, &graph);
  Cu("cuGraphInstantiateWithFlags", &exec, graph, 0ull);
  for (int round = 0; round < 2; ++round) Cu("cuGraphLaunch", exec, stream);
  Cu("cuStreamSynchronize", stream);
  const auto out = c.Read<int>();
  for (int i = 0; i < n; ++i)
    if (out[i] != in[i / 128 * 128 + 127 - i % 128] + what) return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::printf("program_host NAME FILE.ptx\n"), 2;
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return std::printf("%s\n", dlerror()), 2;
  std::stringstream ptx;
  ptx << std::ifstream(argv[2]).rdbuf();
  void* context = nullptr;
  int device = 0;
  Cu("cuInit", 0u);
  Cu("cuDeviceGet", &device, 0);
  Cu("cuDevicePrimaryCtxRetain", &context, device);
  Cu("cuCtxSetCurrent", context);
  const std::map<std::string, bool (*)(const std::string&)> kPrograms = {{"vector_add", VectorAdd},
                                                                         {"reduction", Reduction},
                                                                         {"gemm", Gemm},
                                                                         {"persistent", Persistent},
                                                                         {"graphs", Graphs}};
  const auto program = kPrograms.find(argv[1]);
  if (program == kPrograms.end()) return std::printf("there is no %s\n", argv[1]), 2;
  const bool right = program->second(ptx.str());
  if (failed != nullptr) return std::printf("%s failed\n", failed), 1;
  std::printf("%s\n", right ? "right" : "wrong");
  return right ? 0 : 1;
}
