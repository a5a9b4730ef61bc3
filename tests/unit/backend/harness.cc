// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/backend/harness.h"
#include "tests/unit/h200.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

#include "support/file.h"

namespace tilec::backend {
namespace {

struct Format {
  int mantissa;  // stored bits
  int min_exp;   // of the smallest normal
  double max;
  bool infinity;
};
Format FormatOf(DType d) {
  switch (d) {
    case DType::kF16: return {10, -14, 65504, true};
    case DType::kBF16: return {7, -126, 3.3895313892515355e38, true};
    case DType::kE4M3: return {3, -6, 448, false};
    case DType::kE5M2: return {2, -14, 57344, false};
    default: return {23, -126, 3.4028234663852886e38, true};
  }
}

double RoundFloat(const Format& f, double v, bool saturate) {
  if (std::isnan(v) || v == 0) return v;
  int e = 0;
  std::frexp(v, &e);
  const int quantum = std::max(e - 1, f.min_exp) - f.mantissa;
  double r = std::ldexp(std::nearbyint(std::ldexp(v, -quantum)), quantum);
  if (std::fabs(r) > f.max)
    r = saturate ? std::copysign(f.max, v)
                 : std::copysign(std::numeric_limits<double>::infinity(), v);
  return r;
}

// Bits of a value that the format holds exactly.
uint64_t FloatBits(const Format& f, int exponent_bits, double v, uint64_t nan) {
  const int width = 1 + exponent_bits + f.mantissa;
  const uint64_t sign = std::signbit(v) ? uint64_t{1} << (width - 1) : 0;
  if (std::isnan(v)) return nan;
  const uint64_t top = (uint64_t{1} << exponent_bits) - 1;
  if (std::isinf(v)) return sign | top << f.mantissa;
  if (v == 0) return sign;
  int e = 0;
  std::frexp(v, &e);
  const int exponent = std::max(e - 1, f.min_exp);
  uint64_t m = static_cast<uint64_t>(std::ldexp(std::fabs(v), f.mantissa - exponent));
  const bool normal = m >> f.mantissa;
  const uint64_t field = normal ? static_cast<uint64_t>(exponent - f.min_exp + 1) : 0;
  return sign | field << f.mantissa | (m & ((uint64_t{1} << f.mantissa) - 1));
}

double FromBits(const Format& f, int exponent_bits, uint64_t bits, bool e4m3) {
  const int width = 1 + exponent_bits + f.mantissa;
  const double sign = bits >> (width - 1) & 1 ? -1 : 1;
  const uint64_t top = (uint64_t{1} << exponent_bits) - 1;
  const uint64_t field = bits >> f.mantissa & top;
  const uint64_t m = bits & ((uint64_t{1} << f.mantissa) - 1);
  if (e4m3 ? (field == top && m == 7) : (field == top && m))
    return std::numeric_limits<double>::quiet_NaN();
  if (!e4m3 && field == top) return sign * std::numeric_limits<double>::infinity();
  if (!field) return sign * std::ldexp(static_cast<double>(m), f.min_exp - f.mantissa);
  return sign * std::ldexp(static_cast<double>(m | uint64_t{1} << f.mantissa),
                           static_cast<int>(field) - 1 + f.min_exp - f.mantissa);
}

int ExponentBits(DType d) {
  switch (d) {
    case DType::kF16: return 5;
    case DType::kBF16: return 8;
    case DType::kE4M3: return 4;
    case DType::kE5M2: return 5;
    default: return 0;
  }
}

}  // namespace

double RoundTo(DType d, double v) {
  switch (d) {
    case DType::kF64: return v;
    case DType::kF32:
    case DType::kTF32: return static_cast<double>(static_cast<float>(v));
    case DType::kF16:
    case DType::kBF16: return RoundFloat(FormatOf(d), v, false);
    case DType::kE4M3:
    case DType::kE5M2: return RoundFloat(FormatOf(d), v, true);
    case DType::kBool: return v != 0;
    default: return std::trunc(v);
  }
}

std::vector<uint8_t> Encode(DType d, const std::vector<double>& values) {
  const size_t size = static_cast<size_t>(ir::ByteSize(d));
  std::vector<uint8_t> out(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t bits = 0;
    const double v = RoundTo(d, values[i]);
    if (d == DType::kF64) {
      std::memcpy(&bits, &v, 8);
    } else if (size == 4 && ir::IsFloat(d)) {
      const float f = static_cast<float>(v);
      std::memcpy(&bits, &f, 4);
    } else if (ir::IsFloat(d)) {
      bits = FloatBits(FormatOf(d), ExponentBits(d), v,
                       d == DType::kE4M3   ? 0x7f
                       : d == DType::kE5M2 ? 0x7f
                                           : 0x7fff);
    } else if (d == DType::kU64) {
      bits = static_cast<uint64_t>(v);
    } else {
      bits = static_cast<uint64_t>(static_cast<int64_t>(v));
    }
    std::memcpy(&out[i * size], &bits, size);
  }
  return out;
}

std::vector<double> Decode(DType d, const std::vector<uint8_t>& bytes) {
  const size_t size = static_cast<size_t>(ir::ByteSize(d));
  std::vector<double> out(bytes.size() / size);
  for (size_t i = 0; i < out.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, &bytes[i * size], size);
    if (d == DType::kF64) {
      std::memcpy(&out[i], &bits, 8);
    } else if (size == 4 && ir::IsFloat(d)) {
      float f = 0;
      std::memcpy(&f, &bits, 4);
      out[i] = static_cast<double>(f);
    } else if (ir::IsFloat(d)) {
      out[i] = FromBits(FormatOf(d), ExponentBits(d), bits, d == DType::kE4M3);
    } else if (ir::IsSigned(d)) {
      const int shift = static_cast<int>(64 - 8 * size);
      out[i] = static_cast<double>(static_cast<int64_t>(bits << shift) >> shift);
    } else {
      out[i] = static_cast<double>(bits);
    }
  }
  return out;
}

