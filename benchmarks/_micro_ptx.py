"""Kernels that measure one thing each, as PTX: a chain of dependent instructions, a stream, a launch that does nothing.

`cubin(arch)` has them all, by Triton's ptxas. Each takes the number of rounds of its loop: what a round takes is the
difference of two launches. What a kernel computes is stored where a comparison that never holds says so.
"""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path

from triton import knobs

_HEAD = ".version 8.3\n.target {target}\n.address_size 64\n"
UNROLLED = 16  # instructions of a round of a chain


def kernel(name: str, parameters: str, body: str) -> str:
    given = ", ".join(f".param .{what}" for what in parameters.split(", "))
    registers = ".reg .pred %p<4>; .reg .b32 %r<80>; .reg .f32 %f<260>; .reg .b64 %d<40>; .reg .f64 %g<8>;"
    return f".visible .entry {name}({given})\n{{\n{registers}\n{body}\n}}\n"


def loop(body: str, counter: str = "%r1") -> str:
    """`body` as often as the counter says."""
    return (
        f"again:\n{body}\nsub.u32 {counter}, {counter}, 1;\nsetp.ne.u32 %p1, {counter}, 0;\n@%p1 bra again;\n"
    )


def _chain(name: str, prepare: str, step: str, keep: str, parameters: str = "u32 n, u64 out") -> str:
    body = (
        "ld.param.u32 %r1, [n];\nld.param.u64 %d1, [out];\nmov.u32 %r2, %tid.x;\n"
        f"{prepare}\n{loop(step * UNROLLED)}\n{keep}\nret;"
    )
    return kernel(name, parameters, body)


_KEEP_F = "setp.eq.f32 %p2, %f1, 0f7E967699;\n@%p2 st.global.f32 [%d1], %f1;"
_KEEP_R = "setp.eq.u32 %p2, %r3, 12345;\n@%p2 st.global.u32 [%d1], %r3;"
_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_PLACE = (
    "mov.u32 %r2, %tid.x;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\nmad.lo.u32 %r5, %r3, %r4, %r2;\n"
)


def _mma(accumulator: int) -> str:
    c = ", ".join(f"%f{10 + 4 * accumulator + n}" for n in range(4))
    return f"{_MMA} {{{c}}}, {{%r10, %r11, %r12, %r13}}, {{%r14, %r15}}, {{{c}}};\n"


def _products(name: str, accumulators: int) -> str:
    zeros = "".join(f"mov.f32 %f{10 + n}, 0f00000000;\n" for n in range(4 * accumulators))
    given = "".join(f"mov.u32 %r{10 + n}, %r2;\n" for n in range(6))
    sums = "mov.f32 %f1, %f10;\n" + "".join(
        f"add.f32 %f1, %f1, %f{11 + n};\n" for n in range(4 * accumulators - 1)
    )
    body = (
        "ld.param.u32 %r1, [n];\nld.param.u64 %d1, [out];\nmov.u32 %r2, %tid.x;\n"
        + zeros + given + loop("".join(_mma(n % accumulators) for n in range(UNROLLED))) + sums + _KEEP_F + "\nret;"
    )  # fmt: skip
    return kernel(name, "u32 n, u64 out", body)


def _chase() -> str:
    """Each word is the address of the next."""
    return _chain(
        "chase", "ld.param.u64 %d2, [start];", "ld.global.u64 %d2, [%d2];\n",
        "setp.eq.u64 %p2, %d2, 12345;\n@%p2 st.global.u64 [%d1], %d2;", "u64 start, u32 n, u64 out",
    )  # fmt: skip


