// The part of the CUDA driver API we use, in our own declarations: no CUDA header and no CUDA
// library is needed to build or to start. The driver is found when somebody opens a device.
//
// tests/unit/runtime/cuda_header_test.cc holds these numbers against cuda.h where a toolkit is
// present. Everything is in a namespace, so the names do not meet those of a host program that
// includes cuda.h.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "support/diag.h"
#include "support/result.h"

namespace tilec::runtime::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = uint64_t;
struct ContextTag;
struct ModuleTag;
struct FunctionTag;
struct StreamTag;
struct EventTag;
struct GraphTag;
struct GraphNodeTag;
struct GraphExecTag;
using CUcontext = ContextTag*;
using CUmodule = ModuleTag*;
using CUfunction = FunctionTag*;
using CUstream = StreamTag*;
using CUevent = EventTag*;
using CUgraph = GraphTag*;
using CUgraphNode = GraphNodeTag*;
using CUgraphExec = GraphExecTag*;

inline constexpr CUresult kSuccess = 0;
inline constexpr CUresult kErrorNoDevice = 100;
inline constexpr CUresult kErrorStubLibrary = 34;
inline constexpr CUresult kErrorNoBinary = 209;
inline constexpr CUresult kErrorInvalidPtx = 218;
inline constexpr CUresult kErrorJitNotFound = 221;
inline constexpr CUresult kErrorUnsupportedPtx = 222;

struct alignas(128) CUtensorMap {
  uint64_t opaque[16];
};

// Values of a launch attribute: those that are used, the rest is padding.
struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      uint32_t x, y, z;
    } cluster;
    int dependent;  // programmatic stream serialization is allowed
  } value;
};
static_assert(sizeof(CUlaunchAttribute) == 72 && offsetof(CUlaunchAttribute, value) == 8);

struct CUlaunchConfig {
  uint32_t grid_x, grid_y, grid_z;
  uint32_t block_x, block_y, block_z;
  uint32_t smem_bytes;
  CUstream stream;
  CUlaunchAttribute* attributes;
  uint32_t attribute_count;
};
static_assert(sizeof(CUlaunchConfig) == 56 && offsetof(CUlaunchConfig, stream) == 32);

// CUDA_KERNEL_NODE_PARAMS_v2: of the driver's 12.0 interface.
struct CUkernelNodeParams {
  CUfunction function;
  uint32_t grid_x, grid_y, grid_z;
  uint32_t block_x, block_y, block_z;
  uint32_t smem_bytes;
  void** parameters;
  void** extra;
  void* kernel;       // in place of `function`
  CUcontext context;  // of `kernel`
};
static_assert(sizeof(CUkernelNodeParams) == 72 && offsetof(CUkernelNodeParams, parameters) == 40);

enum LaunchAttributeId { kClusterDimension = 4, kProgrammaticStreamSerialization = 6 };
enum FunctionAttribute {
  kSharedSize = 1,
  kLocalSize = 3,
  kRegisters = 4,
  kMaxDynamicShared = 8,
  kNonPortableCluster = 14,
};
enum DeviceAttribute {
  kClockKhz = 13,
  kMultiprocessors = 16,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedPerBlockOptin = 97,
};
enum JitOption {
  kInfoLogBuffer = 3,
  kInfoLogBytes = 4,
  kErrorLogBuffer = 5,
  kErrorLogBytes = 6,
  kLogVerbose = 12,
};
enum TensorMapType {
  kMapU8 = 0,
  kMapU16,
  kMapU32,
  kMapI32,
  kMapU64,
  kMapI64,
  kMapF16,
  kMapF32,
  kMapF64,
  kMapBf16,
  kMapF32Ftz,
  kMapTf32,
  kMapTf32Ftz,
};
enum StreamFlag { kStreamNonBlocking = 1 };

// The driver, found and initialised. All pointers are set but those that say otherwise.
struct Api {
#define CUDA_FN(name, symbol, version, params) CUresult(*name) params = nullptr;
#include "runtime/cuda_functions.def"
#undef CUDA_FN
  // Since CUDA 12.4, null before: brings a function's code to the device now, not at its first
  // launch.
  CUresult (*cuFuncLoad)(CUfunction function) = nullptr;
  void* library = nullptr;
  std::string path;        // what the loader was asked for
  int driver_version = 0;  // 12080 is CUDA 12.8

  Api() = default;
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;
  ~Api();

  // "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"
  std::string ErrorName(CUresult error) const;
  std::string ErrorText(CUresult error) const;
};

// Loads the first of `names` that the dynamic loader finds, binds every function and calls cuInit.
// R501-R505 otherwise.
Result<std::unique_ptr<Api>> LoadDriver(const std::vector<std::string>& names, DiagSink& diags);
Result<std::unique_ptr<Api>> LoadDriver(DiagSink& diags);  // libcuda.so.1, libcuda.so

}  // namespace tilec::runtime::cuda
