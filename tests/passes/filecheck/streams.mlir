// PASSES: select{kernel=false loops=false iterations=false},instrument,assign-slots{granularity=warp cursor_capacity=4},probe-to-record
// Regions that run side by side: each has a block, loops and a cursor of its own, and warps have each theirs.
// What a producer issues and a consumer awaits is one span. The region without a name runs in order.
func.func @k(%n: i32, %one: i32, %c: i1) attributes {warps = 4 : i64} {
  // CHECK: %block = record.open warp global exact 64 bits 16 words layout
  // CHECK-SAME: \22streams\22:[{\22id\22:0,\22instances\22:4,\22words\22:16,\22cursor_base\22:10},{\22id\22:1,\22name\22:\22load\22,\22base\22:64,
  // CHECK-SAME: {\22id\22:2,\22name\22:\22mma\22,\22instances\22:4
  // CHECK: "my.partitions"
  "my.partitions"(%n, %one, %c) ({
    // CHECK-NEXT: record.slot %block, 0 at 8
    "my.stage"() {kinds = "none"} : () -> ()
    // CHECK: "my.end"
    "my.end"() : () -> ()
  }, {
  ^bb0(%m: i32, %s: i32, %d: i1):
    // CHECK:      %[[B:.*]] = record.open warp global exact 64 bits {{.*}} words stream 1
    // CHECK-NEXT: record.trip %[[B]], 0 at 8
    // CHECK:      record.slot %[[B]], {{.*}} at 9 [
    scf.for %i = %s to %m step %s : i32 {
      "my.copy"() {issues = "A", lines = "a.py:2"} : () -> ()
    }
    // CHECK:      record.flush %[[B]]
    // CHECK-NEXT: "my.end"
    "my.end"() : () -> ()
  }, {
  ^bb0(%m: i32, %s: i32, %d: i1):
    // CHECK:      %[[C:.*]] = record.open warp global exact 64 bits {{.*}} words stream 2
    // CHECK-NEXT: %[[D:.*]] = record.cursor %[[C]]
    scf.for %i = %s to %m step %s : i32 {
      "my.wait"() {waits = "A"} : () -> ()
    }
    // CHECK: scf.while ({{.*}} = %[[D]])
    %w = scf.while (%a = %m) : (i32) -> (i32) {
      scf.condition(%d) %a : i32
    } do {
    ^bb0(%a: i32):
      "my.stage"() {kinds = "dot"} : () -> ()
      scf.yield %a : i32
    }
    // CHECK:      record.flush %[[C]] at
    // CHECK-NEXT: "my.end"
    "my.end"() : () -> ()
  }) {streams = ",load:1,mma:4"} : (i32, i32, i1) -> ()
  // CHECK: record.flush %block
  // CHECK-NOT: record.
  func.return
}
// -----
// PASSES: select,instrument,assign-slots,probe-to-record
// What is started in a loop counts its starts where a trip count stands, and they are iterations.
func.func @k(%n: i32, %one: i32) {
  // CHECK:      "my.partitions"() ({
  // CHECK-NEXT:   %[[B:.*]] = record.open {{.*}} stream 1
  // CHECK-NEXT:   %[[K:.*]] = record.again %[[B]], 1 at 8
  // CHECK-NEXT:   record.slot %[[B]], {{[0-9]+}} at 9 {{\[}}%[[K]] * 2]
  scf.for %i = %one to %n step %one : i32 {
    "my.partitions"() ({
      "my.stage"() {kinds = "load"} : () -> ()
      "my.end"() : () -> ()
    }) {streams = "load:1"} : () -> ()
  }
  func.return
}
// -----
// PASSES: assign-slots{granularity=thread}
// ERROR: records have no granularity 'thread'
func.func @k() {
  probe.mark 0
  func.return
}
// -----
// PASSES: assign-slots{cursor_capacity=8},probe-to-record
// Of a warp-specialised kernel the first region runs in order with the code around it, and the cursor passes
// through it; the partitions have blocks of their own.
func.func @k(%n: i32, %c: i1) {
  // CHECK:      %[[W:.*]], %[[R:.*]], %[[S:.*]] = "ttg.warp_specialize"()
  // CHECK:        %{{.*}}, %[[N:.*]], %[[A:.*]] = scf.while ({{.*}} = %cursor)
  // CHECK:        %[[R1:.*]], %[[S1:.*]] = record.ran %block, 0 at %ran, %runs with %[[N]]
  // CHECK:        "ttg.warp_yield"(%[[A]], %[[R1]], %[[S1]]) : (i64, i64, i64) -> ()
  // CHECK:        %[[B:.*]] = record.open program global exact 64 bits 16 words stream 1
  // CHECK-NEXT:   record.slot %[[B]], 1 at 8
  // CHECK:        record.flush %[[B]]
  // CHECK-NEXT:   "ttg.warp_return"
  // CHECK:      record.total %block, 0 at {{[0-9]+}}, %[[R]], %[[S]]
  // CHECK-NEXT: record.flush %block at %[[W]]
  "ttg.warp_specialize"() <{partitionNumWarps = array<i32: 4>}> ({
    %w = scf.while (%a = %n) : (i32) -> (i32) {
      scf.condition(%c) %a : i32
    } do {
    ^bb0(%a: i32):
      probe.mark 0
      scf.yield %a : i32
    }
    "ttg.warp_yield"() : () -> ()
  }, {
    "ttg.warp_specialize.partitions"() ({
      probe.mark 1
      "ttg.warp_return"() : () -> ()
    }) : () -> ()
  }) : () -> ()
  func.return
}
