// PASSES: select{kinds=none loops=false iterations=false},instrument
// Software pipelining told by tokens. The copies of A and B are two regions; those before the loop stand for
// iterations 0 and 1, those in it run two ahead. Of two waits the one that follows the shorter way is one
// iteration ahead, and so is its copy before the loop.
func.func @pipelined(%n: i32, %one: i32) {
  // CHECK: probe.region 1 "async copy @ 5" kind "async" in 0
  // CHECK: probe.region 2 "async copy @ 6" kind "async" in 0
  // CHECK-NOT: probe.region 3
  // CHECK: probe.issue 1 peeled 0
  // CHECK: probe.issue 2 peeled 0
  // CHECK: probe.issue 1 ahead 1 peeled 0
  // CHECK: probe.issue 2 ahead 1 peeled 0
  %a0 = "ttg.async_copy_global_to_local"() {lines = "a.py:5"} : () -> i32
  %ga0 = "ttg.async_commit_group"(%a0) : (i32) -> i32
  %b0 = "ttg.async_copy_global_to_local"() {lines = "a.py:6"} : () -> i32
  %gb0 = "ttg.async_commit_group"(%b0) : (i32) -> i32
  %a1 = "ttg.async_copy_global_to_local"() {lines = "a.py:5"} : () -> i32
  %ga1 = "ttg.async_commit_group"(%a1) : (i32) -> i32
  %b1 = "ttg.async_copy_global_to_local"() {lines = "a.py:6"} : () -> i32
  %gb1 = "ttg.async_commit_group"(%b1) : (i32) -> i32
  // CHECK:      probe.wait 1 peeled 0
  // CHECK-NEXT: "ttg.async_wait"
  // CHECK-NEXT: probe.done 1 peeled 0
  %w = "ttg.async_wait"(%ga0) : (i32) -> i32
  %x0, %x1, %x2, %x3 = scf.for %i = %one to %n step %one iter_args(%p = %ga0, %q = %ga1, %r = %gb0, %s = %gb1) -> (i32, i32, i32, i32) : i32 {
    // CHECK:      probe.wait 1
    // CHECK-NEXT: probe.wait 2
    // CHECK-NEXT: "ttg.async_wait"(%p, %r)
    // CHECK-NEXT: probe.done 1
    // CHECK-NEXT: probe.done 2
    %v = "ttg.async_wait"(%p, %r) : (i32, i32) -> i32
    // CHECK:      probe.issue 1 ahead 2
    %a2 = "ttg.async_copy_global_to_local"() {lines = "a.py:5"} : () -> i32
    %ga2 = "ttg.async_commit_group"(%a2) : (i32) -> i32
    // CHECK:      probe.issue 2 ahead 2
    %b2 = "ttg.async_copy_global_to_local"() {lines = "a.py:6"} : () -> i32
    %gb2 = "ttg.async_commit_group"(%b2) : (i32) -> i32
    // CHECK:      probe.wait 1 ahead 1
    // CHECK-NEXT: "ttg.async_wait"(%q)
    // CHECK-NEXT: probe.done 1 ahead 1
    %u = "ttg.async_wait"(%q) : (i32) -> i32
    scf.yield %q, %ga2, %s, %gb2 : i32, i32, i32, i32
  // CHECK: } {probe.loop = #builtin.int<0>}
  }
  func.return
}
// -----
// PASSES: assign-slots,probe-to-record
// One span a pair of issue and wait, whatever their order in the text; no attribute of ours is left.
// CHECK: \22region\22:0,\22start\22:0,\22stop\22:3,\22kind\22:\22async\22,\22start_peeled\22:0}
// CHECK-SAME: \22region\22:0,\22start\22:1,\22stop\22:3,\22kind\22:\22async\22,\22start_ahead\22:1,\22start_peeled\22:0}
// CHECK-SAME: \22region\22:0,\22start\22:4,\22stop\22:3,\22kind\22:\22async\22,\22start_ahead\22:2}
// CHECK-SAME: \22region\22:0,\22start\22:2,\22stop\22:3,\22kind\22:\22wait\22}
// CHECK-NOT: probe.loop
// CHECK-NOT: {record
func.func @k(%n: i32, %one: i32) {
  probe.issue 0 peeled 5
  "my.copy"() : () -> ()
  probe.issue 0 ahead 1 peeled 5
  "my.copy"() : () -> ()
  scf.for %i = %one to %n step %one : i32 {
    probe.wait 0
    "my.wait"() : () -> ()
    probe.done 0
    "my.dot"() : () -> ()
    probe.issue 0 ahead 2
    "my.copy"() : () -> ()
  } {probe.loop = #builtin.int<5>}
  func.return
}
// -----
// PASSES: assign-slots
// Of several waits for the same copy only the first ends it: the one in the loop that is ahead, and before the
// loop the one for iteration 0. All of them are timed.
// CHECK-NOT: \22start\22:{{[0-9]+}},\22stop\22:5,\22kind\22:\22async\22
// CHECK: \22start\22:6,\22stop\22:8,\22kind\22:\22async\22,\22start_ahead\22:2,\22stop_ahead\22:1}
// CHECK-SAME: \22start\22:4,\22stop\22:5,\22kind\22:\22wait\22}
func.func @k(%n: i32, %one: i32) {
  probe.issue 0 peeled 0
  "my.copy"() : () -> ()
  probe.issue 0 ahead 1 peeled 0
  "my.copy"() : () -> ()
  probe.wait 0 peeled 0
  "my.wait"() : () -> ()
  probe.done 0 peeled 0
  scf.for %i = %one to %n step %one : i32 {
    probe.wait 0
    "my.wait"() : () -> ()
    probe.done 0
    "my.dot"() : () -> ()
    probe.issue 0 ahead 2
    "my.copy"() : () -> ()
    probe.wait 0 ahead 1
    "my.wait"() : () -> ()
    probe.done 0 ahead 1
  } {probe.loop = #builtin.int<0>}
  func.return
}
// -----
// PASSES: select{kinds=none loops=false iterations=false kernel=false},instrument,assign-slots,probe-to-record
// Ends stated by attributes. An issue without a wait is said to be one and costs nothing but its own records.
// CHECK: record.open {{.*}} unpaired ["\22B @ 3\22 is issued and never awaited", "\22C\22 is awaited, but nothing issues it"]
func.func @k(%n: i32, %one: i32) {
  "my.copy"() {issues = "A", lines = "a.py:2"} : () -> ()
  "my.copy"() {issues = "B", lines = "a.py:3"} : () -> ()
  "my.wait"() {waits = "A+C"} : () -> ()
  func.return
}
// -----
// PASSES: select{kinds=none},instrument,assign-slots
// A copy before the loop whose wait was optimised away does not stop anything.
// CHECK: record.unpaired = ["\22A @ 2\22 is issued for iteration 0, before its loop, and never awaited"]
func.func @k(%n: i32, %one: i32) {
  "my.copy"() {issues = "A", lines = "a.py:2", peeled = "main"} : () -> ()
  scf.for %i = %one to %n step %one : i32 {
    "my.copy"() {issues = "A", lines = "a.py:2", ahead = 2} : () -> ()
    "my.wait"() {waits = "A", ahead = 1} : () -> ()
  } {loop = "main"}
  func.return
}
// -----
// PASSES: select{kinds=none},instrument,assign-slots
// ERROR: "A @ 2" is issued in loop 0 and awaited in no loop: such ends never meet
func.func @k(%n: i32, %one: i32) {
  scf.for %i = %one to %n step %one : i32 {
    "my.copy"() {issues = "A", lines = "a.py:2"} : () -> ()
  }
  "my.wait"() {waits = "A"} : () -> ()
  func.return
}
// -----
// PASSES: select{loops=false kernel=false},instrument,assign-slots
// A stage that was peeled off a loop belongs to one of its iterations, here the last.
// CHECK: \22start_ahead\22:1,\22stop_ahead\22:1}
// CHECK-SAME: \22start_ahead\22:-1,\22start_peeled\22:0,\22stop_ahead\22:-1,\22stop_peeled\22:0}
// CHECK: probe.start 2 ahead 1
// CHECK: probe.stop 2 ahead 1
// CHECK: probe.start 0 ahead -1 peeled 0
// CHECK: probe.stop 0 ahead -1 peeled 0
func.func @k(%n: i32, %one: i32) {
  scf.for %i = %one to %n step %one : i32 {
    "my.stage"() {kinds = "load", lines = "a.py:2", ahead = 1} : () -> ()
  } {loop = "main"}
  "my.stage"() {kinds = "dot", lines = "a.py:3", ahead = -1, peeled = "main"} : () -> ()
  func.return
}
// -----
// PASSES: select,instrument
// ERROR: my.stage is peeled off 'other', and 0 loops have that name
func.func @k() {
  "my.stage"() {kinds = "dot", peeled = "other"} : () -> ()
  func.return
}
// -----
// PASSES: assign-slots
// Without a loop the first wait ends a copy, but one in a branch may not run, and then the next one does.
// CHECK-NOT: \22start\22:0,\22stop\22:5,
// CHECK: \22start\22:0,\22stop\22:2,\22kind\22:\22async\22}
// CHECK-SAME: \22start\22:0,\22stop\22:4,\22kind\22:\22async\22}
func.func @k(%c: i1) {
  probe.issue 0
  "my.copy"() : () -> ()
  scf.if %c {
    probe.wait 0
    "my.wait"() : () -> ()
    probe.done 0
    scf.yield
  }
  probe.wait 0
  "my.wait"() : () -> ()
  probe.done 0
  probe.wait 0
  "my.wait"() : () -> ()
  probe.done 0
  func.return
}
// -----
// PASSES: select{kinds=none loops=false iterations=false kernel=false},instrument,assign-slots{strategy=circular}
// What a branch of a loop records has tags under `circular`, and its wait has a place: they are not joined, and it is said once.
// CHECK: \22spans\22:[{\22region\22:0,\22start\22:1,\22stop\22:2,\22kind\22:\22wait\22}]
// CHECK-SAME: record.unpaired = ["\22A @ 2\22: what is issued or awaited in a `while` loop, or in a branch with strategy=circular, is joined with nothing outside of it; such waits stand for themselves"]
func.func @k(%n: i32, %one: i32, %c: i1) {
  scf.for %i = %one to %n step %one : i32 {
    scf.if %c {
      "my.copy"() {issues = "A", lines = "a.py:2"} : () -> ()
      scf.yield
    }
    "my.wait"() {waits = "A"} : () -> ()
  }
  func.return
}