def _reads(name: str, how: str) -> str:
    """All threads of a program read one of two halves of `bytes` from where it begins, 16 bytes each at a time; then
    the other, `n` times in all."""
    body = (
        "ld.param.u64 %d2, [x];\nld.param.u64 %d1, [out];\nld.param.u32 %r1, [n];\nld.param.u32 %r6, [bytes];\n"
        "ld.param.u32 %r7, [apart];\nmov.u32 %r2, %tid.x;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\n"
        "mul.wide.u32 %d3, %r3, %r7;\nadd.u64 %d2, %d2, %d3;\nmul.wide.u32 %d4, %r2, 16;\nadd.u64 %d2, %d2, %d4;\n"
        "mul.wide.u32 %d5, %r4, 16;\ncvt.u64.u32 %d6, %r6;\nadd.u64 %d7, %d2, %d6;\nmov.u32 %r3, 0;\n"
        "again:\nmov.u64 %d8, %d2;\nand.b32 %r8, %r1, 1;\nmul.wide.u32 %d9, %r8, %r6;\nadd.u64 %d8, %d8, %d9;\n"
        "add.u64 %d10, %d7, %d9;\nmore:\n"
        + "".join(
            f"{how}.v4.u32 {{%r{10 + 4 * k}, %r{11 + 4 * k}, %r{12 + 4 * k}, %r{13 + 4 * k}}}, [%d8];\n"
            "add.u64 %d8, %d8, %d5;\n"
            for k in range(4)
        )
        + "".join(f"xor.b32 %r3, %r3, %r{10 + k};\n" for k in range(16))
        + "setp.lt.u64 %p2, %d8, %d10;\n@%p2 bra more;\nsub.u32 %r1, %r1, 1;\n"
        + "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra again;\n"
        + _KEEP_R + "\nret;"
    )  # fmt: skip
    return kernel(name, "u64 x, u32 bytes, u32 apart, u32 n, u64 out", body)


def _streams() -> str:
    """One double a thread: A = 3, sum of A, A = 0.25 B, A = B + 0.25 C."""
    bodies = {
        "init": "mov.f64 %g1, 0d4008000000000000;\nst.global.f64 [%d4], %g1;\n",
        "read": "ld.global.f64 %g1, [%d5];\nsetp.eq.f64 %p2, %g1, 0d40C81C8000000000;\n"
        "@%p2 st.global.f64 [%d4], %g1;\n",
        "scale": "ld.global.f64 %g1, [%d5];\nmul.f64 %g1, %g1, 0d3FD0000000000000;\nst.global.f64 [%d4], %g1;\n",
        "triad": "ld.global.f64 %g1, [%d5];\nld.global.f64 %g2, [%d6];\nfma.rn.f64 %g1, %g2, 0d3FD0000000000000, %g1;\n"
        "st.global.f64 [%d4], %g1;\n",
    }  # fmt: skip
    made = ""
    for name, body in bodies.items():
        places = "".join(
            f"ld.param.u64 %d{n + 3}, [{array}];\nadd.u64 %d{n + 3}, %d{n + 3}, %d7;\n"
            for n, array in enumerate("abc", 1)
        )
        made += kernel(
            name, "u64 a, u64 b, u64 c, u32 n",
            "ld.param.u32 %r1, [n];\n" + _PLACE + "setp.ge.u32 %p1, %r5, %r1;\n@%p1 ret;\nmul.wide.u32 %d7, %r5, 8;\n"
            + places + body + "ret;",
        )  # fmt: skip
    return made


def _shared() -> str:
    chain = _chain(
        "shared_chain", ".shared .align 8 .b8 word[8];\nmov.u32 %r3, word;\nst.shared.u32 [%r3], %r3;",
        "ld.shared.u32 %r3, [%r3];\n", _KEEP_R,
    )  # fmt: skip
    reads = kernel(
        "shared_reads", "u32 n, u32 stride, u64 out",
        ".shared .align 16 .b8 held[32768];\nld.param.u32 %r1, [n];\nld.param.u64 %d1, [out];\nmov.u32 %r2, %tid.x;\n"
        "ld.param.u32 %r9, [stride];\nmul.lo.u32 %r6, %r2, %r9;\nand.b32 %r6, %r6, 16380;\nmov.u32 %r7, held;\n"
        "add.u32 %r7, %r7, %r6;\nmov.u32 %r3, 0;\n"
        + loop("".join(f"ld.volatile.shared.u32 %r{10 + k}, [%r7 + {4096 * (k % 4)}];\n" for k in range(UNROLLED))
        + "".join(f"xor.b32 %r3, %r3, %r{10 + k};\n" for k in range(UNROLLED)))
        + _KEEP_R + "\nret;",
    )  # fmt: skip
    return chain + reads


