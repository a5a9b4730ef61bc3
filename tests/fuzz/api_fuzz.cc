// The C interface as a careless host calls it: calls in any order, null pointers, extents of 0, -1
// and 2^63 - 1, addresses that are nobody's, misaligned or freed, names and options that there are
// not, bundles that are cut short. Whatever is called gives success or a message; nothing else
// happens. What no library can answer is not tried: handles that were freed or are of another kind,
// and host memory smaller than the call says (tilec_c.h says so).
//
// Built twice: with the runtime alone, and with the compiler (TILEC_FUZZ_COMPILER).
//
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <random>

#include "include/tilec/tilec_c.h"
#include "runtime/bundle.h"
#include "tests/fuzz/run_all.h"

namespace tilec {
namespace {

constexpr int kCallsPerSession = 200;
constexpr const char* kPtx = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry scaled(.param .u64 px, .param .u64 py, .param .s64 n, .param .f32 a)
{
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<8>;
  .reg .f32 %f<4>;
  ld.param.u64 %rd1, [px];
  ld.param.u64 %rd2, [py];
  ld.param.s64 %rd3, [n];
  ld.param.f32 %f1, [a];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd4, %r1, 64;
  cvt.u64.u32 %rd5, %r2;
  add.s64 %rd4, %rd4, %rd5;
  setp.ge.s64 %p1, %rd4, %rd3;
  @%p1 bra DONE;
  shl.b64 %rd4, %rd4, 2;
  add.s64 %rd6, %rd1, %rd4;
  add.s64 %rd7, %rd2, %rd4;
  ld.global.f32 %f2, [%rd6];
  mul.f32 %f3, %f2, %f1;
  st.global.f32 [%rd7], %f3;
DONE:
  ret;
}
)";
constexpr const char* kSource = R"(kernel scaled(X: f32[N], Y: out f32[N], a: f32, count: i32 = 3) {
  parallel n in tiles(N, 64) { Y[n] = a * X[n] }
})";

backend::KernelImage Image(int align, const std::string& name) {
  backend::KernelImage k;
  k.name = name;
  k.entry = "scaled";
  k.target = "sm_90a";
  k.ptx = kPtx;
  const Expr n = Expr::Name("N");
  k.tensors = {{"X", "f32", backend::Direction::kIn, {n}, false},
               {"Y", "f32", backend::Direction::kOut, {n}, false}};
  k.scalars = {{"a", "f32"}, {"count", "i32"}};
  using Kind = backend::EntryParam::Kind;
  k.params = {{Kind::kTensorPointer, "X", -1, {}, ""},
              {Kind::kTensorPointer, "Y", -1, {}, ""},
              {Kind::kInt, "", -1, n, ""},
              {Kind::kScalar, "a", -1, {}, "f32"}};
  k.alignment = {{"X", align}};
  k.grid[0] = Expr::Make(Expr::Op::kCeilDiv, n, Expr::Const(64));
  k.block = 64;
  return k;
}

class Session {
 public:
  explicit Session(uint64_t seed) : rng_(seed), host_(1 << 16) {
    runtime::Bundle b = {"fuzz",
                         {{Image(16, "scaled"), "", {{{"N", 64}}}},
                          {Image(4, "scaled"), "", {}},
                          {Image(4, "other"), "", {}}}};
    bundle_bytes_ = runtime::WriteBundle(b);
    // A host that starts well: something of everything, so that what follows meets it.
    NewDevice("emulator");
    for (int i = 0; i < 3; ++i) {
      uint64_t address = 0;
      if (Good(tilec_device_alloc(devices_[0], 4096, &address))) allocated_.push_back(address);
    }
    tilec_bundle* bundle = nullptr;
    tilec_status* s =
        tilec_bundle_open_bytes(bundle_bytes_.data(), bundle_bytes_.size(), "fuzz", &bundle);
    Made(s, bundle, &bundles_);
    for (int i = 0; i < 4; ++i) GoodArgs();
    for (int i = 0; i < 4; ++i) Bundles(4);
  }
  ~Session() {
    FreeAll(bounds_, tilec_bound_free);
    FreeAll(graphs_, tilec_graph_free);
    FreeAll(bundles_, tilec_bundle_free);
    FreeAll(args_, tilec_args_free);
    FreeAll(devices_, tilec_device_free);
#ifdef TILEC_FUZZ_COMPILER
    FreeAll(kernels_, tilec_kernel_free);
    FreeAll(compilers_, tilec_compiler_free);
#endif
  }

