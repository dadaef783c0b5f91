"""Bulk loads of columns of pixels (im2col), which Gluon kernels ask for: against the same walk in Python."""

import pytest
from triton.experimental import gluon
from triton.experimental.gluon import language as ttgl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col

import tileprobe

torch = pytest.importorskip("torch")


@gluon.jit
def columns(source, target, place, OFFSETS: ttgl.constexpr):
    tile = ttgl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    bar = ttgl.allocate_shared_memory(ttgl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load_im2col(source, place, OFFSETS, bar, tile)
    mbarrier.wait(bar, phase=0, deps=[tile])
    mbarrier.invalidate(bar)
    tma.async_store(target, [0, 0], tile)
    tma.store_wait(0)


def walked(x, pixels, channels, lower, upper, steps, place, offsets):
    """Along the innermost dimension of the box first; a pixel outside of the tensor is zero."""
    sizes, found = x.shape[1:-1], torch.zeros(pixels, channels, dtype=x.dtype)
    image, at, first = place[0], list(place[1:-1]), place[-1]
    for n in range(pixels):
        real = [p + o for p, o in zip(at, offsets)]
        if image < x.shape[0] and all(0 <= r < size for r, size in zip(real, sizes)):
            found[n] = x[(image, *real)][first : first + channels]
        for axis in reversed(range(len(sizes))):
            at[axis] += steps[axis]
            if at[axis] <= sizes[axis] - 1 + upper[axis]:
                break
            at[axis] = lower[axis]
        else:
            image += 1
    return found


CASES = {
    "padded row": ((3, 20, 32), [-2], [-1], [1], (0, -2, 0), (1,)),
    "3 x 3, padded": ((2, 5, 7, 64), [-1, -1], [-1, -1], [1, 1], (0, -1, -1, 32), (0, 2)),
    "steps": ((2, 9, 7, 64), [-1, 0], [0, -2], [2, 1], (0, 1, 3, 0), (2, 1)),
    "volume": ((2, 4, 5, 6, 32), [-1, -1, 0], [-1, -1, -2], [1, 1, 1], (0, -1, 2, 1, 0), (0, 2, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_columns_of_pixels(name):
    shape, lower, upper, steps, place, offsets = CASES[name]
    pixels, channels = 64, 32
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).half()
    layout = ttgl.NVMMASharedLayout(swizzle_byte_width=64, element_bitwidth=16, rank=2)
    source = TensorDescriptorIm2Col.from_tensor(
        x, [pixels, channels], layout, element_strides=[1, *steps, 1], pixel_box_lower_corner=lower,
        pixel_box_upper_corner=upper,
    )  # fmt: skip
    out = torch.full((pixels, channels), 7.0).half()
    target = TensorDescriptor.from_tensor(out, [pixels, channels], layout)
    with tileprobe.use("sim:h100"):
        columns[(1,)](source, target, place, offsets, num_warps=1)
    assert torch.equal(out, walked(x, pixels, channels, lower, upper, steps, place, offsets))
