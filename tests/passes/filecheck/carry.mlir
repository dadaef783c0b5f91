// PASSES: assign-slots,probe-to-record
// A block that two lead to takes the cursor as an argument; one that a single block leads to does not. The
// condition's operands keep their places, and each return flushes what came before it.
func.func @goto(%c: i1, %x: i32) {
  // CHECK: %[[P:.*]] = record.push %{{.*}}, %block, 0 at %cursor
  // CHECK: cf.br ^[[A:.*]](%x, %[[P]] : i32, i64)
  probe.mark 0
  cf.br ^a(%x : i32)
^a(%y: i32):
  // CHECK: ^[[A]](%y: i32, %[[Q:.*]]: i64):
  // CHECK: %[[R:.*]] = record.push %{{.*}}, %block, 1 at %[[Q]]
  // CHECK: cf.cond_br %c, ^[[A]](%y, %[[R]] : i32, i64), ^[[B:.*]](%y : i32)
  probe.mark 1
  cf.cond_br %c, ^a(%y : i32), ^b(%y : i32)
^b(%z: i32):
  // CHECK: ^[[B]](%z: i32):
  // CHECK: record.flush %block at %[[R]]
  func.return
}
// -----
// PASSES: assign-slots,probe-to-record
// Through a loop and a branch; what holds no record stays as it is.
func.func @nest(%c: i1, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  cf.br ^a
^a:
  // CHECK:      ^{{.*}}(%[[A:.*]]: i64, %[[R:.*]]: i64, %[[S:.*]]: i64):
  // CHECK:      %[[R2:.*]], %[[S2:.*]] = record.ran %block, 0 at %[[R]], %[[S]] with
  // CHECK:      %[[F:.*]] = scf.for %i = %c0 to %n step %c1 iter_args(%[[B:.*]] = %[[A]]) -> (i64) : i32 {
  // CHECK:        %[[K:.*]] = record.index
  // CHECK:        %[[I:.*]] = scf.if %c -> (i64) {
  // CHECK:          %[[P:.*]] = record.push %{{.*}}, %block, 0 at %[[B]] in %[[K]]
  // CHECK-NEXT:     scf.yield %[[P]] : i64
  // CHECK-NEXT:   } else {
  // CHECK-NEXT:     scf.yield %[[B]] : i64
  // CHECK-NEXT:   }
  // CHECK-NEXT:   scf.if %c {
  // CHECK-NEXT:     "my.stage"
  // CHECK-NEXT:   }
  // CHECK-NEXT:   scf.yield %[[I]] : i64
  scf.for %i = %c0 to %n step %c1 : i32 {
    scf.if %c {
      probe.mark 0
      scf.yield
    }
    scf.if %c {
      "my.stage"() : () -> ()
      scf.yield
    }
    scf.yield
  }
  // CHECK:      %[[X:.*]], %[[E:.*]] = scf.if %c -> (i32, i64) {
  // CHECK-NEXT:   scf.yield %c0, %[[F]] : i32, i64
  // CHECK-NEXT: } else {
  // CHECK:        %[[P2:.*]] = record.push %{{.*}}, %block, 1 at %[[F]]
  // CHECK-NEXT:   scf.yield %c1, %[[P2]] : i32, i64
  // CHECK-NEXT: }
  // CHECK-NEXT: cf.cond_br %c, ^{{.*}}(%[[E]], %[[R2]], %[[S2]] : i64, i64, i64), ^{{.*}}
  %x = scf.if %c -> (i32) {
    scf.yield %c0 : i32
  } else {
    probe.mark 1
    scf.yield %c1 : i32
  }
  cf.cond_br %c, ^a, ^b
^b:
  // CHECK:      record.total %block, 0 at 8, %[[R2]], %[[S2]]
  // CHECK-NEXT: record.flush %block at %[[E]]
  func.return
}
// -----
// PASSES: assign-slots,probe-to-record
// ERROR: there are records in my.region, and nothing is known of how it runs
func.func @k(%c: i1) {
  cf.br ^a
^a:
  "my.region"() ({
    probe.mark 0
    "my.end"() : () -> ()
  }) : () -> ()
  cf.cond_br %c, ^a, ^b
^b:
  func.return
}
