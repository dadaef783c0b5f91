// PASSES: select{scopes="soft@6-7"},instrument
// Regions are named after lines, scopes span neighbouring stages, stages are not looked into.
// CHECK:      probe.region 0 "attention" kind "kernel" at "a.py":3:13
// CHECK-NEXT: probe.region 1 "load + mul @ 3-4" kind "load+mul" in 0 at "a.py":3:4
// CHECK-NEXT: probe.region 2 "loop @ 6" kind "loop" in 0 at "a.py":6:11
// CHECK-NEXT: probe.region 3 "iteration" kind "iteration" in 2 at "a.py":6:11
// CHECK-NEXT: probe.region 4 "soft" kind "scope" in 3 at "a.py":6:7
// CHECK-NEXT: probe.region 5 "load @ 6" kind "load" in 4 at "a.py":6:6
// CHECK-NEXT: probe.region 6 "dot @ 7" kind "dot" in 4 at "a.py":7:7
// CHECK-NEXT: probe.region 7 "store @ 11" kind "store" in 3 at "a.py":11:11
func.func @attention(%n: i32, %c: i1) {
  // CHECK-NEXT: probe.start 0
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // CHECK:      probe.start 1
  // CHECK-NEXT: "my.stage"
  // CHECK-NEXT: "tt.load"
  // CHECK-NEXT: kinds = "load+mul"
  // CHECK-NEXT: probe.stop 1
  // CHECK-NEXT: probe.start 2
  "my.stage"() ({
    "tt.load"() : () -> ()
  }) {kinds = "load+mul", lines = "a.py:3,4"} : () -> ()
  // CHECK-NEXT: scf.for
  scf.for %i = %c0 to %n step %c1 : i32 {
    // CHECK-NEXT: probe.start 3
    // CHECK-NEXT: probe.start 4
    // CHECK-NEXT: probe.start 5
    // CHECK-NEXT: "my.stage"
    // CHECK-NEXT: probe.stop 5
    "my.stage"() {kinds = "load", lines = "a.py:6"} : () -> ()
    %x = arith.addi %i, %i : i32
    // CHECK-NEXT: arith.addi
    // CHECK-NEXT: probe.start 6
    // CHECK-NEXT: "my.stage"
    // CHECK-NEXT: probe.stop 6
    // CHECK-NEXT: probe.stop 4
    "my.stage"() {kinds = "dot", lines = "a.py:7"} : () -> ()
    // CHECK-NEXT: scf.if
    // CHECK-NEXT:   probe.start 7
    // CHECK-NEXT:   "my.stage"
    // CHECK-NEXT:   probe.stop 7
    scf.if %c {
      "my.stage"() {kinds = "store", lines = "a.py:11"} : () -> ()
      scf.yield
    }
    // CHECK: probe.stop 3
  }
  // CHECK: probe.stop 2
  // CHECK: probe.stop 0
  "my.other"() {lines = "a.py:13"} : () -> ()
  func.return
}
// -----
// PASSES: select{kinds=dot loops=false iterations=false kernel=false},instrument
// CHECK:     probe.region 0 "dot @ 7"
// CHECK-NOT: probe.region 1
func.func @k() {
  "my.stage"() {kinds = "load", lines = "a.py:6"} : () -> ()
  "my.stage"() {kinds = "dot", lines = "a.py:7"} : () -> ()
  func.return
}
// -----
// PASSES: select{lines="6-7" kernel=false},instrument
// CHECK:     probe.region 0 "load @ 6"
// CHECK-NOT: probe.region 1
func.func @k() {
  "my.stage"() {kinds = "load", lines = "a.py:6"} : () -> ()
  "my.stage"() {kinds = "dot", lines = "a.py:8"} : () -> ()
  func.return
}
// -----
// PASSES: select,instrument
// A stage names its lines one by one; what a loop calls from before it does not stretch it.
// CHECK: probe.region 1 "loop @ 5" kind "loop" in 0 at "a.py":5:8
// CHECK: probe.region 3 "load + mul @ 2, 7-8" kind "load+mul" in 2 at "a.py":2:8 lines [2, 7, 8]
func.func @k(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    "my.stage"() {kinds = "load+mul", lines = "a.py:2,7,8"} : () -> ()
  } {lines = "a.py:5"}
  func.return
}
// -----
// PASSES: select{lines="six"},instrument
// ERROR: 'six' is no line or range of lines
func.func @k() {
  func.return
}
// -----
// PASSES: select{function="other*"},instrument
// CHECK-NOT: probe
func.func @k() {
  "my.stage"() {kinds = "load", lines = "a.py:6"} : () -> ()
  func.return
}
// -----
// PASSES: select{kinds=none},instrument
// A kernel that returns early is stopped on each path.
// CHECK:      probe.start 0
// CHECK:      ^a:
// CHECK-NEXT: probe.stop 0
// CHECK-NEXT: func.return
// CHECK:      probe.stop 0
// CHECK-NEXT: func.return
func.func @early(%c: i1) {
  cf.cond_br %c, ^a, ^b
^a:
  func.return
^b:
  "my.stage"() {kinds = "load", lines = "a.py:6"} : () -> ()
  func.return
}
// -----
// PASSES: select,instrument
// Asynchronous copies: an issue, and a wait that is measured by itself. Tokens say what it waits for; a wait
// for whatever is under way is a stage.
// CHECK:      probe.region 3 "async copy @ 4" kind "async" in 0
// CHECK:      probe.issue 3
// CHECK-NEXT: "ttg.async_copy_global_to_local"
// CHECK:      probe.wait 3
// CHECK-NEXT: "ttg.async_wait"
// CHECK-NEXT: probe.done 3
// CHECK-NEXT: probe.start 2
// CHECK-NEXT: "ttg.async_wait"() : () -> ()
// CHECK-NEXT: probe.stop 2
func.func @pipelined() {
  "my.stage"() {kinds = "dot", lines = "a.py:6"} : () -> ()
  %a = "ttg.async_copy_global_to_local"() {lines = "a.py:4"} : () -> i32
  %g = "ttg.async_commit_group"(%a) : (i32) -> i32
  %w = "ttg.async_wait"(%g) : (i32) -> i32
  "ttg.async_wait"() : () -> ()
  func.return
}
// -----
// PASSES: select{scopes="soft@6-7" loops=false iterations=false kernel=false},instrument
// A stage outside the scope cuts it in two pieces, also where loops have no regions of their own; its lines are those of both.
// CHECK:      probe.region 0 "soft" kind "scope" at "a.py":6:7
// CHECK:      probe.start 0
// CHECK-NEXT: probe.start
// CHECK-NEXT: "my.stage"() {kinds = "load"
// CHECK-NEXT: probe.stop
// CHECK-NEXT: probe.stop 0
func.func @k() {
  "my.stage"() {kinds = "load", lines = "a.py:6"} : () -> ()
  "my.stage"() {kinds = "exp", lines = "a.py:9"} : () -> ()
  "my.stage"() {kinds = "dot", lines = "a.py:7"} : () -> ()
  func.return
}
