"""Works are told apart by grid and arguments, and people are told what they are."""

import numpy as np
import session_kernels as K
import triton
import triton.language as tl

import tileprobe
from tileprobe.session import arguments
from tileprobe.session.arguments import REAL_VALUES, VALUES, WORKS, Telling, in_words
from tileprobe.targets.cpu.launch_pack import make_tell, slots_of

NAMED = (("x", "*fp32"), ("n", "i32"), ("scale", "fp32"), ("causal", "i1"))


def keys(values, place=1, grid=(4, 1, 1)):
    """The keys of launches whose one argument takes these values."""
    telling = Telling()
    return [telling.key(grid, [*[0] * place, value]) for value in values]


def test_numbers_shapes_and_grids_make_works():
    telling = Telling()
    launches = [((4, 1, 1), [(1024, 64), 7]), ((4, 1, 1), [(1024, 64), 8]), ((4, 1, 1), [(512, 64), 7])]
    launches.append(((5, 1, 1), [(1024, 64), 7]))
    found = [telling.key(grid, values) for grid, values in launches]
    assert len(set(found)) == 4
    assert [telling.key(grid, values) for grid, values in launches] == found


def test_a_number_that_is_always_another_counts_by_its_magnitude():
    found = keys(range(1000, 3000))
    assert len(set(found)) == VALUES + 3  # the first ones, then 512.., 1024.., 2048..
    assert found[0] != found[1]
    assert found[-1] == found[-2] != found[200]
    assert found[0] == keys(range(1000, 3000))[0]


def test_real_numbers_that_keep_changing_do_not_count():
    found = keys(np.linspace(0.0, 1.0, 50).tolist())
    assert len(set(found)) == REAL_VALUES + 1
    assert len(set(keys([float("nan")] * 9))) == 1


def test_beyond_so_many_works_the_rest_share_one():
    telling = Telling()
    found = [telling.key((n, 1, 1), ()) for n in range(WORKS + 10)]
    assert len(set(found)) == WORKS + 1
    assert found[-1] is None
    assert telling.full
    assert telling.key((0, 1, 1), ()) == found[0]


def test_values_that_cannot_be_looked_up_do_no_harm():
    assert len(set(keys([[1, 2], [1, 3], object(), None, np.int64(3), 3, "a"]))) == 5


def test_people_read_names_and_types():
    key = ((4, 1, 1), (1024, 64), 4096, 0.5, True)
    assert in_words(key, NAMED) == "n=4096, scale=0.5, causal=True; x 1024x64 f32"
    assert in_words(None, NAMED) == "others"
    assert in_words(((4, 1, 1), 3), ()) == "#0=3"


def test_what_a_launcher_tells():
    slots = slots_of(["x", "n", "BLOCK", "parts"], ["*fp32", "i32", "constexpr", ("i32", "*i8")])
    tell = make_tell(4, slots)
    x = tileprobe.array(np.zeros((3, 5), np.float32))
    assert tell(x, 7, 128, (1, x)) == ((3, 5), 7, 1, (3, 5))
    assert tell(1234, 7, 128, (1, None)) == (None, 7, 1, None)  # an address, no tensor


def test_a_kernel_shows_how_it_was_specialised():
    with tileprobe.profile(alternate=False) as session:
        K.launch(K.loop_kernel, 2, 7)
        K.launch(K.loop_kernel, 2, 16)
    found = {kernel.signature for kernel in session.trace.kernels}
    assert found == {
        "x: *fp32, out: *fp32, n: i32, BLOCK=2048, num_warps=4",
        "x: *fp32, out: *fp32, n: i32 %16, BLOCK=2048, num_warps=4",
    }


def test_too_many_works_are_said(monkeypatch, capsys):
    monkeypatch.setattr(arguments, "WORKS", 3)
    with tileprobe.profile(alternate=False) as session:
        for programs in range(1, 8):
            K.launch(K.scale_kernel, programs, 2.0)
    assert [(work.arguments, work.grid, work.ran) for work in session.trace.works][3:] == [("others", (), 4)]
    assert sum(work.probed for work in session.trace.works) == 7
    session.report()
    assert "scale_kernel: called with more than" in " ".join(capsys.readouterr().out.split())


@triton.jit
def float_kernel(x, out, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * by)


def test_tensors_of_another_shape_are_another_work():
    with tileprobe.profile() as session:
        for shape in ((2, K.BLOCK), (4, K.BLOCK), (2, K.BLOCK)):
            x = tileprobe.array(np.zeros(shape, np.float32))
            float_kernel[(2,)](x, x, 2.0, BLOCK=K.BLOCK)
    assert [(work.ran, work.arguments) for work in session.trace.works] == [
        (2, "by=2; x 2x2048 f32, out 2x2048 f32"),
        (1, "by=2; x 4x2048 f32, out 4x2048 f32"),
    ]
