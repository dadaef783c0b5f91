// PASSES: sample{capacity=16},assign-slots,probe-to-record
func.func @k(%n: i32, %v: f32) {
  // CHECK:      probe.region 1 "iteration"
  // CHECK-NEXT: %block = record.open program global exact 64 bits 80 words layout
  // CHECK-NEXT: %[[S0:.*]] = record.slot %block, 0 at 8
  // CHECK-NEXT: %[[T0:.*]] = record.clock 64
  // CHECK-NEXT: record.store %[[T0]], %[[S0]]
  // CHECK-NOT:  probe
  probe.region 0 "k" kind "kernel"
  probe.region 1 "iteration" kind "iteration" in 0
  probe.start 0
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // CHECK:      %[[N:.*]] = record.trip %block, 0 at 9 from %c0 to %n step %c1 : i32
  // CHECK-NEXT: scf.for
  // CHECK-NEXT: %k = record.index %block, 0 of 16, %i from %c0 step %c1 count %[[N]] dynamic : i32
  // CHECK-NEXT: record.slot %block, 1 at 10 [%k * 4]
  scf.for %i = %c0 to %n step %c1 : i32 {
    probe.start 1
    "my.stage"() : () -> ()
    // CHECK:    %[[S:.*]] = record.slot %block, 3 at 12 [%k * 4]
    // CHECK-NEXT: %[[T:.*]] = record.clock 64
    // CHECK-NEXT: record.store %[[T]], %[[S]] payload %v : f32
    probe.stop 1
    probe.value 0, %v : f32
  }
  // CHECK:      record.slot %block, 4 at 74
  // CHECK:      record.flush %block
  // CHECK-NEXT: func.return
  probe.stop 0
  func.return
}
// -----
// PASSES: assign-slots,probe-to-record{copies=2}
// The dose: each record is written twice, in the same place.
// CHECK:      %[[S:.*]] = record.slot
// CHECK-NEXT: %[[A:.*]] = record.clock 64
// CHECK-NEXT: record.store %[[A]], %[[S]]
// CHECK-NEXT: %[[B:.*]] = record.clock 64
// CHECK-NEXT: record.store %[[B]], %[[S]]
func.func @k() {
  probe.mark 0
  func.return
}
// -----
// PASSES: assign-slots{clock_bits=32 buffer=shared strategy=flush granularity=warp},probe-to-record
// What records are is said once, and travels in the layout.
// CHECK: record.open warp shared flush 32 bits 16 words layout {{.*}}warp{{.*}}shared{{.*}}flush
// CHECK: record.clock 32
func.func @k() {
  probe.mark 0
  func.return
}
// -----
// PASSES: assign-slots{cursor_capacity=8},probe-to-record
// While loops go through the cursor; it and the number of the iteration are carried. How many iterations there were, and
// in how many runs, is stored at the end.
func.func @k(%n: i32, %c: i1) {
  // CHECK:      \22trip_base\22:8,\22cursor\22:true,\22endless\22:true
  // CHECK:      %cursor = record.cursor %block
  // CHECK-NEXT: %ran = record.enter %block, 0
  // CHECK-NEXT: %runs = record.enter %block, 0
  // CHECK-NEXT: %[[I:.*]] = record.enter %block, 0
  // CHECK-NEXT: %{{.*}}, %[[NUMBER:.*]], %[[OUT:.*]] = scf.while (%a = %n, %[[J:.*]] = %[[I]], %[[D:.*]] = %cursor) : (i32, i64, i64) -> (i32, i64, i64) {
  // CHECK-NEXT:   scf.condition(%c) %a, %[[J]], %[[D]] : i32, i64, i64
  %w = scf.while (%a = %n) : (i32) -> (i32) {
    scf.condition(%c) %a : i32
  } do {
  ^bb0(%a: i32):
    // CHECK:      ^bb{{.*}}(%[[A1:.*]]: i32, %[[J1:.*]]: i64, %[[D1:.*]]: i64):
    // CHECK-NEXT: %k, %[[J2:.*]] = record.next %block, 0 at %[[J1]]
    // CHECK-NEXT: %[[A:.*]] = record.clock 64
    // CHECK-NEXT: %[[D2:.*]] = record.push %[[A]], %block, 0 at %[[D1]] in %k
    // CHECK-NEXT: "my.stage"
    // CHECK-NEXT: %[[B:.*]] = record.clock 64
    // CHECK-NEXT: %[[D3:.*]] = record.push %[[B]], %block, 1 at %[[D2]] in %k
    // CHECK-NEXT: scf.yield %[[A1]], %[[J2]], %[[D3]] : i32, i64, i64
    probe.start 0
    "my.stage"() : () -> ()
    probe.stop 0
    scf.yield %a : i32
  }
  // CHECK:      %[[ALL:.*]], %[[RUNS:.*]] = record.ran %block, 0 at %ran, %runs with %[[NUMBER]]
  // CHECK-NEXT: record.total %block, 0 at 8, %[[ALL]], %[[RUNS]]
  // CHECK-NEXT: record.flush %block at %[[OUT]]
  func.return
}
// -----
// PASSES: assign-slots{cursor_capacity=8},probe-to-record
// A counted loop in a while loop: what it ran before is carried through the loop around it, and its trip count is added.
func.func @k(%n: i32, %c: i1, %one: i32) {
  %w = scf.while (%a = %n) : (i32) -> (i32) {
    scf.condition(%c) %a : i32
  } do {
  ^bb0(%a: i32):
    // CHECK:      ^bb{{.*}}(%{{.*}}: i32, %{{.*}}: i64, %{{.*}}: i64, %[[R:.*]]: i64, %[[S:.*]]: i64):
    // CHECK:      %[[T:.*]] = record.trip %block, 1 from %one to %n step %one : i32
    // CHECK-NEXT: %[[R2:.*]], %[[S2:.*]] = record.ran %block, 1 at %[[R]], %[[S]] with %[[T]]
    // CHECK-NEXT: scf.for
    scf.for %i = %one to %n step %one : i32 {
      probe.mark 0
      scf.yield
    }
    // CHECK:      scf.yield %{{.*}}, %{{.*}}, %{{.*}}, %[[R2]], %[[S2]] : i32, i64, i64, i64, i64
    scf.yield %a : i32
  }
  // CHECK-DAG:  record.total %block, 0 at 8, %ran
  // CHECK-DAG:  record.total %block, 1 at 10, %ran
  func.return
}
// -----
// PASSES: assign-slots,probe-to-record
// Early return: each block runs at most once, so places stay fixed.
// CHECK:     record.slot %block, 0 at 8
// CHECK:     record.slot %block, 1 at 9
// CHECK:     record.flush
// CHECK:     record.slot %block, 2 at 10
// CHECK-NOT: record.push
func.func @early(%c: i1) {
  probe.start 0
  cf.cond_br %c, ^a, ^b
^a:
  probe.stop 0
  func.return
^b:
  probe.stop 0
  func.return
}
// -----
// PASSES: assign-slots,probe-to-record
// Blocks need not be printed in the order in which they run.
// CHECK: record.slot %block, 1 at 9
// CHECK: record.slot %block, 0 at 8
func.func @backwards() {
  cf.br ^b
^a:
  probe.stop 0
  func.return
^b:
  probe.start 0
  cf.br ^a
}
// -----
// PASSES: assign-slots,probe-to-record
// A cycle of blocks: everything goes through the cursor, the stops on both paths under one tag.
// CHECK-NOT: record.slot
// CHECK:     record.push %{{.*}}, %block, 0
// CHECK:     record.push %{{.*}}, %block, 1
// CHECK:     record.push %{{.*}}, %block, 2
func.func @goto(%c: i1) {
  probe.start 0
  cf.br ^a
^a:
  probe.mark 1
  cf.cond_br %c, ^a, ^b
^b:
  probe.stop 0
  func.return
}
