// A host program in C++: compiles a kernel from text, runs it on the GPU or the emulator with two
// shapes, and checks the numbers itself.
//
//   embed_cpp [DEVICE]        DEVICE: auto (default), emulator, cuda, cuda:1
//
// SPDX-License-Identifier: Apache-2.0
#include <tilec/tilec.h>

#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr const char* kSource = R"(
// y = a·x + y, row by row
kernel axpy(X: f32[M, N], Y: inout f32[M, N], a: f32) {
  tune BM = 8
  tune BN = 128
  parallel m in tiles(M, BM), n in tiles(N, BN) {
    Y[m, n] = a * X[m, n] + Y[m, n]
  }
}
)";

int Fail(const tilec::Status& status) {
  std::fputs(status.text().c_str(), stderr);
  return 1;
}

// One launch on host data; false after saying what went wrong.
bool RunOnce(tilec::Kernel kernel, tilec::Device device, int64_t m, int64_t n) {
  std::vector<float> x(static_cast<size_t>(m * n)), y(x.size()), got(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 17) - 8;
    y[i] = static_cast<float>(i % 5);
  }
  const uint64_t bytes = x.size() * sizeof(float);
  const auto xd = device.Alloc(bytes), yd = device.Alloc(bytes);
  if (!xd.ok() || !yd.ok()) return Fail(xd.ok() ? yd.status() : xd.status()), false;

  tilec::Status status = device.CopyIn(*xd, x.data(), bytes);
  if (status.ok()) status = device.CopyIn(*yd, y.data(), bytes);
  if (status.ok())
    status = kernel.Launch(device, tilec::Args()
                                       .Set("X", tilec::Tensor{tilec::DType::kF32, *xd, {m, n}, {}})
                                       .Set("Y", tilec::Tensor{tilec::DType::kF32, *yd, {m, n}, {}})
                                       .Set("a", 0.5));
  if (status.ok()) status = device.Synchronize();
  if (status.ok()) status = device.CopyOut(got.data(), *yd, bytes);
  device.Free(*xd);
  device.Free(*yd);
  if (!status.ok()) return Fail(status), false;
  for (size_t i = 0; i < x.size(); ++i)
    if (got[i] != 0.5f * x[i] + y[i])
      return std::fprintf(stderr, "element %zu is %g\n", i, static_cast<double>(got[i])), false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  auto device = tilec::Device::Open(argc > 1 ? argv[1] : "auto");
  if (!device.ok()) return Fail(device.status());
  auto compiler = tilec::Compiler::Create();
  if (!compiler.ok()) return Fail(compiler.status());
  auto kernel = compiler->CompileText(kSource, "axpy.tile");
  if (!kernel.ok()) return Fail(kernel.status());

  // Handles may be used from several threads; equal specialisations are compiled once.
  bool ok[3] = {};
  std::thread other([&] { ok[0] = RunOnce(*kernel, *device, 64, 256); });
  ok[1] = RunOnce(*kernel, *device, 33, 100);
  other.join();
  ok[2] = RunOnce(*kernel, *device, 33, 101);  // rows of 404 bytes: another specialisation
  if (!ok[0] || !ok[1] || !ok[2]) return 1;

  // A mistake is a value with a text for people.
  const auto missing = kernel->Launch(*device, tilec::Args().Set("a", 1.0));
  if (missing.ok() || missing.problems().front().code != "R510") return 1;

  std::printf("axpy on %s: ok\n", device->description().c_str());
  return 0;
}
