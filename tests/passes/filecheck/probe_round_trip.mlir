// PASSES:
func.func @k(%lb: i32, %ub: i32, %one: i32, %v: f32) {
  // CHECK: probe.region 0 "k" kind "kernel" at "a.py":1:9
  probe.region 0 "k" kind "kernel" at "a.py":1:9
  // CHECK-NEXT: probe.region 1 "copy" kind "async" in 0 at "a.py":3:4 estimate
  probe.region 1 "copy" kind "async" in 0 at "a.py":3:4 estimate
  // CHECK-NEXT: probe.start 0
  probe.start 0
  scf.for %i = %lb to %ub step %one : i32 {
    // CHECK: probe.issue 1 ahead 2
    // CHECK-NEXT: probe.wait 1
    // CHECK-NEXT: probe.done 1
    // CHECK-NEXT: probe.value 1, %v : f32
    // CHECK-NEXT: probe.mark 1 ahead -1 peeled 1
    // CHECK-NEXT: probe.start 1 ahead 1 {note = "x"}
    probe.issue 1 ahead 2
    probe.wait 1
    probe.done 1
    probe.value 1, %v : f32
    probe.mark 1 ahead -1 peeled 1
    probe.start 1 ahead 1 {note = "x"}
    probe.stop 1
  }
  probe.stop 0
  func.return
}
// -----
// PASSES:
// ERROR: region 0 is stopped while region 1 inside it is open
func.func @crossed() {
  probe.start 0
  probe.start 1
  probe.stop 0
  probe.stop 1
  func.return
}
// -----
// PASSES:
// ERROR: region 3 is started and not stopped on every path
func.func @open(%c: i1) {
  probe.start 3
  cf.cond_br %c, ^a, ^b
^a:
  probe.stop 3
  func.return
^b:
  func.return
}
// -----
// PASSES:
// ERROR: region 0 is stopped but was not started in this body
func.func @deeper(%c: i1) {
  probe.start 0
  scf.if %c {
    probe.stop 0
    scf.yield
  }
  probe.stop 0
  func.return
}
// -----
// PASSES:
// ERROR: names region 7, which is not declared
func.func @undeclared() {
  probe.region 0 "k" kind "kernel"
  probe.mark 7
  func.return
}
// -----
// PASSES:
// ERROR: region 1 lies in 4, not declared here
func.func @orphan() {
  probe.region 0 "k" kind "kernel"
  probe.region 1 "a" kind "dot" in 4
  func.return
}
// -----
// PASSES:
// ERROR: a payload is an integer or a float
func.func @payload(%t: tensor<4xf32>) {
  probe.value 0, %t : tensor<4xf32>
  func.return
}
// -----
// PASSES:
// An issue and its wait need not nest with anything.
func.func @asynchronous() {
  // CHECK: probe.issue 0
  probe.issue 0
  probe.issue 1
  probe.start 2
  probe.wait 0
  probe.done 0
  probe.stop 2
  probe.wait 1
  probe.done 1
  func.return
}
