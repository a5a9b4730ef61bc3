// tilec for host programs: compile tile kernels, load them on a GPU or on the emulator, launch
// them.
//
//   auto compiler = tilec::Compiler::Create();
//   auto kernel = compiler->Compile("gemm.tile");
//   auto device = tilec::Device::Open("auto");
//   tilec::Status done = kernel->Launch(*device, tilec::Args()
//       .Set("A", tilec::Tensor{tilec::DType::kBF16, a, {m, k}})
//       .Set("B", tilec::Tensor{tilec::DType::kBF16, b, {n, k}})
//       .Set("C", tilec::Tensor{tilec::DType::kBF16, c, {m, n}}));
//   if (!done.ok()) std::fputs(done.text().c_str(), stderr);
//
// What holds for everything here:
//   - Errors are values. Nothing throws, nothing exits, nothing prints; no global state.
//   - Compiler, Kernel and Device are cheap handles on shared state: copy them freely. All of them
//     may be used from several threads at once. Args and results belong to one thread.
//   - A kernel is compiled for its compile-time values and for what is known of the tensors
//     (alignment, contiguity) at its first launch with such arguments, then kept in memory and in a
//     cache on disk.
//   - On a GPU the primary context of the device is used, and the calling thread's current context
//     is left as it was. Launches are asynchronous in their stream.
//
// The same in C: tilec/tilec_c.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if __cplusplus < 202002L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 202002L)
#error "tilec/tilec.h needs C++20: compile with -std=c++20, or use tilec/tilec_c.h, which is C"
#endif

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tilec {

// ---- Errors ------------------------------------------------------------------------------------

// One diagnostic of the compiler or the runtime.
struct Problem {
  enum class Kind { kError, kWarning, kNote };
  Kind kind = Kind::kError;
  std::string code;     // "R514"; `tilec help R514` explains it
  std::string message;  // one line
  std::string file;     // "" if it has no place in a file
  int line = 0;         // 1-based
  int column = 0;
  std::string text;  // everything: message, source line with caret, notes, help
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(bool ok, std::vector<Problem> problems) : ok_(ok), problems_(std::move(problems)) {}
  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  // Errors if it failed; a success may carry warnings.
  const std::vector<Problem>& problems() const { return problems_; }
  std::string text() const {
    std::string all;
    for (const Problem& p : problems_) all += p.text;
    return all;
  }

 private:
  bool ok_ = true;
  std::vector<Problem> problems_;
};

// A value, or the Status that says why there is none. Dereference only if ok().
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Expected(T value, Status status) : value_(std::move(value)), status_(std::move(status)) {}
  Expected(Status failure) : status_(std::move(failure)) {}  // NOLINT: implicit by design
  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Status& status() const { return status_; }

 private:
  std::optional<T> value_;
  Status status_;
};

// ---- Arguments ---------------------------------------------------------------------------------

// The numbers are those of tilec_dtype in tilec_c.h.
enum class DType : uint8_t {
  kBool,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kTF32,
  kF32,
  kF64,
  kE4M3,
  kE5M2,
  kE2M1X2,  // two e2m1 in a byte
  kUE8M0,
  kUE4M3,
};
const char* Name(DType dtype);  // as in a kernel's signature: "bf16"
int Bytes(DType dtype);

// A tensor in a device's memory. Strides count elements; none given: dense, row-major.
struct Tensor {
  DType dtype = DType::kF32;
  uint64_t data = 0;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  bool operator==(const Tensor&) const = default;
};

using Value = std::variant<bool, int64_t, double>;

// Arguments of a launch by name: tensors, runtime scalars, constants, tunes. Dims follow from the
// tensors; giving one checks it.
class Args {
 public:
  Args& Set(std::string name, Tensor tensor) {
    tensors_[std::move(name)] = std::move(tensor);
    return *this;
  }
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Args& Set(std::string name, T value) {
    if constexpr (std::is_same_v<T, bool>)
      values_[std::move(name)] = value;
    else if constexpr (std::is_integral_v<T>)
      values_[std::move(name)] = static_cast<int64_t>(value);
    else
      values_[std::move(name)] = static_cast<double>(value);
    return *this;
  }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::map<std::string, Value>& values() const { return values_; }
  bool operator==(const Args&) const = default;

 private:
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, Value> values_;
};

// ---- Device ------------------------------------------------------------------------------------

struct DeviceState;

using Stream = int32_t;  // 0 always exists

