// Which values share one layout, and how classes of them hang together: what the plan of layouts
// (plan.h) is decided on.
//
// Elementwise ops, casts and carried values tie operands and results into one class (union-find);
// reductions, broadcasts and transposes relate classes. Classes that are permutations of one
// another are a family: where nothing else decides, it is laid out for all that its tiles are in
// memory, on whichever side of a transpose.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/function.h"

namespace tilec::ir {

// How a class hangs on another.
struct Relation {
  ValueId child;
  ValueId parent;
  std::vector<int> keep;  // child dim i is parent dim keep[i]
  int64_t width = 0;      // > 0: so many of the parent's columns, in its own registers
};

struct LayoutFamily {
  struct Rows {  // some tensor's rows lie along this dim
    int dim = 0;
    int64_t bytes = 1;  // of an element, the least
    int64_t limit = 1;  // elements that may go at once (AccessLimit), the least
  };
  std::map<ValueId, std::vector<int>> classes;  // dim i is the first one's dim dims[i]
  std::vector<int64_t> shape;                   // of the first one
  std::vector<Rows> rows;                       // loads' before stores'
  int64_t widest = 1;                           // bytes of an element
  bool turned = false;                          // rows lie along other dims than its last

  int64_t elements() const;
  // Do rows lie along two dims, in which blocks of a thread would not even fill sectors? Each class
  // is laid out for itself then, and tiles go through shared memory in between.
  bool Apart() const;
  // Where rows lie along two dims: elements that a thread has along each. 16 bytes, if there are
  // elements enough for all threads, and a thread need not hold too many.
  std::pair<int64_t, int64_t> Vectors(int64_t threads) const;
  Layout Decide(int64_t threads) const;  // of the first class
};

class LayoutClasses {
 public:
  explicit LayoutClasses(const Function& fn);

  // `in_registers`: must the tile exist there?
  void Relate(const Op& op, const std::function<bool(ValueId)>& in_registers);
  bool IsTile(ValueId v) const;
  ValueId Find(ValueId v);
  const std::vector<Relation>& relations() const { return relations_; }
  // What a left operand in registers is made of under another shape lies as it does, so that no
  // thread has to give anything away. `operands`: classes that lie as a product wants them; those
  // that follow join them.
  void FollowReshapes(const std::vector<OpId>& order, std::map<ValueId, Layout>* decided,
                      std::set<ValueId>* operands);
  // `order`: all ops.
  LayoutFamily FamilyOf(ValueId root, const std::vector<OpId>& order);

 private:
  void Unite(ValueId a, ValueId b);
  void RelateGather(const Op& op, ValueId tile, size_t first);
  void AddRelation(Relation r);
  void NoteRows(const Op& op, bool store, LayoutFamily& family);
  const Op& YieldOf(BlockId block) const { return fn_.ops[fn_.blocks[block].ops.back()]; }

  const Function& fn_;
  IdVector<ValueId, ValueId> parent_;  // its own: it names a class
  std::vector<Relation> relations_;
};

}  // namespace tilec::ir
