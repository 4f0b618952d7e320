# SPDX-License-Identifier: Apache-2.0
"""Samples to one SVG: a row per cell, a column per figure, a bar per arm with its value and range.
Every panel has its own scale, which starts at zero."""
import html
import statistics

from cells import CELLS
from report import values

# Heading, unit, field, factor.
FIGURES = (
    ("Proxy CPU per command", "µs, less is better", "proxy_us", 1),
    ("Throughput", "1000 commands/s, more is better", "rate", 1e-3),
    ("p50 latency", "ms, less is better", "p50", 1),
    ("p99 latency", "ms, less is better", "p99", 1),
)
# By Okabe and Ito: told apart by everyone.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442")
TEXT, FAINT = "#222222", "#777777"

MARGIN, PANEL, BAR_AREA = 16, 236, 168  # pixels
BAR, GAP = 13, 3
TOP, ROW_TITLE, ROW_GAP = 78, 20, 14


class Svg:
    def __init__(self):
        self.parts = []

    def text(self, x, y, words, size=11, colour=TEXT, weight="normal"):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
                          f'font-weight="{weight}">{html.escape(words)}</text>')

    def box(self, x, y, width, height, colour):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
                          f'height="{height}" fill="{colour}"/>')

    def line(self, x1, y1, x2, y2, colour=TEXT):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          f'stroke="{colour}" stroke-width="1"/>')

    def whole(self, width, height):
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" ' \
               f'width="{width}" height="{height}" font-family="sans-serif">'
        background = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        return "\n".join([head, background, *self.parts, "</svg>", ""])


def three_digits(value):
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2 if value >= 1 else 3}f}"


def panel(svg, x, y, arms, samples, figure):
    """The bars of one cell and figure; arms without the figure leave their line empty."""
    _, _, field, factor = figure
    found = {arm: [factor * each for each in values([s for s in samples if s["arm"] == arm], field)]
             for arm in arms}
    longest = max((max(each) for each in found.values() if each), default=0)
    for index, arm in enumerate(arms):
        top = y + index * (BAR + GAP)
        if not found[arm] or not longest:
            svg.text(x + 2, top + BAR - 3, "-", 10, FAINT)
            continue
        low, middle, high = (each * BAR_AREA / longest for each in
                             (min(found[arm]), statistics.median(found[arm]), max(found[arm])))
        svg.box(x, top, middle, BAR, COLOURS[index % len(COLOURS)])
        svg.line(x + low, top + BAR / 2, x + high, top + BAR / 2)
        svg.text(x + high + 4, top + BAR - 3, three_digits(statistics.median(found[arm])), 10)
    svg.line(x, y - 2, x, y + len(arms) * (BAR + GAP), FAINT)


def draw(about, samples, mode):
    """The chart of one mode."""
    arms, svg = about["arms"], Svg()
    samples = [each for each in samples if each["mode"] == mode and "error" not in each]
    width = MARGIN + len(FIGURES) * PANEL
    svg.text(MARGIN, 20, f"Redis Cluster proxies, {mode}: {about['modes'][mode]}", 13,
             weight="bold")
    for index, arm in enumerate(arms):
        svg.box(MARGIN + index * 130, 30, 10, 10, COLOURS[index % len(COLOURS)])
        svg.text(MARGIN + index * 130 + 14, 39, arm)
    for column, (heading, unit, *_) in enumerate(FIGURES):
        svg.text(MARGIN + column * PANEL, 58, heading, weight="bold")
        svg.text(MARGIN + column * PANEL, 71, unit, 10, FAINT)
    y = TOP
    for cell in CELLS.values():
        here = [each for each in samples if each["cell"] == cell.name]
        if not here:
            continue
        svg.text(MARGIN, y + 14, cell.title, weight="bold")
        for column, figure in enumerate(FIGURES):
            panel(svg, MARGIN + column * PANEL, y + ROW_TITLE + 2, arms, here, figure)
        y += ROW_TITLE + len(arms) * (BAR + GAP) + ROW_GAP
    note = "bars: medians over rounds; lines: lowest to highest; every panel has its own scale"
    svg.text(MARGIN, y + 10, note, 10, FAINT)
    return svg.whole(width, y + 22)
