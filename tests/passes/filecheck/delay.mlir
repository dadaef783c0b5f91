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
// -----
// PASSES: select,instrument,delay{region="async copy" ticks=40}
// What is asynchronous is delayed where it is issued, and waits are as they were.
func.func @pipelined() {
  // CHECK:      func.func @pipelined
  // CHECK-NEXT: record.delay 40
  // CHECK-NEXT: "ttg.async_copy_global_to_local"
  // CHECK-NEXT: "ttg.async_commit_group"
  // CHECK-NEXT: "ttg.async_wait"
  // CHECK-NEXT: func.return
  %a = "ttg.async_copy_global_to_local"() {lines = "a.py:4"} : () -> i32
  %g = "ttg.async_commit_group"(%a) : (i32) -> i32
  %w = "ttg.async_wait"(%g) : (i32) -> i32
  func.return
}
// -----
// PASSES: select,instrument,delay{region="load" ticks=-1}
// ERROR: a delay is 0 ticks or more, not -1
func.func @k() {
  func.return
}
