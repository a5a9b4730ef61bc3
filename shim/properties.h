// cudaDeviceProp of CUDA 13: the layout is part of the interface that programs were built against,
// so the members have their public names.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "shim/api.h"

namespace tilec::shim {

struct DeviceProperties {
  char name[256];
  Uuid uuid;
  char luid[8];
  unsigned int luidDeviceNodeMask;
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  int regsPerBlock;
  int warpSize;
  size_t memPitch;
  int maxThreadsPerBlock;
  int maxThreadsDim[3];
  int maxGridSize[3];
  size_t totalConstMem;
  int major;
  int minor;
  size_t textureAlignment;
  size_t texturePitchAlignment;
  int multiProcessorCount;
  int integrated;
  int canMapHostMemory;
  int maxTexture1D;
  int maxTexture1DMipmap;
  int maxTexture2D[2];
  int maxTexture2DMipmap[2];
  int maxTexture2DLinear[3];
  int maxTexture2DGather[2];
  int maxTexture3D[3];
  int maxTexture3DAlt[3];
  int maxTextureCubemap;
  int maxTexture1DLayered[2];
  int maxTexture2DLayered[3];
  int maxTextureCubemapLayered[2];
  int maxSurface1D;
  int maxSurface2D[2];
  int maxSurface3D[3];
  int maxSurface1DLayered[2];
  int maxSurface2DLayered[3];
  int maxSurfaceCubemap;
  int maxSurfaceCubemapLayered[2];
  size_t surfaceAlignment;
  int concurrentKernels;
  int ECCEnabled;
  int pciBusID;
  int pciDeviceID;
  int pciDomainID;
  int tccDriver;
  int asyncEngineCount;
  int unifiedAddressing;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int maxThreadsPerMultiProcessor;
  int streamPrioritiesSupported;
  int globalL1CacheSupported;
  int localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor;
  int managedMemory;
  int isMultiGpuBoard;
  int multiGpuBoardGroupID;
  int hostNativeAtomicSupported;
  int pageableMemoryAccess;
  int concurrentManagedAccess;
  int computePreemptionSupported;
  int canUseHostPointerForRegisteredMem;
  int cooperativeLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables;
  int directManagedMemAccessFromHost;
  int maxBlocksPerMultiProcessor;
  int accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported;
  int sparseCudaArraySupported;
  int hostRegisterReadOnlySupported;
  int timelineSemaphoreInteropSupported;
  int memoryPoolsSupported;
  int gpuDirectRDMASupported;
  unsigned int gpuDirectRDMAFlushWritesOptions;
  int gpuDirectRDMAWritesOrdering;
  unsigned int memoryPoolSupportedHandleTypes;
  int deferredMappingCudaArraySupported;
  int ipcEventSupported;
  int clusterLaunch;
  int unifiedFunctionPointers;
  int deviceNumaConfig;
  int deviceNumaId;
  int mpsEnabled;
  int hostNumaId;
  unsigned int gpuPciDeviceID;
  unsigned int gpuPciSubsystemID;
  int hostNumaMultinodeIpcSupported;
  int reserved[56];
};

inline DeviceProperties PropertiesOf(const Process& process) {
  const runtime::MachineLimits& m = process.machine();
  auto of = [&](int attribute) {
    int value = 0;
    DeviceAttribute(process, attribute, &value);
    return value;
  };
  auto bytes = [&](int attribute) { return static_cast<size_t>(of(attribute)); };
  DeviceProperties p;
  memset(&p, 0, sizeof p);
  snprintf(p.name, sizeof p.name, "%s, emulated by tilec check", m.name.c_str());
  p.totalGlobalMem = process.memory_bytes();
  p.sharedMemPerBlock = bytes(8);
  p.regsPerBlock = of(12);
  p.warpSize = of(10);
  p.memPitch = bytes(11);
  p.maxThreadsPerBlock = of(1);
  for (int k = 0; k < 3; ++k) {
    p.maxThreadsDim[k] = of(2 + k);
    p.maxGridSize[k] = of(5 + k);
  }
  p.totalConstMem = bytes(9);
  p.major = of(75);
  p.minor = of(76);
  p.textureAlignment = bytes(14);
  p.texturePitchAlignment = bytes(51);
  p.multiProcessorCount = of(16);
  p.canMapHostMemory = of(19);
  p.concurrentKernels = of(31);
  p.pciBusID = of(33);
  p.asyncEngineCount = of(40);
  p.unifiedAddressing = of(41);
  p.memoryBusWidth = of(37);
  p.l2CacheSize = of(38);
  p.maxThreadsPerMultiProcessor = of(39);
  p.streamPrioritiesSupported = of(78);
  p.globalL1CacheSupported = of(79);
  p.localL1CacheSupported = of(80);
  p.sharedMemPerMultiprocessor = bytes(81);
  p.regsPerMultiprocessor = of(82);
  p.managedMemory = of(83);
  p.concurrentManagedAccess = of(89);
  p.computePreemptionSupported = of(90);
  p.cooperativeLaunch = of(95);
  p.sharedMemPerBlockOptin = bytes(97);
  p.maxBlocksPerMultiProcessor = of(106);
  p.reservedSharedMemPerBlock = bytes(111);
  p.memoryPoolsSupported = of(115);
  p.clusterLaunch = of(120);
  return p;
}

}  // namespace tilec::shim
