// PASSES: merge-probes
func.func @k(%i: i32) {
  // CHECK:      probe.start 0
  // CHECK-NEXT: probe.start 1
  // CHECK-NEXT: arith.addi
  // CHECK-NEXT: "my.stage"
  // CHECK-NEXT: probe.stop 1
  // CHECK-NEXT: probe.start 2
  // CHECK-NEXT: arith.addi
  // CHECK-NEXT: "my.stage"
  // CHECK-NEXT: probe.stop 2
  // CHECK-NEXT: "my.other"
  // CHECK-NEXT: probe.stop 0
  probe.start 0
  %x = arith.addi %i, %i : i32
  probe.start 1
  "my.stage"() : () -> ()
  probe.stop 1
  %y = arith.addi %i, %i : i32
  probe.start 2
  "my.stage"() : () -> ()
  probe.stop 2
  "my.other"() : () -> ()
  probe.stop 0
  func.return
}
