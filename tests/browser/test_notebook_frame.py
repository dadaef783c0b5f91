"""What a notebook is given, in a browser and in IPython."""

import subprocess
import sys
import textwrap

from made import attention

from tileprobe.tools.regions import Regions
from tileprobe.views.notebook import result_html, table_html, trace_html

BAD = '</iframe><script>window.pwned = 1; parent.pwned = 1</script>"><img src=x onerror=parent.pwned=2>'


def test_the_frame_draws_and_reaches_nothing(browser, tmp_path):
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><p id=cell>{trace_html(attention(launches=1, name=BAD))}")
    context = browser.new_context()
    page = context.new_page()
    page.goto(file.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(state="attached")
    assert frame.locator("#regions tbody tr").count() == 10
    assert "s = tl.dot(q, k)" in frame.locator("#code").inner_text()
    assert frame.locator("#canvas").is_visible()
    assert page.locator("iframe").get_attribute("sandbox") == "allow-scripts"
    assert page.evaluate("window.pwned") is None
    assert page.locator("img").count() == frame.locator("img").count() == 0
    inside = page.frames[1]
    reached = inside.evaluate(
        "(() => { try { return String(parent.document.body) } catch { return 'no' } })()"
    )
    assert reached == "no"
    context.close()


def test_tables_and_results_are_escaped():
    result = Regions().read(attention(name="<b>x</b>"))
    assert "<b>" not in result_html(result)
    assert "&lt;b&gt;x&lt;/b&gt;" in result_html(result)
    assert "dot @ 35" in table_html(result.tables[0])


def test_traces_results_and_tables_show_themselves():
    """By the method that every front end of notebooks asks for."""
    result = Regions().read(attention())
    assert attention()._repr_html_().startswith("<iframe sandbox")
    assert "dot @ 35" in result._repr_html_()
    assert all(finding.text.split()[0] in result._repr_html_() for finding in result.findings)
    assert result.tables[0]._repr_html_() == table_html(result.tables[0])


def test_ipython_shows_traces_results_and_tables():
    """In a process of its own: a shell is there once for all."""
    code = """
    import sys
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance()
    sys.path.insert(0, "tests/trace")
    from made import attention
    from tileprobe.tools.regions import Regions
    result = Regions().read(attention())
    for shown in (attention(), result, result.tables[0]):
        data, _ = shell.display_formatter.format(shown)
        print(data["text/html"][:7])
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\n")[-4:-1] == ["<iframe", "<pre st", "<pre st"]