  // False: something other than success or a message.
  bool Run(uint64_t* refused, uint64_t* ran) {
    for (int i = 0; i < kCallsPerSession && ok_; ++i) OneCall();
    *refused += refused_;
    *ran += ran_;
    return ok_;
  }

 private:
  // ---- What is given ----

  uint64_t Below(uint64_t n) { return rng_() % n; }
  bool Often() { return Below(8) != 0; }
  template <typename T>
  T One(const std::vector<T>& of) {
    return of[Below(of.size())];
  }
  // Mostly a handle that there is; at times NULL.
  template <typename T>
  T* Some(const std::vector<T*>& of) {
    return of.empty() || Below(32) == 0 ? nullptr : One(of);
  }
  int64_t Integer() {
    const int64_t most = std::numeric_limits<int64_t>::max();
    return One<int64_t>({0, 1, -1, 2, 3, 16, 63, 64, 65, 100, 256, 1000, int64_t{1} << 31,
                         (int64_t{1} << 31) - 1, int64_t{1} << 32, int64_t{1} << 40, most,
                         -most - 1, static_cast<int64_t>(rng_())});
  }
  uint64_t Address() {
    if (allocated_.empty() || Below(16) == 0)
      return One<uint64_t>({0, 1, 16, 0x1000, ~uint64_t{0}, ~uint64_t{15}, rng_()});
    return One(allocated_) + (Often() ? 0 : One<uint64_t>({1, 2, 4, 8, 16, 255, 4095, 4096}));
  }
  uint64_t Bytes() {
    return One<uint64_t>(
        {0, 1, 4, 255, 256, 4096, 4097, uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 63});
  }
  double Real() {
    return One<double>({0.0, -0.0, 0.5, 3.0, 1e300, -1e-320, std::nan(""),
                        std::numeric_limits<double>::infinity(), 9.3e18, 2147483648.0});
  }
  const char* Word() {
    if (Below(32) == 0) return nullptr;
    text_ = One<std::string>({"X",
                              "Y",
                              "a",
                              "count",
                              "N",
                              "scaled",
                              "other",
                              "",
                              "x",
                              "X ",
                              std::string(3000, 'n'),
                              "\xff\xfe",
                              "emulator",
                              "cuda",
                              "cuda:1",
                              "cuda:-1",
                              "cuda:99999999999999999999",
                              "auto",
                              "cud",
                              "../..",
                              "/nowhere/at/all",
                              "%s%n",
                              "R514",
                              "target",
                              "tune",
                              "h200",
                              "sm_9"});
    return text_.c_str();
  }

  // ---- What came of it ----

  void Wrong(const std::string& what) {
    std::printf("%s\n", what.c_str());
    ok_ = false;
  }
  // Frees it. True: success.
  bool Good(tilec_status* s) {
    if (!s) return true;
    ++refused_;
    const size_t n = tilec_status_count(s);
    if (n == 0 || !*tilec_status_text(s)) Wrong("a failure without a problem");
    for (size_t i = 0; i < n; ++i)
      if (!*tilec_status_code(s, i) || !*tilec_status_message(s, i) || !*tilec_status_problem(s, i))
        Wrong("a problem without code or text");
    if (*tilec_status_code(s, n) || *tilec_status_file(s, n + 7) ||
        tilec_status_line(s, ~size_t{0}))
      Wrong("a problem that there is not");
    tilec_status_free(s);
    return false;
  }
  void Ran(tilec_status* s) { ran_ += Good(s); }
  template <typename T>
  void Made(tilec_status* s, T* made, std::vector<T*>* into) {
    if (Good(s) != (made != nullptr)) Wrong("success and a handle do not agree");
    if (made) into->push_back(made);
    if (into->size() > 12) into->front() = into->back(), into->pop_back();
  }
  template <typename T>
  void FreeAll(std::vector<T*>& of, void (*free)(T*)) {
    for (T* one : of) free(one);
    of.clear();
  }
  template <typename T>
  void FreeOne(std::vector<T*>& of, void (*free)(T*)) {
    if (of.size() < 2 || Below(4) != 0) return free(nullptr);
    const size_t i = Below(of.size());
    free(of[i]);
    of.erase(of.begin() + static_cast<ptrdiff_t>(i));
  }