def _groups(n: int, in_flight: int) -> str:
    """Products of warp groups, m64nNk16, so many between two waits."""
    sums = ", ".join(f"%f{k}" for k in range(n // 2))
    one = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{sums}}}, %d2, %d2, p, 1, 1, 0, 0;\n"
        f"wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned {in_flight - 1};\n"
    )
    step = "wgmma.fence.sync.aligned;\n" + one * 4
    zeros = "".join(f"mov.f32 %f{k}, 0f00000000;\n" for k in range(n // 2))
    kept = "mov.f32 %f250, %f0;\n" + "".join(f"add.f32 %f250, %f250, %f{k};\n" for k in range(1, n // 2))
    return kernel(
        f"group_{n}_{in_flight}", "u32 n, u64 out",
        ".shared .align 1024 .b8 tiles[32768];\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\nld.param.u32 %r1, [n];\n"
        "ld.param.u64 %d1, [out];\nmov.u32 %r2, tiles;\nshr.u32 %r3, %r2, 4;\nand.b32 %r3, %r3, 16383;\n"
        "cvt.u64.u32 %d2, %r3;\nor.b64 %d2, %d2, 0x4000004000010000;\n"
        + zeros + loop(step * 16) + kept
        + "setp.eq.f32 %p2, %f250, 0f7E967699;\n@%p2 st.global.f32 [%d1], %f250;\nret;",
    )  # fmt: skip


GROUPS = ((8, 4), (16, 4), (32, 4), (64, 1), (64, 4), (96, 4), (128, 4), (192, 4), (256, 4))


def source(arch: int) -> str:
    text = _HEAD.format(target=f"sm_{arch}" + "a" * (arch == 90))
    text += kernel("nothing", "u32 n", "ret;") + _chase() + _streams() + _shared()
    text += _chain(
        "fma_chain", "cvt.rn.f32.u32 %f1, %r2;\nmov.f32 %f2, 0f3F400000;", "fma.rn.f32 %f1, %f1, %f2, %f2;\n", _KEEP_F
    )  # fmt: skip
    text += _chain("ex2_chain", "cvt.rn.f32.u32 %f1, %r2;", "ex2.approx.ftz.f32 %f1, %f1;\n", _KEEP_F)
    text += _chain(
        "barrier_chain", "mov.u32 %r3, 0;", "bar.sync 0;\n", _KEEP_R
    ) + _products("product_chain", 1) + _products("product_rate", 8)  # fmt: skip
    text += _chain(
        "add_same", "mov.u32 %r3, 1;", "red.global.add.u32 [%d1], %r3;\n", ""
    ) + _chain("atomic_chain", "mov.u32 %r3, 1;", "atom.global.add.u32 %r3, [%d1], %r3;\n", _KEEP_R)  # fmt: skip
    text += _reads("reads_l1", "ld.global.ca") + _reads("reads_l2", "ld.global.cg")
    if arch == 90:
        text += "".join(_groups(*each) for each in GROUPS)
    return text


@cache
def cubin(arch: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "micro.ptx"), Path(folder, "micro.cubin")
        given.write_text(source(arch))
        target = f"sm_{arch}" + "a" * (arch == 90)
        subprocess.run([knobs.nvidia.ptxas.path, f"-arch={target}", given, "-o", made], check=True)
        return made.read_bytes()
