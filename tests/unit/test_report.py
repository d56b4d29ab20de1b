"""Reports: whole, in order, safe with any words, and at ease in a browser where there is one."""

from __future__ import annotations

import html.parser
import json
from typing import Any

import pytest

from planner.cli.app import run
from planner.reporting.blocks import Rows, sections
from planner.reporting.report import report_of_plan
from planner.reporting.tables import plan_table
from planner.spec import dump_json
from tests.browser import browser, needs_browser
from tests.plans import SCENARIO, infeasible, plan, pool, workload

HOSTILE = "<script>alert(1)</script>\"'&`|*_[x](http://e.test)"
DARK = [{"name": "prefers-color-scheme", "value": "dark"}]


class Reader(html.parser.HTMLParser):
    """Collects tags and where they point."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k in ("href", "src", "xlink:href", "action")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def hostile() -> Any:
    document = {**json.loads(json.dumps(SCENARIO)), "name": HOSTILE}
    return plan(
        scenario={"document": document, "origins": {}},
        pools=[pool(engine=HOSTILE, curve={**pool()["curve"], "caveat": HOSTILE})],
        bill=[{"item": HOSTILE, "usd_per_hour": 12.0}],
        rejected=[{"template": HOSTILE, "reason": HOSTILE, "numbers": {}}],
    )


def causes(**shares: float) -> dict[str, Any]:
    names = (
        "queue", "prefill", "prefill_interference", "kv_block_wait", "kv_transfer", "handoff",
        "decode_solo", "decode_batch", "decode_interference", "preemption", "admission", "failed",
    )  # fmt: skip
    return workload(misses={name: shares.get(name, 0.0) for name in names})


def test_a_report_says_all_that_the_table_says():
    given = plan(workloads=[causes(queue=0.02, preemption=0.01)])
    page = "".join(read(report_of_plan(given, "html")).text)
    for section in sections(plan_table(given)):
        assert section.heading in page
        for block in section.blocks:
            cells = [c for row in block.rows for c in row] if isinstance(block, Rows) else []
            assert all(cell in page for cell in cells)


def test_the_answer_comes_first_then_the_bill():
    page = report_of_plan(plan(), "html")
    order = [page.index(f"<h2>{name}") for name in ("Bill", "Limits", "Pools", "Promises", "Why")]
    assert page.index("<h1>Hand made") < order[0]
    assert order == sorted(order)


def test_without_a_fleet_the_reason_comes_before_the_contents():
    page = report_of_plan(infeasible(), "html")
    assert page.index("218 ms for an isolated prefill") < page.index("<nav>")


def test_what_a_promise_bears_comes_before_causes_and_alternatives():
    page = report_of_plan(plan(workloads=[causes(queue=0.02)]), "html")
    names = ("Promises", "Attainment of this fleet if demand", "Missed deadlines", "Why not")
    order = [page.index(f"<h2>{name}") for name in names]
    assert order == sorted(order)


def test_points_of_a_line_say_their_values():
    given = plan()
    page = report_of_plan(given, "html")
    told = [p for p in given.evidence.demand_sweep if p.attainment]
    assert page.count("</title></circle>") >= len(told) >= 2


def test_pictures_show_bill_causes_and_demand():
    given = plan(workloads=[causes(queue=0.02, preemption=0.01)])
    page = report_of_plan(given, "html")
    assert (page.count("<svg"), page.count('<div class="bar">')) == (1, 2)
    assert "queue: 2.00 %" in page or "queue: 2.0 %" in page


def test_nothing_of_the_page_lies_elsewhere():
    for given in (plan(), infeasible(), hostile()):
        reader = read(report_of_plan(given, "html"))
        assert all(link.startswith(("#", "data:,")) for link in reader.links)
        assert reader.tags.count("script") == 1
        assert not {"iframe", "img", "object", "form", "base"} & set(reader.tags)


def test_words_of_a_plan_are_no_markup():
    page = report_of_plan(hostile(), "html")
    assert HOSTILE in "".join(read(page).text)
    text = report_of_plan(hostile(), "md")
    assert "<script" not in text.replace("\\<script", "")
    assert "](http" not in text.replace("\\](http", "").replace("\\]\\(", "")


def test_tables_of_markdown_keep_their_columns():
    for line in report_of_plan(hostile(), "md").splitlines():
        if line.startswith("| "):
            bars = line.replace("\\|", "").count("|")
            assert bars >= 3
    text = report_of_plan(plan(), "md").splitlines()
    start = next(i for i, line in enumerate(text) if line.startswith("| item"))
    assert len({line.count("|") for line in text[start : start + 4]}) == 1


def test_no_fleet_is_told_with_its_reason(tmp_path, capsys):
    file = tmp_path / "plan.json"
    file.write_text(dump_json(infeasible()), encoding="utf-8")
    assert run(["report", str(file)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("# Hand made: no fleet keeps every promise.")
    assert "218 ms for an isolated prefill" in told
    page = tmp_path / "report.html"
    assert run(["report", str(file), "-o", str(page)]) == 0
    assert "218 ms for an isolated prefill" in page.read_text(encoding="utf-8")


def test_the_same_plan_gives_the_same_bytes():
    assert report_of_plan(plan(), "html") == report_of_plan(plan(), "html")


def test_what_is_refused(tmp_path, capsys):
    file = tmp_path / "plan.json"
    file.write_text(dump_json(plan()), encoding="utf-8")
    assert run(["report", str(file), "-o", str(tmp_path / "x.pdf")]) == 2
    assert "html or md" in capsys.readouterr().err
    assert run(["report", str(file), "--format", "pdf"]) == 2
    assert run(["report", str(file), "-o", str(file), "--format", "md"]) == 2
    (tmp_path / "rows.json").write_text('{"name": 3}', encoding="utf-8")
    capsys.readouterr()
    assert run(["report", str(tmp_path)]) == 2
    assert "rows of a study" in capsys.readouterr().err


def test_a_study_has_its_picture(tmp_path, capsys):
    out = tmp_path / "out"
    words = ["whatif", "scenarios/capacity-table.yaml", "--jobs", "1", "-o", str(out)]
    assert run([*words, "--over", "capacity_tables.rate=20 req/s..40 req/s/3"]) == 0
    capsys.readouterr()
    page = tmp_path / "study.html"
    assert run(["report", str(out), "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "capacity-table: 3 of 3 runs planned" in text
    assert text.count("<polyline") == 1


@needs_browser
def test_in_a_real_browser(tmp_path):
    file = tmp_path / "report.html"
    given = plan(workloads=[causes(queue=0.02, preemption=0.01)])
    file.write_text(report_of_plan(given, "html"), encoding="utf-8")
    bad = tmp_path / "hostile.html"
    bad.write_text(report_of_plan(hostile(), "html"), encoding="utf-8")
    with browser(tmp_path / "profile") as page:
        for path in (file, bad):
            for width in (390, 1440):
                page.open(path, width, dark=width == 390)
                assert page.ask("document.documentElement.scrollWidth <= innerWidth")
                small = "parseFloat(getComputedStyle(document.body).fontSize) >= 14"
                assert page.ask(small)
                figures = "[...document.querySelectorAll('figure')]"
                over = page.ask(f"{figures}.map(f => f.scrollWidth - f.clientWidth)")
                assert max(over) <= 0
        page.open(file, 1440)
        drawn = "[...document.querySelectorAll('svg,.bar span:first-child')]"
        heights = page.ask(f"{drawn}.map(s => s.getBoundingClientRect().height)")
        assert len(heights) == 3
        assert all(height > 15 for height in heights)
        assert max(heights) > 200
        column = (
            "[...document.querySelector('#s0 table').tBodies[0].rows]"
            ".map(r => parseFloat(r.cells[1].textContent.slice(1)))"
        )
        button = "document.querySelectorAll('#s0 th button')[1].click()"
        page.ask(button)
        assert page.ask(column) == sorted(page.ask(column))
        page.ask(button)
        assert page.ask(column) == sorted(page.ask(column), reverse=True)
        page.call("Emulation.setEmulatedMedia", media="print", features=DARK)
        for part in ("body", "figcaption", "th"):
            colour = page.ask(f"getComputedStyle(document.querySelector('{part}')).color")
            assert max(map(int, colour[4:-1].split(","))) < 128, "dark on paper"
        assert page.pdf().startswith(b"%PDF")
        assert page.complaints == []
        assert {url.split(":")[0] for url in page.requests} == {"file"}
        assert len(page.requests) == 5


@pytest.mark.parametrize("form", ["html", "md"])
def test_both_forms_end_with_the_seed(form):
    assert "planner 0.1.0, seed 0" in report_of_plan(plan(), form)[-1500:]