  // ---- Calls ----

  void NewDevice(const char* name) {
    tilec_device* d = nullptr;
    tilec_status* s = tilec_device_open(name, &d);
    Made(s, d, &devices_);
  }
  void Tensor() {
    const int32_t rank = One<int32_t>({1, 1, 1, 1, 0, 2, 4, -1, 65, 2147483647, -2147483647 - 1});
    const std::vector<int64_t> dims = {Often() ? One<int64_t>({0, 1, 64, 100, 1000}) : Integer(),
                                       Integer(), Integer(), Integer()};
    const std::vector<int64_t> strides = {Integer(), Integer(), Integer(), Integer()};
    const int dtype = Often() ? TILEC_F32 : static_cast<int>(One<int64_t>({0, 5, 15, 16, 99, -1}));
    tilec_args_tensor(Some(args_), Often() ? One<const char*>({"X", "Y"}) : Word(),
                      static_cast<tilec_dtype>(dtype), Address(), rank,
                      Below(32) ? dims.data() : nullptr, Below(6) ? nullptr : strides.data());
  }
  // Arguments that may be launched.
  void GoodArgs() {
    tilec_args* a = tilec_args_create();
    const int64_t n = One<int64_t>({1, 64, 100, 256});
    for (const char* name : {"X", "Y"})
      tilec_args_tensor(a, name, TILEC_F32, Address(), 1, &n, nullptr);
    tilec_args_float(a, "a", 2);
    tilec_args_int(a, "count", Often() ? 3 : Integer());
    args_.push_back(a);
    if (args_.size() > 12) tilec_args_free(args_.front()), args_.erase(args_.begin());
  }
  std::vector<uint64_t> Addresses() {
    std::vector<uint64_t> out(Often() ? 2 : Below(4));
    for (uint64_t& a : out) a = Address();
    return out;
  }
  const char* Kernel() { return Often() ? One<const char*>({"scaled", "other"}) : Word(); }
  int32_t Stream() { return Often() ? 0 : static_cast<int32_t>(Integer()); }

  void Devices(uint64_t which) {
    tilec_device* d = Some(devices_);
    uint64_t address = 0;
    int32_t stream = 0;
    switch (which) {
      case 0: return Often() ? (void)tilec_version() : NewDevice(Often() ? "emulator" : Word());
      case 1:
        if (Good(tilec_device_alloc(d, Bytes(), Below(32) ? &address : nullptr)) && address)
          allocated_.push_back(address);
        return;
      case 2:
        if (!allocated_.empty() && Below(4) == 0) tilec_device_release(d, One(allocated_));
        return tilec_device_release(d, Below(2) ? 0 : rng_());
      case 3: return (void)Good(tilec_device_copy_in(d, Address(), Data(), Bytes()));
      case 4: return (void)Good(tilec_device_copy_out(d, Data(), Address(), Bytes()));
      case 5: return (void)Good(tilec_device_fill(d, Address(), 7, Bytes()));
      case 6: return (void)Good(tilec_device_new_stream(d, Below(32) ? &stream : nullptr));
      case 7: return (void)Good(tilec_device_adopt_stream(d, &stream, &stream));
      case 8: return (void)Good(tilec_device_synchronize(d, Stream()));
      default:
        for (const char* text : {tilec_device_kind(d), tilec_device_target(d),
                                 tilec_device_description(d), tilec_version()})
          if (!text) Wrong("NULL where a text is promised");
    }
  }
  void* Data() { return Below(32) ? host_.data() : nullptr; }

