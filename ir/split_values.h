// Functions in which every value of one kind becomes several, and every op on such values one op
// for each part: rows that are cut into slices (ir/slice_rows.cc), batches that become products of
// their own (ir/split_batches.cc). What is common to both: lists of values, blocks, loops and
// branches. Which values are cut, and what an op of one part is, the two say.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

class ValueSplitter {
 public:
  virtual ~ValueSplitter() = default;
  void Run() { SplitBlock(fn_.body); }

 protected:
  ValueSplitter(Function& fn, int64_t count) : fn_(fn), count_(count) {}

  // Does the value become parts of this type?
  virtual bool Cut(ValueId v) const = 0;
  virtual Type PartType(ValueId v) const = 0;
  // Does an op that has it among its operands or results become several?
  virtual bool Touched(ValueId v) const { return Cut(v); }
  // The op of part n, given what it reads and makes there; its results.
  virtual std::vector<ValueId> MakePart(Builder& b, const Op& op, int64_t n,
                                        std::vector<ValueId> operands, std::vector<Type> types) = 0;
  // … where it is the same op with these attributes.
  std::vector<ValueId> AddPart(Builder& b, const Op& op, std::vector<ValueId> operands,
                               std::vector<Type> types, Attrs attrs);

  Function& fn_;
  const int64_t count_;
  std::map<ValueId, std::vector<ValueId>> parts_;  // of values that were met

 private:
  ValueId Part(ValueId v, int64_t n) const;
  std::vector<ValueId> Spread(const std::vector<ValueId>& values) const;
  void Split(ValueId v, OpId def, BlockId block);
  void SplitBlock(BlockId block);
  void SplitStructure(OpId id, BlockId block);
  void SplitOp(OpId id, BlockId block);
};

}  // namespace tilec::ir
