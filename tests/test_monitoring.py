"""What `deploy/` ships for monitoring: alerts that fire when they should, and names that the service has."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from relayer_service.observability import metrics
from tests.servers import PROJECT

ALERTS = PROJECT / "deploy/prometheus/alerts.yaml"
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
DASHBOARD: dict[str, Any] = json.loads((PROJECT / "deploy/grafana/dashboard.json").read_text())
OTHERS_METRICS = {"up"}
MINUTES = 45
SETTLED = "relayer_transactions_settled_total"

# By alert: series under which it fires, and under which it does not, as promtool writes their values minute by minute.
# The times of Prometheus begin at 0 there.
CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "RelayerProcessDown": (
        {'up{job="relayer-worker",instance="a"}': "0x60"},
        {'up{job="relayer-web",instance="a"}': "1x60", 'up{job="another"}': "0x60"},
    ),
    "RelayerPartFailed": (
        {'relayer_ready{part="cache",instance="a"}': "1x60", 'relayer_ready{part="cache",instance="b"}': "0x60"},
        {'relayer_ready{part="cache",instance="a"}': "1x60"},
    ),
    "RelayerErrors": (
        {
            'relayer_http_requests_total{status="200",route="signer-list"}': "0+98x60",
            'relayer_http_requests_total{status="503",route="signer-list"}': "0+2x60",
        },
        {
            'relayer_http_requests_total{status="200",route="signer-list"}': "0+100x60",
            'relayer_http_requests_total{status="404",route="signer-list"}': "0+50x60",
            'relayer_http_requests_total{status="503",route="ready"}': "0+10x60",
        },
    ),
    "RelayerThreadsExhausted": (
        {'relayer_thread_pool_in_use{pool="web"}': "60x60", 'relayer_thread_pool_size{pool="web"}': "64x60"},
        {'relayer_thread_pool_in_use{pool="web"}': "50x60", 'relayer_thread_pool_size{pool="web"}': "64x60"},
    ),
    "RelayerPeriodicWorkLate": (
        {
            'relayer_periodic_last_run_timestamp_seconds{task="check_relayers"}': "0x60",
            'relayer_periodic_interval_seconds{task="check_relayers"}': "2x60",
        },
        {
            'relayer_periodic_last_run_timestamp_seconds{task="check_relayers"}': "0+60x60",
            'relayer_periodic_interval_seconds{task="check_relayers"}': "2x60",
            'relayer_periodic_last_run_timestamp_seconds{task="prune_jobs"}': "0x60",
            'relayer_periodic_interval_seconds{task="prune_jobs"}': "3600x60",
        },
    ),
    "RelayerWorkerHangs": (
        {'relayer_worker_last_poll_timestamp_seconds{instance="a"}': "60x60"},
        {
            'relayer_worker_last_poll_timestamp_seconds{instance="a"}': "60+60x60",
            'relayer_worker_last_poll_timestamp_seconds{instance="a web process"}': "0x60",
        },
    ),
    "RelayerTasksFail": (
        {'relayer_task_failures_total{task="deliver"}': "0+1x60"},
        {'relayer_task_failures_total{task="deliver"}': "7x60"},
    ),
    "RelayerWebhooksLate": (
        {'relayer_webhook_oldest_due_seconds{target="ok"}': "61x60"},
        {
            'relayer_webhook_oldest_due_seconds{target="ok"}': "10x60",
            'relayer_webhook_oldest_due_seconds{target="failing"}': "900x60",
        },
    ),
    "RelayerTransactionsFail": (
        {f'{SETTLED}{{network="sepolia",kind="request",status="failed"}}': "0+1x60"},
        {
            f'{SETTLED}{{network="sepolia",kind="request",status="failed"}}': "7x60",
            f'{SETTLED}{{network="sepolia",kind="request",status="confirmed"}}': "0+9x60",
        },
    ),
    "RelayerDatabaseConnectionsExhausted": (
        {'relayer_database_pool_connections{state="waiting"}': "1x60"},
        {
            'relayer_database_pool_connections{state="waiting"}': "0x60",
            'relayer_database_pool_connections{state="open"}': "20x60",
        },
    ),
}


# Those of a single series: its value under which it fires, and that under which it does not; other series do neither.
SIMPLE = {
    "RelayerPeriodicWorkFails": ('relayer_periodic_failed{task="fold_counts"}', 1, 0),
    "RelayerWebhookTargetFails": ('relayer_webhook_targets{state="gone"}', 1, 0),
    "RelayerWebhooksFailed": ("relayer_webhook_deliveries_failed_last_day", 1, 0),
    "RelayerChecksLate": ("relayer_health_check_oldest_due_seconds", 121, 60),
    "RelayerDisabled": ('relayer_relayers{state="disabled"}', 1, 0),
    "RelayerBalanceLow": ("relayer_relayers_low_balance", 1, 0),
    "RelayerNodesPaused": ("relayer_nodes_paused", 1, 0),
    "RelayerLaneHeld": ('relayer_lanes{state="held"}', 1, 0),
    "RelayerLaneWaits": ('relayer_lanes{state="funds"}', 1, 0),
    "RelayerTransactionsStuck": ('relayer_lane_head_age_seconds_max{network="sepolia"}', 901, 60),
    "RelayerRequestsWait": ('relayer_transaction_oldest_due_seconds{network="sepolia"}', 301, 60),
    "RelayerTransactionContradicted": ('relayer_transactions_contradicted_total{network="sepolia"}', 1, 0),
    "RelayerPriceOld": ("relayer_fee_token_oldest_price_seconds", 601, 60),
}
OTHERS = {
    'relayer_webhook_targets{state="disabled"}': "1x60",
    'relayer_relayers{state="paused"}': "1x60",
    'relayer_lanes{state="running"}': "5x60",
}
CASES |= {
    name: ({series: f"{bad}x60"}, OTHERS | {series: f"{good}x60"}) for name, (series, bad, good) in SIMPLE.items()
}


def promtool(*arguments: str) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool")
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def unit_test(series: dict[str, str], firing: list[str]) -> dict[str, Any]:
    """Return a test in promtool's form: with these series, these alerts fire in the end."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{MINUTES}m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in firing],
            }
        ],
    }


