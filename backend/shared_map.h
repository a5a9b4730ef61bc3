// Fills KernelImage::roles and KernelImage::shared.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/kernel_image.h"
#include "ir/function.h"

namespace tilec::backend {

void DescribeProgram(const ir::Function& fn, KernelImage* image);

}  // namespace tilec::backend
