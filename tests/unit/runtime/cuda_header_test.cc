// Our declarations of the driver API against the toolkit's own header, where there is one.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "runtime/cuda_api.h"

// After ours: cuda.h defines macros such as cuMemAlloc.
#include <cuda.h>

namespace ours = tilec::runtime::cuda;

static_assert(sizeof(ours::CUtensorMap) == sizeof(CUtensorMap));
static_assert(alignof(ours::CUtensorMap) >= alignof(CUtensorMap));
static_assert(sizeof(ours::CUlaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(ours::CUlaunchConfig, smem_bytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(ours::CUlaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(ours::CUlaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(ours::CUlaunchConfig, attribute_count) ==
              offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(ours::CUlaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(ours::CUlaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(ours::CUkernelNodeParams) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2));
static_assert(offsetof(ours::CUkernelNodeParams, smem_bytes) ==
              offsetof(CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes));
static_assert(offsetof(ours::CUkernelNodeParams, parameters) ==
              offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kernelParams));
static_assert(sizeof(CUlaunchAttributeValue) == sizeof(ours::CUlaunchAttribute::value));
static_assert(+ours::kClusterDimension == +CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(+ours::kProgrammaticStreamSerialization ==
              +CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(ours::kErrorNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(ours::kErrorStubLibrary == CUDA_ERROR_STUB_LIBRARY);
static_assert(ours::kErrorNoBinary == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(ours::kErrorInvalidPtx == CUDA_ERROR_INVALID_PTX);
static_assert(ours::kErrorJitNotFound == CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
static_assert(ours::kErrorUnsupportedPtx == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(+ours::kMaxDynamicShared == +CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(+ours::kNonPortableCluster == +CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
static_assert(+ours::kLocalSize == +CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
static_assert(+ours::kRegisters == +CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(+ours::kSharedSize == +CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(+ours::kClockKhz == +CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
static_assert(+ours::kMultiprocessors == +CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(+ours::kCapabilityMajor == +CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(+ours::kCapabilityMinor == +CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(+ours::kSharedPerBlockOptin ==
              +CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(+ours::kInfoLogBuffer == +CU_JIT_INFO_LOG_BUFFER);
static_assert(+ours::kInfoLogBytes == +CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
static_assert(+ours::kErrorLogBuffer == +CU_JIT_ERROR_LOG_BUFFER);
static_assert(+ours::kErrorLogBytes == +CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
static_assert(+ours::kLogVerbose == +CU_JIT_LOG_VERBOSE);
static_assert(+ours::kMapU8 == +CU_TENSOR_MAP_DATA_TYPE_UINT8);
static_assert(+ours::kMapI32 == +CU_TENSOR_MAP_DATA_TYPE_INT32);
static_assert(+ours::kMapI64 == +CU_TENSOR_MAP_DATA_TYPE_INT64);
static_assert(+ours::kMapF16 == +CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
static_assert(+ours::kMapF32 == +CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
static_assert(+ours::kMapF64 == +CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
static_assert(+ours::kMapBf16 == +CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
static_assert(+ours::kMapTf32 == +CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
static_assert(+ours::kStreamNonBlocking == +CU_STREAM_NON_BLOCKING);
static_assert(CU_TENSOR_MAP_SWIZZLE_128B == 3 && CU_TENSOR_MAP_L2_PROMOTION_L2_256B == 3);
static_assert(CU_TENSOR_MAP_INTERLEAVE_NONE == 0);

TEST(CudaHeader, DeclarationsAgree) { SUCCEED() << "checked when this file was compiled"; }
