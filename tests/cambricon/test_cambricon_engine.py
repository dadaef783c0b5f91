"""The engine against times worked out by hand on a machine with one channel and one die."""

import pytest
from cambricon_tiny import TINY, run_matrix

from tileprobe.targets.cambricon.engine import state as s
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY


def stats(run):
    return run.state.stats.sum(axis=0)


def test_one_page_in_flash():
    # input 0 .. 0.9 while the page is read (30); compute .. 60; the sums 60 .. 62.5
    run = run_matrix(TINY, rows=8, mode=FLASH_ONLY)
    assert run.total_us == pytest.approx(30 + 30 + 0.1 + 2.4)
    assert stats(run)[s.N_COMPUTED] == 1


def test_two_pages_in_flash_one_input_slot():
    # the second input (0.9) can go only when the first page is done, at 60, and before the first sums;
    # the second page waits in its register: it computes 60.9 .. 90.9, its sums take 2.5
    run = run_matrix(TINY, rows=16, mode=FLASH_ONLY)
    assert run.total_us == pytest.approx(60.9 + 30 + 2.5)


def test_two_pages_in_flash_two_input_slots():
    # both inputs are there before the first page: the second page follows at once
    run = run_matrix(TINY, rows=16, mode=FLASH_ONLY, slots=2)
    assert run.total_us == pytest.approx(90 + 2.5)


def test_input_kept_is_sent_once():
    run = run_matrix(TINY, rows=16, mode=FLASH_ONLY, keep=1)
    assert run.total_us == pytest.approx(90 + 2.5)
    assert stats(run)[s.N_INPUTS] == 1
    assert stats(run)[s.BYTES_INPUT] == 8


def test_one_plane_reads_while_the_core_computes():
    # split mode: one plane computes. Page 0 is read 0 .. 30 and page 1 30 .. 60, while page 0 computes
    run = run_matrix(TINY, rows=16)
    assert run.total_us == pytest.approx(60.9 + 30 + 2.5)


def test_a_slow_array_read_sets_the_pace():
    # reads of 50 us on one plane: pages are ready at 50 and 100, computed in 30
    run = run_matrix(TINY.replace(read_us=50.0), rows=16)
    assert run.total_us == pytest.approx(100 + 30 + 2.5)


def test_register_copy_is_paid_before_computing():
    run = run_matrix(TINY.replace(register_copy_us=2.0), rows=8, mode=FLASH_ONLY)
    assert run.total_us == pytest.approx(30 + 2 + 30 + 2.5)


def test_one_streamed_page():
    # read 30, command 0.1, 72 bytes 7.2, used by the NPU in 1.0
    run = run_matrix(TINY, rows=8, flash=0, use_us=1.0)
    assert run.total_us == pytest.approx(30 + 0.1 + 7.2 + 1.0)
    assert stats(run)[s.N_SLICES] == 5  # 72 bytes in slices of 16


def test_spare_area_stays_when_it_does_not_travel():
    run = run_matrix(TINY.replace(spare_travels=False), rows=8, flash=0)
    assert run.total_us == pytest.approx(30 + 0.1 + 6.4)


def test_two_streamed_pages_on_two_planes():
    # both planes read at once, the channel sends one after the other
    run = run_matrix(TINY, rows=16, mode=NPU_ONLY)
    assert run.total_us == pytest.approx(30 + 2 * (0.1 + 7.2))


def test_two_streamed_pages_on_one_plane_pipeline():
    # page 0 leaves the data register at 30, so page 1 is read 30 .. 60 and sent then
    run = run_matrix(TINY, rows=16, flash=0)
    assert run.total_us == pytest.approx(60 + 0.1 + 7.2)


def test_a_full_npu_buffer_holds_the_stream_back():
    # room for one page: page 1 may start only when page 0 is used up, at 37.3 + 40
    machine = TINY.replace(sram_bytes=128)
    run = run_matrix(machine, rows=16, flash=0, mode=NPU_ONLY, use_us=40.0)
    assert run.total_us == pytest.approx(30 + 7.3 + 40 + 7.3 + 40)


def split_run(sliced):
    """Reads of 27 us: the second page for the NPU (54) is on the channel when the sums are ready (57)."""
    machine = TINY.replace(read_us=27.0)
    return run_matrix(machine, rows=24, flash=1, sliced=sliced)


def test_sums_wait_for_one_slice_at_most():
    # the second streamed page is ready at 54: command 0.1 and slices of 1.6, the second ends at 57.3, so the
    # sums (ready at 57) wait 0.3 and go 57.3 .. 59.8; the page resumes (0.05) with 72 - 32 = 40 bytes
    run = split_run(sliced=True)
    assert stats(run)[s.WAIT_RC] == pytest.approx(0.3)
    assert run.total_us == pytest.approx(57.3 + 2.5 + 0.05 + 4.0)


def test_without_slices_sums_wait_for_the_page():
    # the page goes 54 .. 61.3 as a whole, the sums after it
    run = split_run(sliced=False)
    assert stats(run)[s.WAIT_RC] == pytest.approx(61.3 - 57)
    assert run.total_us == pytest.approx(61.3 + 2.5)


def test_prefetch_starts_the_next_product_with_its_page_in_the_register():
    # product 0 ends at 62.5; the next page has been read meanwhile: input 0.9, compute 30, sums 2.5
    run = run_matrix(TINY, rows=8, groups=2)
    assert run.done_us[0] == pytest.approx(62.5)
    assert run.total_us == pytest.approx(62.5 + 0.9 + 30 + 2.5)


def test_without_prefetch_the_read_waits_for_the_input_to_exist():
    run = run_matrix(TINY.replace(prefetch=False), rows=8, groups=2)
    assert run.total_us == pytest.approx(62.5 + 30 + 30 + 2.5)


def test_edge_blocks_cost_what_they_hold():
    # 4 rows of 8: half of the values to compute, half of the sums to send
    run = run_matrix(TINY, rows=4, mode=FLASH_ONLY)
    assert run.total_us == pytest.approx(30 + 15 + 0.1 + 1.2)


def test_columns_are_separate_requests():
    # 8 x 16 on one channel: two blocks of 8 columns, each with its own input
    run = run_matrix(TINY, rows=8, cols=16, mode=FLASH_ONLY)
    assert stats(run)[s.N_INPUTS] == 2
    assert run.total_us == pytest.approx(60.9 + 30 + 2.5)


def test_two_channels_share_the_columns():
    run = run_matrix(TINY.replace(channels=2), rows=8, cols=16, mode=FLASH_ONLY)
    assert run.total_us == pytest.approx(62.5)


def test_two_dies_share_the_rows_and_the_channel():
    # one broadcast for both; their sums leave one after the other
    run = run_matrix(TINY.replace(dies_per_chip=2), rows=16, mode=FLASH_ONLY)
    assert stats(run)[s.N_INPUTS] == 1
    assert run.total_us == pytest.approx(60 + 2 * 2.5)


def test_a_slow_link_slows_every_channel():
    machine = TINY.replace(channels=2, link_gb_per_s=0.01)  # half a channel's rate for each
    run = run_matrix(machine, rows=8, cols=16, mode=FLASH_ONLY)
    assert run.total_us == pytest.approx(60 + 0.1 + 4.8)
