// SPDX-License-Identifier: MIT
// Lanes that part and meet again, by masks alone.
#include "kernel/divergence.hpp"

#include "support/catch.hpp"

using bitmma::kernel::all_lanes;
using bitmma::kernel::Divergence;
using bitmma::kernel::Mask;
using Next = Divergence::Next;
using Gathered = Divergence::Gathered;

namespace {

Divergence whole_warp() {
  Divergence lanes;
  lanes.active = lanes.live = all_lanes;
  return lanes;
}

}  // namespace

TEST_CASE("lanes of a branch go both ways one after the other, and meet again") {
  Divergence lanes = whole_warp();
  lanes.pc = 3;
  lanes.branch(0xF, 10, 20);  // step 3: four lanes jump to 10, all meet at 20
  CHECK(lanes.pc == 4);
  CHECK(lanes.active == ~Mask{0xF});
  CHECK(lanes.reconverge == 20);
  CHECK(lanes.next() == Next::runs);  // at 20
  CHECK(lanes.pc == 10);
  CHECK(lanes.active == 0xF);
  CHECK(lanes.next() == Next::runs);
  CHECK(lanes.pc == 20);
  CHECK(lanes.active == all_lanes);
  CHECK(lanes.reconverge == -1);
}

TEST_CASE("a branch that all lanes or none take parts nobody") {
  Divergence lanes = whole_warp();
  lanes.pc = 3;
  lanes.branch(0, 10, 20);
  CHECK(lanes.pc == 4);
  lanes.branch(all_lanes, 10, 20);
  CHECK(lanes.pc == 10);
  CHECK(lanes.active == all_lanes);
  CHECK(lanes.reconverge == -1);
}

TEST_CASE("lanes that end in a branch are missed by nobody") {
  Divergence lanes = whole_warp();
  lanes.branch(0xFF, 10, 20);
  lanes.live &= ~lanes.active;  // the lanes that stayed return
  CHECK(lanes.next() == Next::runs);
  CHECK(lanes.active == 0xFF);
  CHECK(lanes.next() == Next::runs);
  CHECK(lanes.pc == 20);
  CHECK(lanes.active == 0xFF);
  lanes.live = 0;
  CHECK(lanes.next() == Next::ended);
}

TEST_CASE("lanes wait at an instruction that all must reach, and run it together") {
  Divergence lanes = whole_warp();
  lanes.branch(0xFF, 5, 5);  // the others skip nothing: they run 1 to 4, and all meet at 5
  CHECK(lanes.pc == 1);
  CHECK(lanes.active == ~Mask{0xFF});
  lanes.pc = 2;
  CHECK(lanes.gather(~Mask{0xFF}, all_lanes) == Gathered::waits);
  CHECK(lanes.parked() == ~Mask{0xFF});
  CHECK(lanes.next() == Next::runs);
  CHECK(lanes.active == 0xFF);
  lanes.pc = 2;
  CHECK(lanes.gather(0xFF, all_lanes) == Gathered::all);
  CHECK(lanes.active == all_lanes);
  CHECK(lanes.parked() == 0);
}

TEST_CASE("lanes that wait for each other at different instructions are blocked, a guard for some of them is refused") {
  Divergence lanes = whole_warp();
  lanes.branch(0xFF, 10, 20);
  CHECK(lanes.gather(lanes.active, all_lanes) == Gathered::waits);
  CHECK(lanes.next() == Next::runs);
  CHECK(lanes.gather(0xF, all_lanes) == Gathered::in_part);
  CHECK(lanes.gather(0xFF, all_lanes) == Gathered::waits);
  CHECK(lanes.next() == Next::blocked);
  CHECK(lanes.pc == 1);  // of the lanes that waited first
}
