// PASSES:
func.func @k(%lb: i32, %ub: i32, %one: i32, %v: f32) {
  // CHECK: %b = record.open program global exact 64 bits 16 words layout "{}"
  %b = record.open program global exact 64 bits 16 words layout "{}"
  // CHECK-NEXT: %n = record.trip %b, 0 at 8 from %lb to %ub step %one : i32
  %n = record.trip %b, 0 at 8 from %lb to %ub step %one : i32
  scf.for %i = %lb to %ub step %one : i32 {
    // CHECK: %k = record.index %b, 0 of 4, %i from %lb step %one count %n : i32
    %k = record.index %b, 0 of 4, %i from %lb step %one count %n : i32
    // CHECK-NEXT: %m = record.trip %b, 1 at 9 [%k * 5] from %lb to %ub step %one : i32
    %m = record.trip %b, 1 at 9 [%k * 5] from %lb to %ub step %one : i32
    // CHECK-NEXT: %j = record.index %b, 1 of 4, %i from %lb step %one count %m in %k cursor dynamic : i32
    %j = record.index %b, 1 of 4, %i from %lb step %one count %m in %k cursor dynamic : i32
    // CHECK-NEXT: %s = record.slot %b, 3 at 10 [%k * 5, %j * 2]
    %s = record.slot %b, 3 at 10 [%k * 5, %j * 2]
    // CHECK-NEXT: %t = record.clock 64
    %t = record.clock 64
    // CHECK-NEXT: record.store %t, %s
    record.store %t, %s
    // CHECK-NEXT: record.store %t, %s payload %v : f32
    record.store %t, %s payload %v : f32
    // CHECK-NEXT: %e = record.enter %b, 2
    %e = record.enter %b, 2
    // CHECK-NEXT: %z, %f = record.next %b, 2 at %e in %k dynamic
    %z, %f = record.next %b, 2 at %e in %k dynamic
    // CHECK-NEXT: %c = record.cursor %b
    %c = record.cursor %b
    // CHECK-NEXT: %d = record.push %t, %b, 4 at %c
    %d = record.push %t, %b, 4 at %c
    // CHECK-NEXT: %g = record.push %t, %b, 4 at %d in %z payload %v : f32
    %g = record.push %t, %b, 4 at %d in %z payload %v : f32
    // CHECK-NEXT: %o, %r = record.ran %b, 2 at %e, %e with %f
    %o, %r = record.ran %b, 2 at %e, %e with %f
    // CHECK-NEXT: record.total %b, 2 at 12, %o, %r
    record.total %b, 2 at 12, %o, %r
    // CHECK-NEXT: record.flush %b at %g
    record.flush %b at %g
  }
  // CHECK: record.flush %b
  record.flush %b
  func.return
}
// -----
// PASSES:
// ERROR: a global buffer is never flushed
func.func @k() {
  %b = record.open program global flush 64 bits 16 words
  func.return
}
// -----
// PASSES:
// ERROR: thread is none of program, warp, warp_group
func.func @k() {
  %b = record.open thread global exact 64 bits 16 words
  func.return
}
