# SPDX-License-Identifier: Apache-2.0
"""Samples to tables: medians over rounds with their range, and ratios that are paired per round."""
import statistics

from cells import CELLS

# Heading, field, factor, decimals.
COLUMNS = (
    ("1000 commands/s", "rate", 1e-3, 1),
    ("p50 ms", "p50", 1, 3),
    ("p99 ms", "p99", 1, 3),
    ("p99.9 ms", "p999", 1, 3),
    ("proxy CPU µs/command", "proxy_us", 1, 3),
    ("server CPU µs/command", "server_us", 1, 3),
)
COUNTS = (("allocations", "allocations", 4), ("sends", "sends", 3), ("turns", "turns", 3),
          ("handed over", "handed_over", 2), ("wakes", "wakes", 4))
RATIOS = (("proxy CPU", "proxy_us"), ("server CPU", "server_us"), ("commands/s", "rate"))


def values(samples, field):
    return [each[field] for each in samples if each.get(field) is not None]


def spread(samples, field, factor=1, decimals=3):
    """The median, and the range behind it: "7.12 (7.01..7.30)"."""
    found = [factor * each for each in values(samples, field)]
    if not found:
        return "-"
    if not any(found):
        return "0"
    low, middle, high = (f"{each:.{decimals}f}"
                         for each in (min(found), statistics.median(found), max(found)))
    return middle if low == high else f"{middle} ({low}..{high})"


def paired_ratio(samples, reference, field):
    """The median over rounds of this arm against the reference arm of the same round."""
    by_round = {each["round"]: each.get(field) for each in reference}
    ratios = [each[field] / by_round[each["round"]] for each in samples
              if each.get(field) and by_round.get(each["round"])]
    return f"{statistics.median(ratios):.2f}" if ratios else "-"


def notes(samples, failures):
    found = []
    disturbed = sum(each["disturbed"] for each in samples)
    if disturbed:
        worst = max(values(samples, "foreign_cpus"))
        found.append(f"{disturbed} of {len(samples)} disturbed (up to {worst:.2f} foreign CPUs)")
    missed = max(values(samples, "missed"), default=0)
    if missed > 0.01:
        found.append(f"{100 * missed:.0f} % of the GETs found nothing")
    if failures:
        found.append(f"{len(failures)} failed: {failures[0]['error']}")
    return "; ".join(found)


def cell_table(samples, arms):
    """The Markdown table of one cell in one mode; the first arm is what ratios refer to."""
    headings = [heading for heading, *_ in COLUMNS]
    headings += [f"{heading}/command" for heading, *_ in COUNTS]
    headings += [f"{heading} : {arms[0]}" for heading, _ in RATIOS] + ["notes"]
    lines = ["| arm | " + " | ".join(headings) + " |", "|---" * (len(headings) + 1) + "|"]
    good = {arm: [each for each in samples if each["arm"] == arm and "error" not in each]
            for arm in arms}
    for arm in arms:
        failures = [each for each in samples if each["arm"] == arm and "error" in each]
        if not good[arm] and not failures:
            continue
        row = [spread(good[arm], field, factor, decimals)
               for _, field, factor, decimals in COLUMNS]
        row += [spread(good[arm], field, 1, decimals) for _, field, decimals in COUNTS]
        row += [paired_ratio(good[arm], good[arms[0]], field) for _, field in RATIOS]
        row.append(notes(good[arm], failures))
        lines.append(f"| {arm} | " + " | ".join(row) + " |")
    return lines


def kept(samples):
    """Of the tries at one sample, the least disturbed one."""
    best = {}
    for each in samples:
        key = tuple(each[name] for name in ("mode", "cell", "arm", "round"))
        if key not in best or badness(each) < badness(best[key]):
            best[key] = each
    return list(best.values())


def badness(sample):
    return "error" in sample, sample.get("foreign_cpus", 0)


def markdown(about, samples):
    arms = about["arms"]
    lines = ["# Comparison", "", f"- machine: {about['machine']}",
             f"- servers: three masters, redis {about['redis']}",
             f"- load: {about['load']}; a sample is a window of {about['seconds']} s under load, "
             "with a fresh proxy", f"- {about['rounds']} rounds, the order of arms reversed every "
             "other round; medians (min..max)",
             f"- ratios are to {arms[0]}, paired per round; sends, turns, hand-overs between "
             "workers and wakes are Penstock's own counts; allocations are the null backend's",
             "- direct opens its connections to every node", ""]
    for mode, title in about["modes"].items():
        for cell in CELLS.values():
            here = [each for each in samples
                    if each["mode"] == mode and each["cell"] == cell.name]
            if here:
                tool = f" ({cell.tool})" if cell.tool else ""
                lines += [f"## {mode}: {cell.title}{tool}", "", f"{title}.", ""]
                lines += cell_table(here, arms) + [""]
    return "\n".join(lines)
