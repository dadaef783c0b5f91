"""What a kernel is compiled with: every keyword Triton's own backends take, and those of the CPU target.

Comes in: the keywords of a launch. Goes out: a frozen `CpuOptions`, part of the cache key. What only means
something on a GPU is accepted and ignored, so that a kernel's launch code need not know where it runs.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, fields
from typing import Any

# Neither changes the code that is generated here; two launches that differ in them share one object.
IGNORED = frozenset(
    [
        "num_warps",
        "num_ctas",
        "num_stages",
        "warp_size",
        "maxnreg",
        "waves_per_eu",
        "matrix_instr_nonkdim",
        "kpack",
        "schedule_hint",
        "llvm_fn_attrs",
        "wgp_cu_mode",
        "allow_flush_denorm",
        "ptx_version",
        "ptx_options",
        "sched4reg",
        "enable_reflect_ftz",
        "launch_cooperative_grid",
        "launch_pdl",
        "clc",
        "min_shared_mem",
        "cluster_dims",
        "arch",
    ]
)


@dataclass(frozen=True)
class CpuOptions:
    # Read by Triton's front end.
    debug: bool = False
    sanitize_overflow: bool = True
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4b15", "fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: Any = None
    backend_name: str = "cpu"
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    ir_override: str | None = None  # file of a user's own IR for one of the stages

    # Read by code generation here.
    enable_fp_fusion: bool = True  # a * b + c may round once
    check_bounds: bool = False  # every access of a tensor argument is checked
    same: str = ""  # which arguments are the same tensor, found out at each launch

    # For GPUs; accepted, ignored.
    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    warp_size: int = 32
    maxnreg: int | None = None
    ptx_version: int | None = None
    ptx_options: str | None = None
    sched4reg: bool = False
    enable_reflect_ftz: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    clc: bool = False
    min_shared_mem: int | None = None
    cluster_dims: tuple[int, ...] = (1, 1, 1)
    waves_per_eu: int = 0
    matrix_instr_nonkdim: int = 0
    kpack: int = 1
    schedule_hint: str = ""
    llvm_fn_attrs: Any = ""
    wgp_cu_mode: str = "wgp"
    allow_flush_denorm: bool = False
    arch: str = "cpu"

    def __post_init__(self):
        if self.num_warps <= 0 or self.num_warps & (self.num_warps - 1):
            raise AssertionError(f"num_warps must be a power of 2, got {self.num_warps}")
        libraries = self.extern_libs.items() if isinstance(self.extern_libs, dict) else self.extern_libs or ()
        object.__setattr__(self, "extern_libs", tuple(tuple(item) for item in libraries))

    def hash(self) -> str:
        """Identifies the generated code as far as options go."""
        used = sorted((k, v) for k, v in self.__dict__.items() if k not in IGNORED)
        return hashlib.sha256(repr(used).encode()).hexdigest()


@dataclass
class Settings:
    """What `tileprobe.use` changes for the whole process."""

    check_bounds: bool = False


def _flag(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "on", "true", "yes")


settings = Settings(check_bounds=_flag("TILEPROBE_CHECK_BOUNDS"))


def parse(keywords: dict[str, Any]) -> CpuOptions:
    """Options from a launch's keywords. Triton itself refuses those that are neither here nor arguments."""
    from triton import knobs

    known = {f.name for f in fields(CpuOptions)}
    given = {k: v for k, v in keywords.items() if k in known and v is not None}
    given.setdefault("check_bounds", settings.check_bounds)
    fusion = given.get("enable_fp_fusion", knobs.language.default_fp_fusion)
    given["enable_fp_fusion"] = bool(fusion) and not knobs.language.force_disable_fp_fusion
    if knobs.language.fp32_default:
        given.setdefault("default_dot_input_precision", knobs.language.fp32_default)
    return CpuOptions(**given)
