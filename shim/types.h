// What CUDA programs hand over and expect back, in our own declarations: no CUDA header is needed
// to build. The driver and the runtime interface share their error numbers. Handles are addresses
// of our objects and are looked up before they are followed: a program may hand over anything.
//
// tests/unit/shim/header_test.cc holds sizes and numbers against the toolkit's headers where they
// are.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilec::shim {

// CUresult and cudaError_t: the numbers that both have.
enum Code : int {
  kOk = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kInvalidConfiguration = 9,  // of the runtime alone
  kInvalidSymbol = 13,        // of the runtime alone
  kInvalidDeviceFunction = 98,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinary = 209,
  kInvalidPtx = 218,
  kUnsupportedPtx = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kTooManyResources = 701,
  kTimeout = 702,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisaligned = 716,
  kLaunchFailed = 719,
  kTooLargeCooperative = 720,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureUnmatched = 903,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kGraphUpdateFailed = 910,
  kUnknown = 999,
};

struct Dim3 {
  uint32_t x, y, z;
};

// CUlaunchAttribute and cudaLaunchAttribute.
struct LaunchAttribute {
  enum Id : int {
    kCooperative = 2,
    kClusterDimension = 4,
    kProgrammaticSerialization = 6,
    kProgrammaticEvent = 7,
    kPreferredCluster = 11,
  };
  int id;
  char pad[4];
  union {
    char bytes[64];
    Dim3 cluster;
    int flag;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

struct DriverLaunchConfig {
  Dim3 grid, block;
  uint32_t smem_bytes;
  void* stream;
  LaunchAttribute* attributes;
  uint32_t attribute_count;
};
static_assert(sizeof(DriverLaunchConfig) == 56);

struct RuntimeLaunchConfig {
  Dim3 grid, block;
  size_t smem_bytes;
  void* stream;
  LaunchAttribute* attributes;
  uint32_t attribute_count;
};
static_assert(sizeof(RuntimeLaunchConfig) == 56 && offsetof(RuntimeLaunchConfig, stream) == 32);

// CUDA_KERNEL_NODE_PARAMS_v2, and its first 56 bytes of version 1.
struct DriverKernelNode {
  void* function;
  Dim3 grid, block;
  uint32_t smem_bytes;
  void** parameters;
  void** extra;
  void* kernel;
  void* context;
};
static_assert(sizeof(DriverKernelNode) == 72);

struct RuntimeKernelNode {
  void* function;
  Dim3 grid, block;
  uint32_t smem_bytes;
  void** parameters;
  void** extra;
};
static_assert(sizeof(RuntimeKernelNode) == 56);

struct MemsetNode {  // CUDA_MEMSET_NODE_PARAMS and cudaMemsetParams
  uint64_t to;
  size_t pitch;
  uint32_t value, element_bytes;
  size_t width, height;
};
static_assert(sizeof(MemsetNode) == 40);

struct HostNode {
  void (*function)(void*);
  void* data;
};

// CUDA_MEMCPY2D_v2.
struct DriverCopy2D {
  size_t from_x, from_y;
  int from_type;
  const void* from_host;
  uint64_t from_device;
  void* from_array;
  size_t from_pitch;
  size_t to_x, to_y;
  int to_type;
  void* to_host;
  uint64_t to_device;
  void* to_array;
  size_t to_pitch;
  size_t width, height;
};
static_assert(sizeof(DriverCopy2D) == 128);

// CUDA_MEMCPY3D_v2; CUDA_MEMCPY3D_PEER has contexts in place of the two reserved words.
struct DriverCopy3D {
  size_t from_x, from_y, from_z, from_lod;
  int from_type;
  const void* from_host;
  uint64_t from_device;
  void* from_array;
  void* from_reserved;
  size_t from_pitch, from_height;
  size_t to_x, to_y, to_z, to_lod;
  int to_type;
  void* to_host;
  uint64_t to_device;
  void* to_array;
  void* to_reserved;
  size_t to_pitch, to_height;
  size_t width, height, depth;
};
static_assert(sizeof(DriverCopy3D) == 200);
enum DriverMemoryType { kTypeHost = 1, kTypeDevice = 2, kTypeArray = 3, kTypeUnified = 4 };

struct PitchedPointer {
  void* address;
  size_t pitch, width, height;
};
struct Extent {
  size_t width, height, depth;
};
struct RuntimeCopy3D {
  void* from_array;
  size_t from_at[3];
  PitchedPointer from;
  void* to_array;
  size_t to_at[3];
  PitchedPointer to;
  Extent extent;
  int kind;
};
static_assert(sizeof(RuntimeCopy3D) == 160);

struct RuntimeFunctionAttributes {
  size_t shared_bytes, constant_bytes, local_bytes;
  int most_threads, registers, ptx_version, binary_version, cache_mode;
  int most_dynamic_shared, carveout, cluster_must_be_set;
  int cluster_width, cluster_height, cluster_depth, cluster_policy, non_portable;
  int reserved[16];
};
static_assert(sizeof(RuntimeFunctionAttributes) == 144);

struct RuntimePointerAttributes {
  int type;  // 0 unregistered, 1 host, 2 device, 3 managed
  int device;
  void* device_pointer;
  void* host_pointer;
  long reserved[8];
};
static_assert(sizeof(RuntimePointerAttributes) == 88);

struct Uuid {
  char bytes[16];
};

// The words that nvcc's host code registers its fatbins by.
struct FatbinWrapper {
  static constexpr uint32_t kMagic = 0x466243b1;
  uint32_t magic, version;
  const void* data;
  void* more;
};

}  // namespace tilec::shim
