// PASSES: select{kinds=load loops=true iterations=false},instrument,fence-probes,merge-probes
// Nothing in front of a clock is under way behind it: one fence for each row of probes.
func.func @k(%n: i32, %one: i32) {
  // CHECK:      record.fence
  // CHECK-NEXT: probe.start 0
  // CHECK-NEXT: probe.start 1
  // CHECK-NEXT: scf.for
  scf.for %i = %one to %n step %one : i32 {
    // CHECK-NEXT: record.fence
    // CHECK-NEXT: probe.start 2
    // CHECK-NEXT: "my.stage"
    "my.stage"() {kinds = "load", lines = "a.py:3"} : () -> ()
    // CHECK-NEXT: record.fence
    // CHECK-NEXT: probe.stop 2
    // CHECK-NEXT: "my.stage"
    "my.stage"() {kinds = "dot", lines = "a.py:4"} : () -> ()
  }
  // CHECK:     record.fence
  // CHECK-NEXT: probe.stop 1
  // CHECK-NOT: record.fence
  func.return
}
