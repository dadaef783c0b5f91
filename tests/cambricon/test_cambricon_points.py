"""Points of sweeps and searches: what their settings may be, and the figures that they have."""

import pytest

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.points import FIGURES, run_point, value_of


@pytest.mark.parametrize(
    ("name", "text", "takes"),
    [
        ("context", "1.5", "whole numbers"),
        ("batch", "true", "whole numbers"),
        ("packages", "2.0", "whole numbers"),
        ("lm_head", "3", "true and false"),
        ("acceptance", "true", "numbers"),
        ("read_us", "abc", "numbers, or true and false"),
    ],
)
def test_a_value_of_the_wrong_kind(name, text, takes):
    with pytest.raises(TileProbeError, match=f"{name} takes {takes}; found '{text}'"):
        value_of(name, text)


def test_values_of_the_right_kind():
    assert [value_of(*pair) for pair in (("context", "10"), ("acceptance", "1"), ("lm_head", "true"))] == [
        10,
        1.0,
        True,
    ]
    assert value_of("model", "7") == "7"


def test_a_point_has_the_figures_that_can_be_plotted():
    assert set(run_point({"model": "opt-6.7b", "device": "cambricon:s", "context": 10})) == set(FIGURES)


def test_a_plot_of_what_no_point_has_is_refused_before_the_first(tmp_path, capsys):
    sweep = [
        "llm",
        "sweep",
        "--model",
        "opt-6.7b",
        "--vary",
        "context=10",
        "--plot",
        "model",
        "--out",
        str(tmp_path / "s"),
    ]
    assert main(sweep) == 2
    assert "--plot model: a point has no such figure; it has tokens_per_s" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
