// PASSES: record-to-ttgir
// The stream finds its block in the program's scratch, one thread speaks for it, and writes the header.
// CHECK:      "ttg.global_scratch_alloc"() <{nbytes = 32 : i32, alignment = 16 : i32, third_party_allocation}>
// CHECK:      ld.global.b64 $0, [$2+0]; ld.global.b64 $1, [$2+8];
// CHECK-NOT:  ld.global
// Clocks are read at once, and stored where something else needs the block: nothing waits for the table before.
// The number of the multiprocessor is under way by then, too.
// CHECK:      mov.u64 $0, %globaltimer; mov.u64 $1, %clock64; mov.u32 $2, %smid;
// CHECK:      %[[T:.*]] = "tt.elementwise_inline_asm"(%{{.*}}record1; mov.u64 $0, %clock64; }
// CHECK:      mov.b64 $0, $2; mov.b64 $1, $3;
// CHECK:      "tt.make_range"() <{start = 0 : i32, end = 128 : i32}>
// CHECK:      "arith.remui"
// CHECK:      cvt.u64.u32 unit, $6; @by st.relaxed.cta.global.v2.b64 [$1+0], {$3, unit};
// CHECK-SAME: [$1+32], $4;
// A record: the clock, and a store where the thread speaks.
// CHECK:      "tt.elementwise_inline_asm"(%{{.*}}, %[[T]]) {{.*}}setp.ne.b32 by, $2, 0; @by st.relaxed.cta.global.b64 [$1+64], $3;
// The trip count lies before the first iteration, which has no division of its own.
// CHECK:      "arith.divui"
// CHECK:      st.relaxed.cta.global.b64 [$1+72], $3;
// The number of an iteration's frame is carried; the first four have a place.
// CHECK:      "arith.constant"() <{value = 4 : i64}>
// CHECK:      scf.for %i = %lb to %ub step %step iter_args(%[[K:.*]] = %{{.*}}) -> (i32)
// CHECK-NEXT: "arith.cmpi"(%i, %{{.*}}) <{predicate = 2 : i64}>
// CHECK-NEXT: %[[N:.*]] = "arith.extui"(%[[K]])
// CHECK-NEXT: "arith.constant"() <{value = 16 : i64}>
// CHECK-NEXT: "arith.muli"(%[[N]],
// CHECK-NOT:  arith.div
// CHECK:      %[[F:.*]] = "arith.addi"(%{{.*}}tensor<128xi64
// CHECK:      "tt.elementwise_inline_asm"(%[[F]], %{{.*}}[$1+80], t;
// CHECK:      "test.op"() : () -> ()
// CHECK:      "tt.elementwise_inline_asm"(%[[F]], %{{.*}}[$1+88], t;
// CHECK:      "arith.addi"(%[[K]],
// CHECK:      scf.yield
// CHECK:      %globaltimer; @by st.relaxed.cta.global.b64 [$1+40]
// CHECK-NOT:  record.
// CHECK-NOT:  probe.
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, "ttg.target" = "cuda:80"} {
  func.func @k(%lb : i32, %ub : i32, %step : i32) {
    probe.region 0 "k" kind "kernel"
    %b = record.open program global exact 64 bits 24 words layout "{\"block_words\":24,\"streams\":[{\"id\":0,\"words\":24}],\"loops\":[{\"id\":0,\"capacity\":4,\"trip_base\":9,\"stride\":2}],\"slots\":[{\"id\":0,\"base\":8},{\"id\":1,\"loops\":[0],\"base\":10,\"strides\":[2]},{\"id\":2,\"loops\":[0],\"base\":11,\"strides\":[2]}]}"
    %s0 = record.slot %b, 0 at 8
    %t0 = record.clock 64
    record.store %t0, %s0
    %n = record.trip %b, 0 at 9 from %lb to %ub step %step : i32
    scf.for %i = %lb to %ub step %step : i32 {
      %k = record.index %b, 0 of 4, %i from %lb step %step count %n : i32
      %s = record.slot %b, 1 at 10 [%k * 2]
      %t = record.clock 64
      record.store %t, %s
      "test.op"() : () -> ()
      %r = record.slot %b, 2 at 11 [%k * 2]
      %u = record.clock 64
      record.store %u, %r
    }
    record.flush %b
    func.return
  }
}
// -----
// PASSES: record-to-ttgir
// Records never stand between waits in a row: Triton would put a barrier behind each.
// CHECK:      "ttg.async_wait"() : () -> ()
// CHECK-NEXT: "ttg.async_wait"() : () -> ()
// CHECK:      record1; mov.u64 $0, %clock64;
// CHECK:      record2; mov.u64 $0, %clock64;
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, "ttg.target" = "cuda:90"} {
  func.func @k() {
    %b = record.open program global exact 64 bits 16 words layout "{\"block_words\":16,\"slots\":[{\"id\":0,\"base\":8},{\"id\":1,\"base\":9}]}"
    "ttg.async_wait"() : () -> ()
    %s = record.slot %b, 0 at 8
    %t = record.clock 64
    record.store %t, %s
    "ttg.async_wait"() : () -> ()
    %r = record.slot %b, 1 at 9
    %u = record.clock 64
    record.store %u, %r
    record.flush %b
    func.return
  }
}
// -----
// PASSES: record-to-ttgir
// Each CTA of a program has all the threads of a stream, and finds its own blocks in its own scratch.
// CHECK:     "tt.make_range"() <{start = 0 : i32, end = 128 : i32}>
// CHECK-SAME: CGALayout = {{\[\[}}0], [0{{\]\]}}
module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, "ttg.num-ctas" = 4 : i32, "ttg.target" = "cuda:90"} {
  func.func @k() {
    %b = record.open program global exact 64 bits 32 words layout "{\"block_words\":32,\"streams\":[{\"id\":0,\"instances\":4,\"words\":8,\"ctas\":4}]}"
    record.flush %b
    func.return
  }
}
