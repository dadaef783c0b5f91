"""Names that tell kernels apart."""

from tileprobe.tools.signatures import labels
from tileprobe.trace import Clock, Kernel


def kernel(number, file, signature="x: *fp32", name="kern"):
    return Kernel(number, name, "cpu", Clock(1e9), file, 1, signature=signature)


def names(*kernels):
    return list(labels(kernels).values())


def test_kernels_of_several_files_are_told_apart_by_as_much_of_the_path_as_it_takes():
    found = names(kernel(0, "/w/ma/k.py"), kernel(1, "/w/mb/k.py"), kernel(2, "/w/other.py", name="alone"))
    assert found == ["kern (ma/k.py)", "kern (mb/k.py)", "alone"]


def test_files_of_different_names_need_no_folder():
    assert names(kernel(0, "/w/a.py", ""), kernel(1, "/w/b.py", "")) == ["kern (a.py)", "kern (b.py)"]


def test_what_differs_in_the_signature_is_enough():
    found = names(kernel(0, "/w/a.py", "x: *fp32, B=1"), kernel(1, "/w/b.py", "x: *fp32, B=2"))
    assert found == ["kern [B=1]", "kern [B=2]"]


def test_kernels_of_one_file_are_numbered():
    found = names(kernel(0, "/w/a.py", ""), kernel(1, "/w/a.py", ""), kernel(2, "/w/b.py", ""))
    assert found == ["kern (a.py)", "kern (a.py) #2", "kern (b.py)"]
