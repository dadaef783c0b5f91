// PASSES: sample{capacity=16},assign-slots
func.func @k(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  // CHECK: probe.start 0 {record.slot = #builtin.int<0>}
  // CHECK: probe.start 1 {record.slot = #builtin.int<0>}
  probe.start 0
  probe.start 1
  // CHECK: scf.for
  scf.for %i = %c0 to %n step %c1 : i32 {
    // CHECK: probe.start 2 {record.slot = #builtin.int<1>}
    probe.start 2
    "my.stage"() : () -> ()
    // CHECK: probe.stop 2 {record.slot = #builtin.int<2>}
    // CHECK: probe.mark 3 {record.slot = #builtin.int<2>}
    probe.stop 2
    probe.mark 3
    // CHECK: probe.value 4, %i : i32 {record.slot = #builtin.int<3>}
    probe.value 4, %i : i32
    scf.for %j = %c0 to %c4 step %c1 : i32 {
      probe.mark 5
    // CHECK: } {record.capacity = #builtin.int<4>, record.dynamic, record.loop = #builtin.int<1>}
    }
  // CHECK: } {record.capacity = #builtin.int<16>, record.dynamic, record.loop = #builtin.int<0>}
  }
  // CHECK: probe.stop 1 {record.slot = #builtin.int<5>}
  // CHECK: probe.stop 0 {record.slot = #builtin.int<5>}
  probe.stop 1
  probe.stop 0
  func.return
}
// -----
// PASSES: assign-slots{max_words=8}
// ERROR: one program's records need 16 words and may take 8
func.func @k() {
  probe.mark 0
  func.return
}
// -----
// PASSES: assign-slots,probe-to-record
// What never runs is not recorded.
// CHECK: ^a:
// CHECK-NEXT: record.flush
// CHECK-NEXT: func.return
func.func @k() {
  probe.mark 0
  func.return
^a:
  probe.mark 1
  func.return
}
// -----
// PASSES: assign-slots
// ERROR: probe.mark of region 1 stands where nothing can be recorded
func.func @k(%n: i32, %c: i1) {
  %w = scf.while (%a = %n) : (i32) -> (i32) {
    probe.mark 1
    scf.condition(%c) %a : i32
  } do {
  ^bb0(%a: i32):
    scf.yield %a : i32
  }
  func.return
}
