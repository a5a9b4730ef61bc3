// A transformer block served with lengths that change: one CUDA graph for each length, kept; what a
// request brings are addresses, which are replaced in the graph that is there. On the emulator a
// graph runs its launches one by one.
//
//   serve [DEVICE]        DEVICE: auto (default), emulator, cuda, cuda:1
//
// Every answer is compared, bit by bit, with the same block launched kernel by kernel.
//
// SPDX-License-Identifier: Apache-2.0
#include <tilec/tilec.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int64_t kWidth = 128, kHeads = 2, kHead = kWidth / kHeads;
constexpr const char* kSource = R"(
kernel add(X: bf16[N], Y: bf16[N], Z: out bf16[N]) {
  tune BN = 256
  parallel n in tiles(N, BN) { Z[n] = ((X[n] as f32) + (Y[n] as f32)) as bf16 }
}
)";

[[noreturn]] void Die(const tilec::Status& status) {
  std::fputs(status.text().c_str(), stderr);
  std::exit(1);
}
void Must(const tilec::Status& status) {
  if (!status.ok()) Die(status);
}
template <typename T>
T Must(tilec::Expected<T> value) {
  if (!value.ok()) Die(value.status());
  return *std::move(value);
}

uint16_t Bf16(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// The kernels and weights of a block, and the buffers between its launches.
class Block {
 public:
  Block(tilec::Device device, tilec::Compiler compiler) : device_(device) {
    const auto library = [&](const char* file, const char* name) {
      return Must(compiler.Compile(std::string("std/") + file, name));
    };
    kernels_.emplace("gemm", library("matmul.tile", "gemm"));
    kernels_.emplace("norm", library("norm.tile", "rmsnorm"));
    kernels_.emplace("attention", library("attention.tile", "attention"));
    kernels_.emplace("silu_mul", library("elementwise.tile", "silu_mul"));
    kernels_.emplace("add", Must(compiler.CompileText(kSource, "add.tile")));
    for (int i = 0; i < 7; ++i) weights_.push_back(Random(kWidth * kWidth, i));
    gamma_ = Must(device_.Alloc(kWidth * 4));
    const std::vector<float> ones(kWidth, 1);
    Must(device_.CopyIn(gamma_, ones.data(), kWidth * 4));
  }

  struct Step {
    std::string kernel;
    tilec::Args args;
  };
  // The launches for a request of `n` tokens at `x` whose answer goes to `y`.
  std::vector<Step> Steps(int64_t n, uint64_t x, uint64_t y) {
    const auto rows = [&](uint64_t at) { return Bf16Tensor(at, {n, kWidth}); };
    const auto flat = [&](uint64_t at) { return Bf16Tensor(at, {n * kWidth}); };
    const auto heads = [&](uint64_t at) {  // [1, H, n, D] of rows of H times D
      return tilec::Tensor{
          tilec::DType::kBF16, at, {1, kHeads, n, kHead}, {n * kWidth, kHead, kWidth, 1}};
    };
    std::vector<Step> out;
    const auto product = [&](uint64_t a, size_t weight, uint64_t c) {
      out.push_back({"gemm", tilec::Args()
                                 .Set("A", rows(a))
                                 .Set("B", Bf16Tensor(weights_[weight], {kWidth, kWidth}))
                                 .Set("C", rows(c))});
    };
    const auto norm = [&](uint64_t from, uint64_t to) {
      out.push_back(
          {"norm", tilec::Args()
                       .Set("X", rows(from))
                       .Set("gamma", tilec::Tensor{tilec::DType::kF32, gamma_, {kWidth}, {}})
                       .Set("Y", rows(to))
                       .Set("eps", 1e-5)});
    };
    const auto both = [&](const char* kernel, uint64_t a, uint64_t b, uint64_t c) {
      out.push_back({kernel, tilec::Args().Set("X", flat(a)).Set("Y", flat(b)).Set("Z", flat(c))});
    };
    const std::vector<uint64_t>& t = Buffers(n);
    norm(x, t[0]);
    for (size_t i = 0; i < 3; ++i) product(t[0], i, t[1 + i]);  // Q, K, V
    out.push_back({"attention", tilec::Args()
                                    .Set("Q", heads(t[1]))
                                    .Set("K", heads(t[2]))
                                    .Set("V", heads(t[3]))
                                    .Set("O", heads(t[4]))
                                    .Set("scale", 1 / std::sqrt(double{kHead}))
                                    .Set("causal", true)});
    product(t[4], 3, t[5]);
    both("add", x, t[5], t[6]);
    norm(t[6], t[0]);
    product(t[0], 4, t[1]);
    product(t[0], 5, t[2]);
    both("silu_mul", t[1], t[2], t[3]);
    product(t[3], 6, t[4]);
    both("add", t[6], t[4], y);
    return out;
  }

  void RunOneByOne(int64_t n, uint64_t x, uint64_t y) {
    for (const Step& s : Steps(n, x, y)) Must(kernels_.at(s.kernel).Launch(device_, s.args));
  }

  // By the graph of this length; made if it is the first such request.
  void Run(int64_t n, uint64_t x, uint64_t y) {
    auto it = graphs_.find(n);
    if (it == graphs_.end()) {
      tilec::Graph graph = tilec::Graph::On(device_);
      for (const Step& s : Steps(n, x, y))
        Must(graph.Add(Must(kernels_.at(s.kernel).Bind(device_, s.args))));
      it = graphs_.emplace(n, graph).first;
    }
    // Of 13 launches, three see the request: the first, the sum behind attention, the last.
    const std::vector<uint64_t>& t = Buffers(n);
    const uint64_t first[] = {x, gamma_, t[0]}, middle[] = {x, t[5], t[6]},
                   last[] = {t[6], t[4], y};
    Must(it->second.MoveTo(0, first, 3));
    Must(it->second.MoveTo(6, middle, 3));
    Must(it->second.MoveTo(12, last, 3));
    Must(it->second.Launch());
  }
  size_t graphs() const { return graphs_.size(); }

  // Values of about N(0, 1) / 8, the same for the same seed.
  uint64_t Random(int64_t count, int seed) {
    std::vector<uint16_t> words(static_cast<size_t>(count));
    uint32_t state = 2654435761u * static_cast<uint32_t>(seed + 1);
    for (uint16_t& w : words) {
      state = state * 1664525u + 1013904223u;
      w = Bf16(static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f / 8);
    }
    const uint64_t at = Must(device_.Alloc(words.size() * 2));
    Must(device_.CopyIn(at, words.data(), words.size() * 2));
    return at;
  }

 private:
  static tilec::Tensor Bf16Tensor(uint64_t at, std::vector<int64_t> dims) {
    return {tilec::DType::kBF16, at, std::move(dims), {}};
  }
  const std::vector<uint64_t>& Buffers(int64_t n) {
    std::vector<uint64_t>& t = buffers_[n];
    while (t.size() < 7) t.push_back(Must(device_.Alloc(static_cast<uint64_t>(n * kWidth * 2))));
    return t;
  }

  tilec::Device device_;
  std::map<std::string, tilec::Kernel> kernels_;
  std::vector<uint64_t> weights_;
  uint64_t gamma_ = 0;
  std::map<int64_t, std::vector<uint64_t>> buffers_;
  std::map<int64_t, tilec::Graph> graphs_;
};

}  // namespace

