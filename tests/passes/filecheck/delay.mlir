// PASSES: select{kinds=load loops=true iterations=false},instrument,delay{region="load @ 3" ticks=40}
// Each execution of the region begins later; nothing else is left of the probes.
func.func @k(%n: i32, %one: i32) {
  // CHECK:      func.func @k
  // CHECK-NEXT: scf.for
  scf.for %i = %one to %n step %one : i32 {
    // CHECK-NEXT: record.delay 40
    // CHECK-NEXT: "my.stage"() {kinds = "load", lines = "a.py:3"}
    "my.stage"() {kinds = "load", lines = "a.py:3"} : () -> ()
    // CHECK-NEXT: "my.stage"() {kinds = "load", lines = "a.py:4"}
    "my.stage"() {kinds = "load", lines = "a.py:4"} : () -> ()
  }
  // CHECK:     func.return
  // CHECK-NOT: record
  // CHECK-NOT: probe
  func.return
}
