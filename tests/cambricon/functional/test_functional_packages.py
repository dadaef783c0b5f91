"""Several packages in values: integer sums added up over a link are those of one flash, to the last bit."""

import numpy as np
import pytest
from functional_models import CONFIGS, EXAMPLE, write_folder

from tileprobe.cli import main
from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.functional.model import FlashModel

TOKENS = [5, 17, 200, 3]


@pytest.mark.parametrize("weights", ["w8a8", "w4a16"])
@pytest.mark.parametrize("packages", [2, 4])
def test_a_tensor_split_changes_no_bit(tmp_path, packages, weights):
    config = {**CONFIGS["opt"], "ffn_dim": 92} if packages == 4 else {**CONFIGS["llama"], "vocab_size": 1022}
    folder = write_folder(tmp_path / "model", config)
    one, many = (
        FlashModel.load(folder, weights=weights, smoothing=None, options=Options(packages=n))
        for n in (1, packages)
    )
    whole, split = (model.transformer(TOKENS, model.new_cache()) for model in (one, many))
    assert np.array_equal(whole, split)
    assert many.flash.work.saturated == 0
    assert len(many.flash.parts) == packages
    stored = [m.pages.size for part in many.flash.parts for m in part.matrices.values()]
    assert min(stored) > 0


def test_cells_of_packages_have_errors_of_their_own(tmp_path):
    folder = write_folder(tmp_path / "model", {**CONFIGS["llama"], "vocab_size": 1022})
    model = FlashModel.load(folder, smoothing=None, ecc="none", options=Options(packages=2))
    clean = model.flash.snapshot()
    before = model.transformer(TOKENS, model.new_cache())
    flips = model.inject(1e-3, seed=3)
    first, second = (
        sum(int(np.unpackbits(clean[f"{n} {name}"] ^ m.pages).sum()) for name, m in part.matrices.items())
        for n, part in enumerate(model.flash.parts)
    )
    assert flips.total == first + second
    assert first != second
    assert model.flash.audit(model.quantised.values, flips).hit > 0
    assert not np.array_equal(model.transformer(TOKENS, model.new_cache()), before)
    model.flash.restore(clean)
    assert np.array_equal(model.transformer(TOKENS, model.new_cache()), before)


def test_generate_writes_the_same_text(capsys):
    run = ["llm", "generate", "--model", str(EXAMPLE), "--prompt", "Mr.", "--tokens", "6", "--each-token"]

    def text(*more):
        assert main([*run, *more]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [line.split(" ms  ")[1] for line in lines if " ms  '" in line]

    assert text() == text("--packages", "2") != []
    with pytest.raises(TileProbeError, match="cannot be split between 7 packages"):
        FlashModel.load(EXAMPLE, options=Options(packages=7))