std::vector<double> Random(DType d, int64_t count, uint64_t seed, double lo, double hi) {
  std::mt19937_64 generator(seed * 977 + 13);
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) {
    const double u = static_cast<double>(generator() >> 11) * 0x1p-53;
    double v = lo + (hi - lo) * u;
    if (d == DType::kBool) v = u < 0.5;
    if (ir::IsInteger(d)) v = std::floor(v);
    if (!ir::IsFloat(d) && !ir::IsSigned(d)) v = std::fabs(v);
    if (d == DType::kI8) v = std::fmin(std::fmax(v, -128), 127);
    out.push_back(RoundTo(d, v));
  }
  return out;
}

Kernel::Kernel(std::string name, int warps) : b(fn, fn.body) {
  fn.name = std::move(name);
  fn.level = ir::Level::kWarp;
  fn.launch.warps = warps;
}

ValueId Kernel::Tensor(const HostTensor& t, ir::Direction direction,
                       const std::vector<std::string>& dims) {
  ir::Param p;
  p.kind = ir::ParamKind::kTensor;
  p.name = t.name;
  p.direction = direction;
  for (size_t i = 0; i < t.shape.size(); ++i)
    p.dims.push_back(i < dims.size() && !dims[i].empty() ? Expr::Name(dims[i])
                                                         : Expr::Const(t.shape[i]));
  p.facts.base_align_bytes = 16;
  tensors.push_back(t);
  int64_t count = 1;
  for (int64_t n : t.shape) count *= n;
  if (!t.strides.empty()) {
    count = 1;
    for (size_t i = 0; i < t.shape.size(); ++i) count += (t.shape[i] - 1) * t.strides[i];
  }
  tensors.back().values.resize(static_cast<size_t>(count), 0);
  return fn.AddParam(std::move(p), Type::Tensor(t.dtype, static_cast<int64_t>(t.shape.size())));
}

