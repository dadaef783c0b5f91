// PASSES:
// CHECK: cam.machine "cambricon:s" with {channels = 1 : i64, prefetch = false}
cam.machine "cambricon:s" with {channels = 1 : i64, prefetch = false}
// CHECK: cam.step @tiny decode tokens 1 context 10 weights "w8a8" mode "split" {
cam.step @tiny decode tokens 1 context 10 weights "w8a8" mode "split" {
^bb0(%x : !cam.vector<64>):
  // CHECK: cam.layers 2 (%{{.*}}) {
  %y = cam.layers 2 (%x) {
  ^bb1(%h : !cam.vector<64>):
    // CHECK: cam.special "layernorm"(%{{.*}}) passes 3 reads 256 : (!cam.vector<64>) -> !cam.vector<64>
    %n = cam.special "layernorm"(%h) passes 3 reads 256 : (!cam.vector<64>) -> !cam.vector<64>
    // CHECK: cam.gemv "q"(%{{.*}}) 64 x 64 bias
    %q = cam.gemv "q"(%n) 64 x 64 bias
    // CHECK: cam.gemv "k"(%{{.*}}) 64 x 64 tile <rows 256, cols 2048> split <flash 1, edge 1, all 1> buffers <inputs 1, rows 64, keep 0>
    %k = cam.gemv "k"(%n) 64 x 64 tile <rows 256, cols 2048> split <flash 1, edge 1, all 1> buffers <inputs 1, rows 64, keep 0>
    %v = cam.gemv "v"(%n) 64 x 64
    // CHECK: cam.attention(%{{.*}}) heads 4 kv 4 dim 16
    %a = cam.attention(%q, %k, %v) heads 4 kv 4 dim 16 : (!cam.vector<64>, !cam.vector<64>, !cam.vector<64>) -> !cam.vector<64>
    // CHECK: cam.yield %{{.*}} : !cam.vector<64>
    cam.yield %a : !cam.vector<64>
  }
  // CHECK: cam.return
  cam.return
}
// -----
// PASSES:
// ERROR: does not take a vector of 64
cam.step @tiny decode tokens 1 context 10 weights "w8a8" mode "split" {
^bb0(%x : !cam.vector<64>):
  %q = "cam.gemv"(%x) <{label = "q", rows = #builtin.int<64>, cols = #builtin.int<32>}> ({}) : (!cam.vector<64>) -> !cam.vector<64>
  cam.return
}
// -----
// PASSES:
// ERROR: tiled, split and buffered in this order
cam.step @tiny decode tokens 1 context 10 weights "w8a8" mode "split" {
^bb0(%x : !cam.vector<64>):
  %q = cam.gemv "q"(%x) 64 x 64 split <flash 1, edge 1, all 1>
  cam.return
}
// -----
// PASSES:
// ERROR: 5 and 5 of 4 block rows in flash is no split
cam.step @tiny decode tokens 1 context 10 weights "w8a8" mode "split" {
^bb0(%x : !cam.vector<64>):
  %q = cam.gemv "q"(%x) 64 x 64 tile <rows 8, cols 8> split <flash 5, edge 5, all 4>
  cam.return
}
// -----
// PASSES:
// ERROR: 6 heads cannot share 4
cam.step @tiny decode tokens 1 context 10 weights "w8a8" mode "split" {
^bb0(%x : !cam.vector<64>):
  %a = cam.attention(%x, %x, %x) heads 6 kv 4 dim 16 : (!cam.vector<64>, !cam.vector<64>, !cam.vector<64>) -> !cam.vector<96>
  cam.return
}
// -----
// PASSES:
// ERROR: weights are w8a8 or w4a16
cam.step @tiny decode tokens 1 context 10 weights "fp8" mode "split" {
^bb0(%x : !cam.vector<64>):
  cam.return
}
// -----
// PASSES:
cam.step @tiny decode tokens 1 context 10 weights "w8a8" mode "split" {
^bb0(%x : !cam.vector<64>):
  // CHECK: cam.exchange "gather"(%{{.*}}) packages 4 bytes 512 : (!cam.vector<64>) -> !cam.vector<256>
  %g = cam.exchange "gather"(%x) packages 4 bytes 512 : (!cam.vector<64>) -> !cam.vector<256>
  cam.return
}
// -----
// PASSES:
// ERROR: packages exchange by reduce, gather, scale, not 'shout'
cam.step @tiny decode tokens 1 context 10 weights "w8a8" mode "split" {
^bb0(%x : !cam.vector<64>):
  %g = cam.exchange "shout"(%x) packages 4 bytes 512 : (!cam.vector<64>) -> !cam.vector<64>
  cam.return
}