int main(int argc, char** argv) {
  auto device = Must(tilec::Device::Open(argc > 1 ? argv[1] : "auto"));
  tilec::CompilerOptions options;
  options.tune = "default";
  Block block(device, Must(tilec::Compiler::Create(options)));
  std::printf("%s\n", device.description().c_str());
  int request = 0;
  for (const int64_t n : {40, 72, 40, 100, 72, 40}) {
    const auto bytes = static_cast<uint64_t>(n * kWidth * 2);
    const uint64_t x = block.Random(n * kWidth, 100 + request++);
    const uint64_t y = Must(device.Alloc(bytes)), want = Must(device.Alloc(bytes));
    block.RunOneByOne(n, x, want);
    block.Run(n, x, y);
    Must(device.Synchronize());
    std::vector<uint16_t> got(bytes / 2), expected(got.size());
    Must(device.CopyOut(got.data(), y, bytes));
    Must(device.CopyOut(expected.data(), want, bytes));
    bool any = false;
    for (const uint16_t w : got) any = any || (w & 0x7fff) != 0;
    if (got != expected || !any) {
      std::fprintf(stderr, "request %d of %d tokens differs\n", request, static_cast<int>(n));
      return 1;
    }
    for (const uint64_t p : {x, y, want}) device.Free(p);
  }
  std::printf("%d requests, %zu graphs: the same bits as launched one by one\n", request,
              block.graphs());
  return block.graphs() == 3 ? 0 : 1;
}