ValueId Kernel::Load(ValueId tensor, std::vector<int64_t> shape, const ir::Layout& layout,
                     int64_t vector) {
  std::vector<ValueId> operands = {tensor};
  for (size_t i = 0; i < shape.size(); ++i) operands.push_back(b.Int(0));
  return b.Value(OpKind::kGLoad, operands, Tile(fn.type(tensor).dtype, shape, layout),
                 {{"modes", std::string(shape.size(), 'r')}, {"sizes", shape}, {"vector", vector}});
}

void Kernel::Store(ValueId tensor, ValueId tile, int64_t vector) {
  const std::vector<int64_t> shape = fn.type(tile).shape;
  std::vector<ValueId> operands = {tensor, tile};
  for (int64_t n : shape) {
    operands.push_back(b.Int(0));
    operands.push_back(b.Int(n));
  }
  b.Add(OpKind::kGStore, operands, {},
        {{"modes", std::string(shape.size(), 'r')}, {"sizes", shape}, {"vector", vector}});
}

ValueId Kernel::Smem(DType d, std::vector<int64_t> shape, ir::SmemLayout s, int64_t offset,
                     int64_t depth) {
  fn.launch.smem_bytes = std::max(fn.launch.smem_bytes, offset + depth * ir::SmemBytes(s, d));
  return b.Value(OpKind::kSmemAlloc, {}, Type::Smem(d, std::move(shape), s, depth),
                 {{"offset", offset}});
}

std::string TestPtxas() {
  const char* home = std::getenv("CUDA_HOME");
  const char* path = std::getenv("PATH");
  return FindPtxas({"", home ? home : "", path ? path : ""});
}

bool Kernel::Build() {
  if (built_) return true;
  DiagSink diags;
  SourceMap sources;
  Result<KernelImage> image =
      Compile(fn, sources, BackendOptions(machine ? *machine : ir::H200()), diags);
  if (!image.ok()) {
    ADD_FAILURE() << fn.name << ": " << RenderAll(diags, sources);
    return false;
  }
  image_ = std::move(*image);
  built_ = true;
  if (const char* folder = std::getenv("TILEC_KEEP_IMAGES")) {
    static std::map<std::string, int> count;
    const std::string path =
        std::string(folder) + "/" + fn.name + "." + std::to_string(count[fn.name]++);
    std::string why;
    EXPECT_TRUE(WriteFileAtomically(path + ".json", ToJson(image_), &why)) << why;
  }
  const std::string ptxas = TestPtxas();
  if (ptxas.empty() || std::getenv("TILEC_NO_PTXAS")) return true;
  Result<PtxasReport> result = Assemble(image_.ptx, image_.target, ptxas, diags);
  if (!result.ok()) {
    ADD_FAILURE() << fn.name << ": " << RenderAll(diags, sources) << "\n" << image_.ptx;
    return false;
  }
  report = std::move(*result);
  assembled = true;
  for (const std::string& line : report.pipeline)
    if (line.find("C7519") == std::string::npos) ADD_FAILURE() << fn.name << ": " << line;
  if (!allow_spills) {
    EXPECT_EQ(report.spill_store_bytes, 0) << fn.name;
    EXPECT_EQ(report.stack_bytes, 0) << fn.name;
  }
  return true;
}

