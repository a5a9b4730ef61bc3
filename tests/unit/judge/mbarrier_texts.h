// Lines of PTX that tests of the judge share: an mbarrier of one arrival, and the wait for a phase
// of it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define INIT " @%l0 mbarrier.init.shared.b64 [bar], 1;\n bar.sync 0;\n"
#define WAIT(parity)                                                                          \
  " {\n .reg .pred done;\n again:\n mbarrier.try_wait.parity.shared.b64 done, [bar], " parity \
  ";\n @!done bra again;\n }\n"
