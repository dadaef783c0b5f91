"""triton.language.extra.libdevice on the CPU: CUDA's names, as they are.

Triton's module map sends `from triton.language.extra import libdevice` here. The functions emit
tt.extern_elementwise with CUDA's symbols (`__nv_tanhf`, ...), which `vmath.extern` serves.
"""

from triton.language.extra.cuda.libdevice import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
