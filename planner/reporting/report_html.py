"""A report as one page that needs nothing else: no network, no library, any screen, any printer."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from planner.reporting.blocks import Items, Paragraph, Rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.reporting.blocks import Block, Section

LONG: Final = 16
"""Letters from which a column of words keeps some width on a narrow screen."""
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)
"""What a browser may do with the page: nothing of it comes from elsewhere."""
_STYLE: Final = """
:root{--fg:#1d2733;--dim:#5b6875;--bg:#fff;--rule:#d9dfe5;--soft:#f4f6f8;--mark:#1f5fa8;
--k0:#1f5fa8;--k1:#c0562f;--k2:#4a8f4a;--k3:#7a5aa6}
@media screen and (prefers-color-scheme:dark){
:root{--fg:#e4e9ee;--dim:#9aa7b4;--bg:#14191f;--rule:#333d47;--soft:#1c232b;--mark:#7fb2ee;
--k0:#7fb2ee;--k1:#f0956c;--k2:#84c784;--k3:#bea3e6}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:1100px;padding:1rem 1rem 4rem;
color:var(--fg);background:var(--bg);overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:1rem 0 .6rem}
h2{font-size:1.1rem;margin:2.2rem 0 .5rem;border-top:1px solid var(--rule);padding-top:.8rem}
nav{font-size:.85rem;columns:16rem;margin:1rem 0;padding:.6rem .8rem;background:var(--soft)}
nav a{display:block;color:var(--mark);text-decoration:none;break-inside:avoid}
ul{margin:.3rem 0;padding-left:1.1rem}p{margin:.4rem 0}
.answer ul{list-style:none;padding:0;font-size:1.05rem}
.wide{overflow-x:auto;max-width:100%;background:linear-gradient(90deg,var(--bg) 30%,transparent)
0/3rem,linear-gradient(270deg,var(--bg) 30%,transparent) 100%/3rem,
linear-gradient(90deg,var(--rule),transparent) 0/.8rem,
linear-gradient(270deg,var(--rule),transparent) 100%/.8rem;
background-repeat:no-repeat;background-attachment:local,local,scroll,scroll}
table{border-collapse:collapse;font-size:.9rem;min-width:min(100%,20rem)}
th,td{padding:.25rem .8rem .25rem 0;text-align:left;vertical-align:top;
white-space:pre-line;overflow-wrap:break-word}
th{border-bottom:1px solid var(--rule);color:var(--dim);font-weight:600}
th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid var(--mark)}
th[aria-sort=ascending] button::after{content:" \\25B2"}
th[aria-sort=descending] button::after{content:" \\25BC"}
td.n,th.n{text-align:right;white-space:pre;font-variant-numeric:tabular-nums}
tbody tr:hover{background:var(--soft)}
figure{margin:.8rem 0;max-width:760px}figcaption{color:var(--dim);font-size:.85rem}
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--fg)}
svg path[stroke="#ddd"]{stroke:var(--rule)}svg path[stroke="#444"]{stroke:var(--dim)}
.place svg text{fill:#333}.place svg text.n{font-size:10px;fill:#fff}.place svg{background:#fff}
.place ul{list-style:none;padding:0}.place li span{display:inline-block;width:14px;height:14px;
margin-right:.5rem;vertical-align:-2px;border:1px solid #888;border-radius:3px}
.place{overflow-x:auto}.place h2{border:0;font-size:1rem;margin:.6rem 0}
svg [stroke="#1f5fa8"]{stroke:var(--k0)}svg [stroke="#c0562f"]{stroke:var(--k1)}
svg [stroke="#4a8f4a"]{stroke:var(--k2)}svg [stroke="#7a5aa6"]{stroke:var(--k3)}
svg [fill="#1f5fa8"]{fill:var(--k0)}svg [fill="#c0562f"]{fill:var(--k1)}
svg [fill="#4a8f4a"]{fill:var(--k2)}svg [fill="#7a5aa6"]{fill:var(--k3)}
.name{font-size:.85rem;margin-top:.5rem}.bar{display:flex;align-items:center;height:1.3rem}
.bar span{height:100%;min-width:1px;print-color-adjust:exact}
.bar b{font-weight:400;font-size:.85rem;margin-left:.4rem;white-space:nowrap}
.legend{list-style:none;padding:0;font-size:.85rem;display:flex;flex-wrap:wrap;gap:.2rem 1rem}
.legend span{display:inline-block;width:12px;height:12px;margin-right:.4rem;border-radius:2px;
print-color-adjust:exact}
.legend i{display:inline-block;width:1.6rem;border-top:2px solid;margin-right:.4rem;
vertical-align:.25em}
.legend i.dash{border-top-style:dashed}.k0{color:var(--k0)}.k1{color:var(--k1)}
.k2{color:var(--k2)}.k3{color:var(--k3)}
@media (max-width:640px){td.w{overflow-wrap:anywhere;min-width:9.5rem}.place svg{min-width:900px}
figure svg text{font-size:20px}figure svg text[transform]{display:none}}
details{margin:1rem 0}summary{cursor:pointer;color:var(--mark)}
footer{margin-top:3rem;color:var(--dim);font-size:.85rem}
@media print{nav,summary{display:none}body{max-width:none;color:#000;background:#fff}
h2{break-after:avoid}tr,figure,svg{break-inside:avoid}.wide{overflow:visible;background:none}}
"""
_SCRIPT: Final = """
"use strict";
const value = (text) => {
  const found = text.replace(/,/g, "").match(/-?\\d+(\\.\\d+)?(e[+-]?\\d+)?/i);
  return found === null ? null : Number(found[0]);
};
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, table = head.closest("table");
    const column = [...head.parentElement.children].indexOf(head);
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const numbers = head.classList.contains("n");
    const rows = [...table.tBodies[0].rows];
    const key = (row) => row.cells[column].textContent;
    rows.sort((a, b) => {
      const x = key(a), y = key(b);
      if (!numbers) return x.localeCompare(y);
      const i = value(x), j = value(y);
      if (i === null || j === null) return (i === null) - (j === null);
      return i - j;
    });
    if (!up) rows.reverse();
    table.tBodies[0].append(...rows);
  });
}
window.addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details")) one.open = true;
});
"""


def page(
    sections: Sequence[Section],
    pictures: Mapping[str, str],
    folded: Sequence[Section] = (),
    foot: str = "",
) -> str:
    """Write the page.

    Args:
        sections: The first is the answer; the others follow in this order. Where it is only a
            heading, the second stands before the list of contents too.
        pictures: SVG or HTML of ours, by the heading under which it stands.
        folded: Sections that are shut until someone opens them.
        foot: The last line.
    """
    answer, *rest = sections
    title = escape(answer.heading)
    links = "".join(
        f'<a href="#s{i}">{escape(one.heading)}</a>'
        for i, one in enumerate([*rest, *folded])
        if one.heading
    )
    body = [f"<h1>{title}</h1>", f'<div class="answer">{_blocks(answer.blocks)}</div>']
    first = 0 if answer.blocks else 1
    for i, one in enumerate(rest):
        if i == first:
            body.append(f"<nav>{links}</nav>")
        body.append(
            f'<section id="s{i}"><h2>{escape(one.heading)}</h2>'
            f"{pictures.get(one.heading, '')}{_blocks(one.blocks)}</section>"
        )
    for i, one in enumerate(folded, start=len(rest)):
        body.append(
            f'<details id="s{i}"><summary>{escape(one.heading)}</summary>'
            f"{_blocks(one.blocks)}</details>"
        )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<link rel="icon" href="data:,"><title>{title}</title><style>{_STYLE}</style></head>'
        f"<body>{''.join(body)}<footer>{escape(foot)}</footer><script>{_SCRIPT}</script></body>"
        "</html>\n"
    )


def _blocks(blocks: Sequence[Block]) -> str:
    return "".join(map(_block, blocks))


def _block(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Items):
        return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in block.items)}</ul>"
    return _table(block)


def _table(rows: Rows) -> str:
    longest = [max((len(row[i]) for row in rows.rows), default=0) for i in range(len(rows.right))]
    kind = [
        "n" if right else ("w" if most > LONG else "")
        for right, most in zip(rows.right, longest, strict=True)
    ]
    head = "".join(
        f'<th class="{k}" scope="col"><button type="button">{escape(name)}</button></th>'
        for name, k in zip(rows.headers, kind, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{k}">{escape(cell)}</td>' for cell, k in zip(row, kind, strict=True))
        + "</tr>"
        for row in rows.rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'