class Device {
 public:
  // "cuda", "cuda:1", "emulator", or "auto": the first GPU if there is one, else the emulator.
  static Expected<Device> Open(const std::string& name = "auto");

  std::string kind() const;         // "cuda" or "emulator"
  std::string description() const;  // one line for people
  std::string target() const;       // "sm_90a"

  Expected<uint64_t> Alloc(uint64_t bytes);  // 256-byte aligned
  void Free(uint64_t address);
  Status CopyIn(uint64_t to, const void* from, uint64_t bytes);
  Status CopyOut(void* to, uint64_t from, uint64_t bytes);
  Status Fill(uint64_t to, uint8_t byte, uint64_t bytes);

  Expected<Stream> NewStream();
  // A CUstream of the host program, which keeps it; it must be of the device's primary context.
  Expected<Stream> AdoptStream(void* cuda_stream);
  Status Synchronize(Stream stream = 0);

  const std::shared_ptr<DeviceState>& state() const { return state_; }

 private:
  explicit Device(std::shared_ptr<DeviceState> state) : state_(std::move(state)) {}
  std::shared_ptr<DeviceState> state_;
};

// ---- Launches that are repeated ----------------------------------------------------------------

struct BoundState;

// A launch that was chosen, checked and packed: what remains is the driver's call. It keeps alive
// all it needs but the memory of the tensors.
class Bound {
 public:
  Status Launch(Stream stream = 0) const;
  // The same launch on tensors that lie elsewhere: an address for each of tensors(), in that order.
  // Storage and alignment are checked, all else is as it was bound.
  Status LaunchAt(const uint64_t* addresses, size_t count, Stream stream = 0) const;
  std::vector<std::string> tensors() const;  // names, in the signature's order

 private:
  friend class Graph;
  friend class Kernel;
  friend class Bundle;
  explicit Bound(std::shared_ptr<const BoundState> state) : state_(std::move(state)) {}
  std::shared_ptr<const BoundState> state_;
};

struct GraphState;

// Bound launches that run one after the other, handed to a GPU as one CUDA graph; the emulator runs
// each. A graph keeps alive what its launches need but the memory of the tensors. Launches of one
// graph do not overlap each other in its stream; MoveTo changes the runs that come after it.
class Graph {
 public:
  static Graph On(const Device& device);
  // Behind those before; gives its number.
  Expected<size_t> Add(const Bound& bound);
  // Other addresses for launch `number`, as Bound::LaunchAt takes them.
  Status MoveTo(size_t number, const uint64_t* addresses, size_t count);
  Status Launch(Stream stream = 0);

 private:
  explicit Graph(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}
  std::shared_ptr<GraphState> state_;
};

// ---- Compiler and kernels ----------------------------------------------------------------------

struct CompilerState;
struct KernelState;

struct CompilerOptions {
  // A machine (`tilec targets`), an architecture, or the path of a machine file, which has a `.` or
  // a
  // `/` in it.
  std::string target = "h200";
  std::string schedule = "solve";  // "sequential", or a .sched file of `tilec schedule`
  // Tunes not given: "model", what the machine model predicts to be fastest for the sizes of a
  // launch; "classes", what it predicts for the largest member of their class, so that a new size
  // finds a program that is there (docs/embedding.md); "default", what the kernel's author wrote;
  // "measure" or "measure=SECONDS", what is fastest of the model's best when they are timed on the
  // device, on tensors of their own, once for each set of sizes; a file that `tilec tune` wrote;
  // "model:improve" or "classes:improve", which measure on a thread beside the host's, and a later
  // launch runs what was found (docs/measured.md).
  std::string tune = "model";
  bool disk_cache = true;
  std::string cache_dir;   // "": $XDG_CACHE_HOME/tilec, or ~/.cache/tilec
  std::string stdlib_dir;  // "": the standard library inside this library
  // Who makes machine code for a GPU: "auto", the ptxas that $PTXAS names, or that of $CUDA_HOME or
  // $PATH, and the driver where there is none; "off", the driver; or the path of a ptxas. Nothing
  // else depends on it (docs/embedding.md).
  std::string ptxas = "auto";
};

// A parameter of a kernel, for programs that look before they launch.
struct Parameter {
  enum class Kind { kTensor, kScalar, kConst, kDim, kTune };
  Kind kind = Kind::kTensor;
  std::string name;
  std::string dtype;              // kTensor, kScalar, kConst
  std::string direction;          // kTensor: "in", "out", "inout"
  std::vector<std::string> dims;  // kTensor: expressions, outermost first
  std::string default_value;      // "" if it has none
  bool is_static = false;         // its value is compiled in
};