  void Arguments(uint64_t which) {
    switch (which) {
      case 0: return GoodArgs();
      case 1: return Tensor();
      case 2: return tilec_args_int(Some(args_), Word(), Integer());
      case 3: return tilec_args_float(Some(args_), Word(), Real());
      case 4: return tilec_args_bool(Some(args_), Word(), static_cast<int>(Integer()));
      default: return FreeOne(args_, tilec_args_free);
    }
  }

  void Bundles(uint64_t which) {
    tilec_bundle* b = Some(bundles_);
    switch (which) {
      case 0: {
        tilec_bundle* made = nullptr;
        std::string bytes = bundle_bytes_;
        if (!Often()) bytes.resize(Below(bytes.size()));
        if (!Often()) bytes[Below(bytes.size() + 1) % std::max<size_t>(1, bytes.size())] ^= 1;
        const void* at = Below(32) == 0 ? nullptr : bytes.data();
        tilec_status* s = nullptr;
        if (Below(4) != 0) {
          s = tilec_bundle_open_bytes(at, bytes.size(), Word(), &made);
        } else {  // not copied: they stay for the session
          kept_.push_back(bytes);
          at = at ? kept_.back().data() : at;
          s = tilec_bundle_open_static(at, bytes.size(), Word(), &made);
        }
        return Made(s, made, &bundles_);
      }
      case 1: {
        tilec_bundle* made = nullptr;
        tilec_status* s = tilec_bundle_open(Word(), &made);
        return Made(s, made, &bundles_);
      }
      case 2: return (void)Good(tilec_bundle_prepare(b, Kernel(), Some(devices_), Some(args_)));
      case 3: return Ran(tilec_bundle_launch(b, Kernel(), Some(devices_), Some(args_), Stream()));
      case 4: {
        tilec_bound* bound = nullptr;
        tilec_status* s = tilec_bundle_bind(b, Kernel(), Some(devices_), Some(args_), &bound);
        return Made(s, bound, &bounds_);
      }
      case 5:
        if (!tilec_bundle_kernel(b, Below(4)) || tilec_bundle_count(b) > 2) Wrong("kernels");
        if (const char* k = Kernel();
            tilec_bundle_parameter(b, k, tilec_bundle_parameter_count(b, k)))
          Wrong("parameters of a bundle");
        return;
      case 6: return (void)Good(tilec_bundle_verify(b));
      default: return FreeOne(bundles_, tilec_bundle_free);
    }
  }

