// DLPack 1.3, as far as it is used: a tensor, and the table by which a class of arrays shows its
// tensors to C. The tests' stand-in for torch answers by it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct {
  uint32_t major, minor;
  void* previous;
  void *allocate, *from_object, *to_object;
  int (*tensor_of)(void* object, DLTensor* out);  // may be NULL
  int (*current_stream)(int32_t device_type, int32_t device, void** out);
} Exchange;