// Sizes that dims will have: one number from `first` to `last` for all of them in a launch.
struct SizeRange {
  std::vector<std::string> dims;
  int64_t first = 1, last = 1;
};

// How far Prepare of ranges is.
struct Preparing {
  size_t done = 0, of = 0;                          // classes of sizes; all are chosen first
  size_t programs = 0;                              // compiled and loaded by then
  double choosing = 0, compiling = 0, loading = 0;  // seconds of all its threads together
};

struct PrepareOptions {
  int threads = 0;  // 0: one for each core
  // Called after each class that is chosen, then after each that is done, by one thread at a time.
  std::function<void(const Preparing&)> progress;
};

class Kernel {
 public:
  std::string name() const;
  std::vector<Parameter> parameters() const;

  // Compiles and loads if such arguments are new, checks them, launches.
  Status Launch(Device& device, const Args& args, Stream stream = 0);
  // The same, waiting for the end; milliseconds on the device (on the emulator, of the host).
  Expected<double> LaunchTimed(Device& device, const Args& args, Stream stream = 0);
  // Everything but the launch: tensors may have any address of the alignment they will have.
  Status Prepare(Device& device, const Args& args);
  // The same for all sizes in the ranges together, whose tensors are else as those of `args` are.
  // Needs `tune` = "classes" or "default": what is compiled is shared by all sizes of a class.
  // What comes of it does not depend on the number of threads.
  Status Prepare(Device& device, const Args& args, const std::vector<SizeRange>& ranges,
                 const PrepareOptions& options = {});
  // The same, for launches with exactly these arguments.
  Expected<Bound> Bind(Device& device, const Args& args);
  // What a launch with these arguments runs: "tile-ir", "plan", "warp-ir", "llvm", "ptx", "json".
  Expected<std::string> Emit(const std::string& what, const Args& args);

 private:
  friend class Compiler;
  explicit Kernel(std::shared_ptr<KernelState> state) : state_(std::move(state)) {}
  std::shared_ptr<KernelState> state_;
};

class Compiler {
 public:
  static Expected<Compiler> Create(CompilerOptions options = {});

  // `kernel` may be left out if the file has one. "std/matmul.tile" is the standard library's.
  Expected<Kernel> Compile(const std::string& path, const std::string& kernel = "");
  // `name` is what diagnostics call the text, and where its relative imports start.
  Expected<Kernel> CompileText(const std::string& text, const std::string& name,
                               const std::string& kernel = "");

 private:
  explicit Compiler(std::shared_ptr<CompilerState> state) : state_(std::move(state)) {}
  std::shared_ptr<CompilerState> state_;
};

// ---- Bundles -----------------------------------------------------------------------------------

struct BundleState;

// Kernels built ahead of time by `tilec bundle`. libtilec_rt has this, Device and Args, and needs
// no compiler on the machine.
class Bundle {
 public:
  // Reads the file's index and keeps the file open: a build is read when a launch first takes it.
  static Expected<Bundle> Open(const std::string& path);
  // `name` is what diagnostics call the bytes, which may be released afterwards.
  static Expected<Bundle> FromBytes(const void* bytes, size_t size, const std::string& name);
  // The same without a copy: the bytes stay as they are while the bundle or a bound launch lives.
  static Expected<Bundle> FromStatic(const void* bytes, size_t size, const std::string& name);
  // Reads and checks every build, which launches do one by one. Says of each what is wrong.
  Status Verify() const;

  std::vector<std::string> kernels() const;
  // The signature of a kernel: tensors, scalars, then what is compiled in (kDim, is_static) and
  // dims. Empty if there is no such kernel, or its first build is damaged (Verify says so).
  std::vector<Parameter> parameters(const std::string& kernel) const;
  // Takes the build that fits the device and the arguments; loads it if it is new, checks,
  // launches.
  Status Launch(const std::string& kernel, Device& device, const Args& args, Stream stream = 0);
  // Everything but the launch.
  Status Prepare(const std::string& kernel, Device& device, const Args& args);
  Expected<Bound> Bind(const std::string& kernel, Device& device, const Args& args);

 private:
  explicit Bundle(std::shared_ptr<BundleState> state) : state_(std::move(state)) {}
  std::shared_ptr<BundleState> state_;
};

const char* Version();  // "0.2.0"

}  // namespace tilec
