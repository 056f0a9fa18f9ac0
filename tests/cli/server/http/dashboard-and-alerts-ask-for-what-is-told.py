# SPDX-License-Identifier: BSD-3-Clause
"""Whether a dashboard of Grafana and rules of Prometheus ask only for metrics and labels that there are.

    PROGRAM METRICS DASHBOARD RULES EXPRESSIONS

Writes the dashboard's expressions, as rules, to the file EXPRESSIONS.
"""
import json
import re
import sys

import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

metrics, dashboard, rules, expressions = sys.argv[1:]
# Prometheus adds these to all that it collects, and "up" for each server.
OWN = {"instance", "job"}
told = {"up": set(OWN)}
with open(metrics) as f:
    for family in text_string_to_metric_families(f.read()):
        for sample in family.samples:
            told.setdefault(sample.name, set(OWN)).update(sample.labels)
assert len(told) > 15, sorted(told)


def check_expression(text):
    """Returns the labels of the metrics in it."""
    names = re.findall(r"\b(nbdloop_\w+|up)\b", re.sub(r'"[^"]*"', '""', text))
    assert names, f"no metric at all in: {text}"
    labels = set()
    for name in names:
        assert name in told, f"no metric {name} in: {text}"
        labels |= told[name]
    for name, matchers in re.findall(r"\b(nbdloop_\w+|up)\{([^}]*)\}", text):
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', matchers)):
            assert label in told[name], f"no label {label} of {name} in: {text}"
    for group in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", text):
        for label in re.split(r"[\s,]+", group.strip()):
            assert label in labels, f"no label {label} in: {text}"
    for pair in ("()", "{}", "[]"):
        assert text.count(pair[0]) == text.count(pair[1]), f"{pair} don't match in: {text}"
    return labels


def check_template(text, variable, labels):
    for label in re.findall(r"\{\{\s*" + variable + r"(\w+)\s*\}\}", text):
        assert label in labels, f"no label {label} for: {text}"
    assert len(re.findall(r"\{\{\s*" + variable + r"\w+\s*\}\}", text)) == text.count("{{"), f"odd braces in: {text}"


# ---- the dashboard
with open(dashboard) as f:
    board = json.load(f)
variables = {variable["name"] for variable in board["templating"]["list"]} | {"__range", "__rate_interval"}
# Values as Grafana would put in.
VALUES = {"__range": "3h", "__rate_interval": "1m"}
panels = board["panels"]
assert len(panels) >= 10 and len({panel["id"] for panel in panels}) == len(panels)
places = set()
records = []
for panel in panels:
    assert panel["title"] and panel["description"] and panel["targets"], panel
    where = panel["gridPos"]
    assert where["x"] + where["w"] <= 24, panel["title"]
    for x in range(where["x"], where["x"] + where["w"]):
        for y in range(where["y"], where["y"] + where["h"]):
            assert (x, y) not in places, f"panels overlap: {panel['title']}"
            places.add((x, y))
    for query in panel["targets"]:
        for variable in re.findall(r"\$(\w+)", query["expr"]):
            assert variable in variables, f"no variable {variable} in: {query['expr']}"
        labels = check_expression(query["expr"])
        check_template(query.get("legendFormat", ""), "", labels)
        plain = re.sub(r"\$(\w+)", lambda m: VALUES.get(m[1], ".*"), query["expr"])
        records.append({"record": f"expression:{len(records)}", "expr": plain})
for variable in board["templating"]["list"]:
    if variable["type"] == "query":
        expression, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
        assert label in check_expression(expression), f"no label {label} in: {variable['definition']}"
        assert variable["query"]["query"] == variable["definition"]
with open(expressions, "w") as f:
    yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}, f)

# ---- the rules
with open(rules) as f:
    groups = yaml.safe_load(f)["groups"]
alerts = [rule for group in groups for rule in group["rules"]]
assert len(alerts) >= 5 and len({rule["alert"] for rule in alerts}) == len(alerts)
for rule in alerts:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule
    assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m")), rule
    assert rule["labels"]["severity"] in ("critical", "warning", "info"), f"severity of {rule['alert']}"
    labels = check_expression(rule["expr"])
    # What is left after a sum is what it names.
    for group in re.findall(r"^\s*(?:\w+\([\d.]+, )?sum by \(([^)]*)\)", rule["expr"]):
        labels = set(re.split(r"[\s,]+", group.strip()))
    for text in ("summary", "description"):
        check_template(rule["annotations"][text], r"\$labels\.", labels)
