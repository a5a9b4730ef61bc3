// weave ROOT FILE OUT: writes FILE of the tree with its faults woven in.
//
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/faults/weave.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::ifstream in(std::string(argv[1]) + "/" + argv[2]);
  const std::string source((std::istreambuf_iterator<char>(in)), {});
  std::vector<std::string> lost;  // the test says so
  std::ofstream(argv[3]) << tilec::faults::Weave(argv[2], source, &lost);
  for (const std::string& name : lost)
    std::cerr << argv[2] << ": row `" << name << "` of tests/faults/faults.def fits nothing\n";
  return source.empty() ? 1 : 0;
}