def test_each_alert_fires_when_it_should_and_not_otherwise(tmp_path: Path) -> None:
    assert CASES.keys() == {rule["alert"] for rule in RULES}
    tests = [
        unit_test(series, firing)
        for name, (bad, good) in CASES.items()
        for series, firing in ((bad, [name]), (good, []))
    ]
    file = tmp_path / "alerts_test.yaml"
    file.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", str(file))
    promtool("check", "config", str(PROJECT / "deploy/prometheus/prometheus.yml"))


def names(expression: str) -> set[str]:
    """Return the metrics that an expression names."""
    without_labels = re.sub(r"\{[^}]*\}|\"[^\"]*\"|\b(?:by|without) *\([^)]*\)", "", expression)
    return {word for word in re.findall(r"[a-z_:]+(?![a-z_]*\()", without_labels) if "_" in word or word == "up"}


def series_of(text: str) -> set[str]:
    """Return the names of the series that an exposition has, or would have after something was counted."""
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
    return {
        family.name + suffix
        for family in text_string_to_metric_families(text)
        for suffix in suffixes.get(family.type, [""])
    }


@pytest.mark.django_db
def test_every_metric_of_alerts_dashboard_and_docs_is_one_of_the_services() -> None:
    expressions = [rule["expr"] for rule in RULES]
    expressions += [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    named = set().union(*map(names, expressions)) - OTHERS_METRICS
    assert "relayer_http_request_duration_seconds_bucket" in named
    exposition = metrics.exposition().decode()
    assert named - series_of(exposition) == set()
    found = {family.name for family in text_string_to_metric_families(exposition)}
    assert {name for name in found if not name.startswith("relayer_")} == set()
    documented = set(re.findall(r"`(relayer_\w+?)(?:_total)?[`{]", (PROJECT / "docs/operations.md").read_text()))
    assert {name for name in found if not name.startswith("relayer_process_")} - documented == set()
    shown = json.dumps(DASHBOARD)
    assert {name for name in documented if name not in shown} == set()