  void Launches(uint64_t which) {
    tilec_bound* bound = Some(bounds_);
    tilec_graph* g = Some(graphs_);
    const std::vector<uint64_t> to = Addresses();
    switch (which) {
      case 0: return Ran(tilec_bound_launch(bound, Stream()));
      case 1:
        return Ran(
            tilec_bound_launch_at(bound, Below(32) ? to.data() : nullptr, to.size(), Stream()));
      case 2: {
        tilec_graph* made = nullptr;
        tilec_status* s = tilec_graph_create(Some(devices_), &made);
        return Made(s, made, &graphs_);
      }
      case 3: return (void)Good(tilec_graph_add(g, bound, nullptr));
      case 4:
        return (void)Good(tilec_graph_move(g, Often() ? Below(3) : rng_(), to.data(), to.size()));
      case 5: return (void)Good(tilec_graph_launch(g, Stream()));
      case 6:
        if (!tilec_bound_tensor(bound, Below(4)) || tilec_bound_count(bound) > 2) Wrong("tensors");
        return;
      case 7: return FreeOne(graphs_, tilec_graph_free);
      case 8: return FreeOne(devices_, tilec_device_free);
      default: return FreeOne(bounds_, tilec_bound_free);
    }
  }

#ifdef TILEC_FUZZ_COMPILER
  void NewCompiler() {
    std::vector<const char*> names = {"cache", "schedule", "tune"};
    std::vector<const char*> values = {"off", "sequential", "default"};
    if (!Often()) names[Below(3)] = Word();
    if (!Often()) values[Below(3)] = One<const char*>({"", "on", "none", "-1", nullptr, "h200"});
    tilec_compiler* c = nullptr;
    tilec_status* s = tilec_compiler_create(names.data(), values.data(), names.size(), &c);
    Made(s, c, &compilers_);
  }
  void Compiling(uint64_t which) {
    tilec_kernel* k = Some(kernels_);
    switch (which) {
      case 0: return NewCompiler();
      case 1: {
        tilec_kernel* made = nullptr;
        std::string text = kSource;
        if (Below(4) == 0) text.resize(Below(text.size()));
        if (Below(4) == 0 && !text.empty()) text[Below(text.size())] = static_cast<char>(rng_());
        tilec_status* s = tilec_compile_text(Some(compilers_), text.c_str(), Word(),
                                             Often() ? nullptr : Word(), &made);
        return Made(s, made, &kernels_);
      }
      case 2: return (void)Good(tilec_launch(k, Some(devices_), Some(args_), Stream()));
      case 3: return (void)Good(tilec_prepare(k, Some(devices_), Some(args_)));
      case 4: {
        double ms = -1;
        return (void)Good(tilec_launch_timed(k, Some(devices_), Some(args_), Stream(), &ms));
      }
      case 5: {
        char* text = nullptr;
        const char* what = One<const char*>({"tile-ir", "plan", "ptx", "json", "", "asm"});
        if (Good(tilec_emit(k, Below(4) ? Word() : what, Some(args_), &text)))
          tilec_text_free(text);
        return;
      }
      case 6: {
        tilec_bound* bound = nullptr;
        tilec_status* s = tilec_kernel_bind(k, Some(devices_), Some(args_), &bound);
        return Made(s, bound, &bounds_);
      }
      case 7:
        if (!tilec_kernel_name(k) || !tilec_kernel_warnings(k)) Wrong("texts");
        if (tilec_kernel_parameter(k, tilec_kernel_parameter_count(k))) Wrong("parameters");
        return;
      case 8: return FreeOne(compilers_, tilec_compiler_free);
      default: return FreeOne(kernels_, tilec_kernel_free);
    }
  }
  std::vector<tilec_compiler*> compilers_;
  std::vector<tilec_kernel*> kernels_;
  static constexpr uint64_t kFamilies = 5;
#else
  void Compiling(uint64_t) {}
  static constexpr uint64_t kFamilies = 4;
#endif

  void OneCall() {
    const uint64_t family = Below(kFamilies), which = Below(10);
    fuzz::Last().text += std::to_string(family) + "." + std::to_string(which) + " ";
    switch (family) {
      case 0: return Devices(which);
      case 1: return Arguments(which);
      case 2: return Bundles(which);
      case 3: return Launches(which);
      default: return Compiling(which);
    }
  }

  std::mt19937_64 rng_;
  std::vector<char> host_;  // larger than any allocation, so that no copy leaves it
  std::string bundle_bytes_, text_;
  std::deque<std::string> kept_;     // outlives the bundles, which are freed by then
  std::vector<uint64_t> allocated_;  // some are freed meanwhile
  std::vector<tilec_device*> devices_;
  std::vector<tilec_args*> args_;
  std::vector<tilec_bundle*> bundles_;
  std::vector<tilec_bound*> bounds_;
  std::vector<tilec_graph*> graphs_;
  bool ok_ = true;
  uint64_t refused_ = 0, ran_ = 0;
};

}  // namespace
}  // namespace tilec

int main(int argc, char** argv) {
  using namespace tilec;
  CLI::App app("calls of the C interface that no host should make");
  fuzz::Inputs inputs(app, "--calls");
  CLI11_PARSE(app, argc, argv);
  uint64_t calls = 0, refused = 0, ran = 0;
  const auto one = [&](uint64_t seed) { return Session(seed).Run(&refused, &ran); };
  if (!fuzz::RunAll(inputs, kCallsPerSession, &calls, one)) return 1;
  std::printf("seed %llu: %llu calls, %llu refused with a message, %llu launches ran, %.0f s\n",
              static_cast<unsigned long long>(inputs.seed), static_cast<unsigned long long>(calls),
              static_cast<unsigned long long>(refused), static_cast<unsigned long long>(ran),
              inputs.Seconds());
  // A fuzzer of which nothing runs tests the first check of each call only.
  return inputs.only > 0 || ran * 200 > calls ? 0 : 1;
}
