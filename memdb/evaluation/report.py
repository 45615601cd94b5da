"""The report: one HTML file with everything in it, bars as inline SVG."""

from collections.abc import Iterable, Sequence
from html import escape
from string import Template

from memdb.evaluation.comparing import Comparison
from memdb.evaluation.measuring import MEASURES, Run
from memdb.evaluation.tasks import Completion

__all__ = ["comparison_page", "run_page"]

_COLOURS = ("#3b6ea5", "#c8722c")

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>$title</title><style>
body { font: 15px/1.5 system-ui, "Noto Sans CJK SC", sans-serif; margin: 2em auto; max-width: 60em }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .2em .8em; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums } tr { border-bottom: 1px solid #ddd }
.better { color: #1a7f37 } .worse { color: #b42318 }
</style></head><body><h1>$title</h1>
$body
</body></html>
""")


def run_page(run: Run, tasks: Sequence[Completion]) -> str:
    """Return the report of one pass."""
    rows = [
        (one.query, str(one.rank or "-"), _percent(one.scores["recall"]), f"{one.ms:.0f}", "")
        for one in run.asked
    ]
    return _page(
        f"memdb eval: {run.configuration}",
        [
            _summary([run]),
            _bars([run]),
            _tasks(tasks),
            _table(("question", "first right hit", "recall", "ms"), rows),
        ],
    )


def comparison_page(comparison: Comparison) -> str:
    """Return the report of two passes, with every question that differs first."""
    order = {"worse": 0, "better": 1, "same": 2}
    rows = [
        (
            one.a.query,
            f"{one.a.rank or '-'} → {one.b.rank or '-'}",
            f"{_percent(one.a.scores['recall'])} → {_percent(one.b.scores['recall'])}",
            one.verdict,
            one.verdict,
        )
        for one in sorted(comparison.differences, key=lambda one: order[one.verdict])
    ]
    counts = ", ".join(f"{comparison.count(name)} {name}" for name in ("better", "worse", "same"))
    return _page(
        f"memdb eval: {comparison.a.configuration} (A) and {comparison.b.configuration} (B)",
        [
            _summary([comparison.a, comparison.b]),
            _bars([comparison.a, comparison.b]),
            f"<p>B against A: {counts}; sign test p = {comparison.p_value:.3f}.</p>",
            _table(("question", "first right hit", "recall", "B is"), rows),
        ],
    )


def _page(title: str, parts: Iterable[str]) -> str:
    return _PAGE.substitute(title=escape(title), body="\n".join(parts))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _summary(runs: Sequence[Run]) -> str:
    rows = [
        (
            run.configuration,
            str(len(run.asked)),
            *(_percent(run.mean(name)) for name in MEASURES),
            _percent(run.chains),
            _percent(run.use.share if run.use else None),
            f"{run.latency.p50:.0f} / {run.latency.p95:.0f}",
            "",
        )
        for run in runs
    ]
    measures = (*(name.replace("_", " ") for name in MEASURES), "chains", "used")
    return _table(("configuration", "questions", *measures, "ms p50 / p95"), rows)


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table; the last entry of a row is its class."""
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(
        f'<tr class="{kind}">'
        + f"<td>{escape(first)}</td>"
        + "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
        + "</tr>\n"
        for first, *cells, kind in rows
    )
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _bars(runs: Sequence[Run]) -> str:
    """Draw one group of bars a measure, one bar a run, 0 to 100 %."""
    parts: list[str] = []
    thick = 16
    for place, name in enumerate(MEASURES):
        top = place * (thick * len(runs) + 14)
        parts.append(f'<text x="0" y="{top + 13}">{name.replace("_", " ")}</text>')
        for number, run in enumerate(runs):
            value, y = run.mean(name), top + number * thick
            parts.append(
                f'<rect x="130" y="{y}" width="{400 * value:.1f}" height="{thick - 2}"'
                f' fill="{_COLOURS[number]}"/>'
                f'<text x="{136 + 400 * value:.1f}" y="{y + 13}">{value:.1%}</text>'
            )
    height = len(MEASURES) * (thick * len(runs) + 14)
    return f'<svg width="620" height="{height}" font-size="13" role="img">{"".join(parts)}</svg>'


def _tasks(tasks: Sequence[Completion]) -> str:
    if not tasks:
        return ""
    rows = [
        (f"{one.example} ({one.language})", _percent(one.with_memory), _percent(one.without_memory))
        for one in tasks
    ]
    headers = ("tasks of the examples", "with memory", "without")
    return _table(headers, [(*row, "") for row in rows])