bool Kernel::Run(const Bindings& scalars) {
  if (!Build()) return false;
  runtime::Device* device = TestDevice();
  if (!device) return false;
  DiagSink diags;
  auto fail = [&] {
    ADD_FAILURE() << fn.name << ": " << RenderAll(diags, SourceMap());
    return false;
  };
  auto loaded = runtime::LoadedKernel::Load(*device, image_, diags);
  if (!loaded.ok()) return fail();
  runtime::LaunchArgs args;
  std::vector<runtime::DeviceAddress> memory;
  for (HostTensor& t : tensors) {
    const std::vector<uint8_t> bytes = Encode(t.dtype, t.values);
    const size_t front = static_cast<size_t>(t.begin * ir::ByteSize(t.dtype));
    auto address = device->Alloc(std::max<size_t>(front + bytes.size(), 16), diags);
    if (!address.ok()) return fail();
    memory.push_back(*address);
    const runtime::DeviceAddress data = *address + front;
    if (!device->CopyIn(data, bytes.data(), bytes.size(), diags).ok()) return fail();
    args.tensors[t.name] = {ir::Spelling(t.dtype), data, t.shape, t.strides};
  }
  for (const auto& [name, value] : scalars) args.scalars[name] = value;
  for (const auto& [name, value] : float_scalars) args.scalars[name] = value;
  runtime::LaunchStats stats;
  const bool ok = (*loaded)->Launch(args, 0, &stats, diags).ok();
  for (size_t i = 0; ok && i < tensors.size(); ++i) {
    HostTensor& t = tensors[i];
    if (fn.param(t.name)->direction == ir::Direction::kIn) continue;
    std::vector<uint8_t> bytes(t.values.size() * static_cast<size_t>(ir::ByteSize(t.dtype)));
    const size_t front = static_cast<size_t>(t.begin * ir::ByteSize(t.dtype));
    if (!device->CopyOut(bytes.data(), memory[i] + front, bytes.size(), diags).ok()) return fail();
    t.values = Decode(t.dtype, bytes);
  }
  for (runtime::DeviceAddress a : memory) device->Free(a);
  return ok ? true : fail();
}

std::vector<double>& Kernel::values(const std::string& name) {
  for (HostTensor& t : tensors)
    if (t.name == name) return t.values;
  ADD_FAILURE() << "no tensor " << name;
  return tensors[0].values;
}

runtime::Device* TestDevice() {
  static std::unique_ptr<runtime::Device> device = [] {
    const char* wanted = std::getenv("TILEC_TEST_DEVICE");
    DiagSink diags;
    std::unique_ptr<runtime::Device> out;
    if (wanted && std::string(wanted) == "cuda") {
      auto opened = runtime::OpenCuda(0, diags);
      if (opened.ok()) out = std::move(*opened);
      if (!out) std::fprintf(stderr, "%s", RenderAll(diags, SourceMap()).c_str());
      return out;
    }
#ifdef TILEC_HAVE_EMULATOR
    out = runtime::OpenEmulator();
#endif
    return out;
  }();
  return device.get();
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  int wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (got[i] == want[i]) continue;
    if (std::fabs(got[i] - want[i]) <= tolerance * (1 + std::fabs(want[i]))) continue;
    if (++wrong <= 5)
      ADD_FAILURE() << what << ": element " << i << " is " << got[i] << ", expected " << want[i];
  }
  if (wrong > 5) ADD_FAILURE() << what << ": " << wrong << " of " << got.size() << " wrong";
}

std::vector<ir::Layout> SomeLayouts(const std::vector<int64_t>& shape, int64_t threads) {
  std::vector<ir::Layout> out;
  for (int64_t v : {1, 2, 4, 8})
    if (shape.back() % v == 0) out.push_back(ir::BlockedLayout(shape, v, threads));
  int64_t elements = 1;
  for (int64_t n : shape) elements *= n;
  if (elements <= 64) out.push_back(ir::ReplicatedLayout(shape, threads));
  if (shape.size() == 2) {
    const int wgs = static_cast<int>(threads / 128);
    if (threads % 128 == 0) {
      out.push_back(ir::AccumulatorLayout(shape[0], shape[1], wgs, ir::WgSplit::kM));
      out.push_back(ir::AccumulatorLayout(shape[0], shape[1], wgs, ir::WgSplit::kN));
      out.push_back(ir::AccumulatorLayout(shape[0], shape[1], wgs, ir::WgSplit::kNone));
    }
    // Blocks along rows and columns: the run of a row is not the fastest digit.
    out.push_back(ir::CrossedLayout(shape, {0, 2, 16}, {1, 4, 32}, threads));
    // Columns along the threads.
    out.push_back(ir::PermuteLayout(ir::BlockedLayout({shape[1], shape[0]}, 1, threads), {1, 0}));
  }
  return out;
}

}  // namespace tilec::backend
