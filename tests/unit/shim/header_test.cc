// Our declarations of what programs hand over against the toolkit's own headers, where there are
// any; those of CUDA 13.
//
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "shim/properties.h"
#include "shim/types.h"

// After ours: cuda.h defines macros such as cuMemAlloc.
#include <cuda.h>
#include <cuda_runtime_api.h>

namespace ours = tilec::shim;

static_assert(sizeof(ours::LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(sizeof(ours::LaunchAttribute) == sizeof(cudaLaunchAttribute));
static_assert(sizeof(ours::DriverLaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(ours::DriverLaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(sizeof(ours::RuntimeLaunchConfig) == sizeof(cudaLaunchConfig_t));
static_assert(offsetof(ours::RuntimeLaunchConfig, attributes) ==
              offsetof(cudaLaunchConfig_t, attrs));
static_assert(sizeof(ours::DriverKernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS));
static_assert(sizeof(ours::RuntimeKernelNode) == sizeof(cudaKernelNodeParams));
static_assert(sizeof(ours::MemsetNode) == sizeof(CUDA_MEMSET_NODE_PARAMS));
static_assert(sizeof(ours::MemsetNode) == sizeof(cudaMemsetParams));
static_assert(offsetof(ours::MemsetNode, element_bytes) ==
              offsetof(CUDA_MEMSET_NODE_PARAMS, elementSize));
static_assert(sizeof(ours::DriverCopy2D) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(ours::DriverCopy2D, to_pitch) == offsetof(CUDA_MEMCPY2D, dstPitch));
static_assert(sizeof(ours::DriverCopy3D) == sizeof(CUDA_MEMCPY3D));
static_assert(offsetof(ours::DriverCopy3D, to_device) == offsetof(CUDA_MEMCPY3D, dstDevice));
static_assert(sizeof(ours::RuntimeCopy3D) == sizeof(cudaMemcpy3DParms));
static_assert(offsetof(ours::RuntimeCopy3D, extent) == offsetof(cudaMemcpy3DParms, extent));
static_assert(sizeof(ours::RuntimeFunctionAttributes) == sizeof(cudaFuncAttributes));
static_assert(offsetof(ours::RuntimeFunctionAttributes, non_portable) ==
              offsetof(cudaFuncAttributes, nonPortableClusterSizeAllowed));
static_assert(sizeof(ours::RuntimePointerAttributes) == sizeof(cudaPointerAttributes));
#if CUDART_VERSION >= 13000
static_assert(sizeof(ours::DeviceProperties) == sizeof(cudaDeviceProp));
static_assert(offsetof(ours::DeviceProperties, clusterLaunch) ==
              offsetof(cudaDeviceProp, clusterLaunch));
#endif
static_assert(+ours::LaunchAttribute::kCooperative == +CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(+ours::LaunchAttribute::kClusterDimension == +CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(+ours::LaunchAttribute::kProgrammaticSerialization ==
              +CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(ours::kInvalidValue == +CUDA_ERROR_INVALID_VALUE);
static_assert(ours::kNotSupported == +CUDA_ERROR_NOT_SUPPORTED);
static_assert(ours::kNoBinary == +CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(ours::kLaunchFailed == +CUDA_ERROR_LAUNCH_FAILED);
static_assert(ours::kCaptureIsolation == +CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
static_assert(ours::kInvalidConfiguration == +cudaErrorInvalidConfiguration);
static_assert(ours::kInvalidDeviceFunction == +cudaErrorInvalidDeviceFunction);
static_assert(ours::kIllegalAddress == +cudaErrorIllegalAddress);

TEST(Header, ErrorsAreTheToolkits) {
#define ERROR(number, driver, runtime, text) EXPECT_EQ(number, +runtime) << #runtime;
#include "shim/errors.def"
#undef ERROR
}
