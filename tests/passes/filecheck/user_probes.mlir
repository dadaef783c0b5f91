// PASSES: select{loops=false},instrument,user-probes
// Marks and values are regions of their own, in the region around them.
func.func @k(%n: i32, %one: i32) {
  // CHECK:      probe.region 2 "load @ 3" kind "load" in 1
  // CHECK-NEXT: probe.region 3 "half" kind "mark" in 0
  // CHECK-NEXT: probe.region 4 "tile" kind "value" in 1
  // CHECK:      probe.mark 3
  // CHECK-NEXT: scf.for
  "tt.print"() {prefix = " tileprobe.mark:half: "} : () -> ()
  scf.for %i = %one to %n step %one : i32 {
    // CHECK:      probe.stop 2
    // CHECK-NEXT: probe.value 4, %i : i32
    "my.stage"() {kinds = "load", lines = "a.py:3"} : () -> ()
    "tt.print"(%i) {prefix = " tileprobe.value:tile: "} : (i32) -> ()
    scf.yield
  }
  // CHECK: "tt.print"(%n) {prefix = " n: "}
  "tt.print"(%n) {prefix = " n: "} : (i32) -> ()
  func.return
}
