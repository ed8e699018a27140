"""The run in which all servers take turns."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench import __main__ as command
from bench.cargo import CargoUnavailable, Crate, installed
from bench.cases import CASES, DURABLE_PEER_CASES, PEER_CASES
from bench.interpreter import describe_build
from bench.peers.charts import draw_page
from bench.peers.report import PeersReport, format_report, write_json
from bench.peers.servers import Group, available, groups_of, server_by_command
from bench.peers.turns import Turns, standing_of, take_all_turns
from bench.subjects import DEFAULT_PEERS, SUBJECTS, Subject
from bench.summary import Sample
from bench.tokens import token_headers
from tests.tooling.bench.test_summary import sample

FAKE = f"{sys.executable} {Path(__file__).with_name('fake_peer.py')}"
CASE = CASES["append-c1-s1"]


def fake(name: str, arguments: str = "{port}") -> Subject:
    return server_by_command(f"{name}={FAKE} {arguments}")


def samples_of(name: str, rates: Sequence[float], missing: int = 0) -> list[Sample]:
    return [replace(sample(per_second=rate, missing=missing), subject=name) for rate in rates]


def report_of(turns: Turns, skipped: dict[str, str] | None = None) -> PeersReport:
    group = Group("in memory", (fake("ours"), fake("peer")), (CASE.name,))
    report = PeersReport(3, 1.0, {"everbrook": "0"}, 7.0, skipped or {})
    report.add(standing_of(group, CASE, turns), turns)
    return report


BOTH = Turns({"ours": samples_of("ours", (100, 200, 900)), "peer": samples_of("peer", (100, 50, 300), missing=12)})


def test_a_server_by_its_command_takes_turns_beside_ours_and_a_missing_one_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    arguments = ["--peers", "--subjects=ours", f"--peer=fake={FAKE} {{port}}", "--peer=nobody=/no/such {port}"]

    status = command.main(
        [*arguments, f"--cases={CASE.name}", "--rounds=2", "--seconds=0.05", f"--json={path}"], {"ours": fake("ours")}
    )

    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert "nobody is skipped: there is no program /no/such" in printed.out
    content = json.loads(path.read_text())
    assert [(taken["subject"], taken["round"]) for taken in content["samples"]] == [
        *(("ours", 0), ("ours", 1)),
        *(("fake", 0), ("fake", 1)),
    ]
    assert "<td>fake</td>" in path.with_suffix(".html").read_text()


def test_ours_that_fails_fails_the_run(tmp_path: Path) -> None:
    ours = server_by_command(f"ours={sys.executable} -m bench.constant {{port}}")
    arguments = ["--peers", "--subjects=ours", f"--cases={CASE.name}", "--seconds=0.05", "--rounds=1"]

    status = command.main([*arguments, f"--json={tmp_path / 'results.json'}"], {"ours": ours})

    assert status == 1


def test_one_that_fails_is_named_and_takes_no_more_turns() -> None:
    starts: list[int] = []

    def ends(port: int) -> list[str]:
        starts.append(port)
        return [sys.executable, "-c", "raise SystemExit('no disk')"]

    servers = (fake("ours"), Subject(name="ends", command=ends))

    turns = take_all_turns(CASE, servers, 2, 0.05)
    standing = standing_of(Group("in memory", servers, ()), CASE, turns)

    assert [len(taken) for taken in turns.samples.values()] == [2, 0]
    assert len(starts) == 1
    assert "no disk" in standing.failures["ends"]
    assert [figures.subject for figures in standing.figures] == ["ours"]


def test_one_server_runs_at_a_time(tmp_path: Path) -> None:
    marker = tmp_path / "running"
    program = f"import os, pathlib; os.mkdir('{marker}')"
    stops = f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (os.rmdir('{marker}'), sys.exit()))"
    serves = f"import runpy; runpy.run_path('{FAKE.split()[1]}', run_name='__main__')"
    alone = f'{sys.executable} -c "{program}; {stops}; {serves}" {{port}}'

    turns = take_all_turns(CASE, [server_by_command(f"{name}={alone}") for name in ("first", "second")], 1, 0.05)

    assert turns.failures == {}  # a second one would find the folder of the first


def test_a_server_with_a_folder_is_durable_and_gets_an_empty_one() -> None:
    durable = fake("disk", "{port} {folder}")

    with durable.start():
        pass  # it would not start without one
    assert [group.name for group in groups_of([fake("memory"), durable], None)] == ["in memory", "on disk"]
    assert [group.cases for group in groups_of([fake("memory"), durable], None)] == [PEER_CASES, DURABLE_PEER_CASES]


@pytest.mark.parametrize("text", ["caddy", "caddy=", "={port}", "caddy=caddy run"])
def test_a_server_without_name_command_or_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=COMMAND"):
        server_by_command(text)


def test_without_cargo_its_servers_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    crate = Crate("durable-streams", "0.1.5", "server")
    server = Subject(name="rust", command=lambda _: [str(installed(crate, tmp_path))])

    able, skipped = available([server, fake("ours")])

    assert [one.name for one in able] == ["ours"]
    assert skipped == {"rust": "durable-streams 0.1.5 is built by cargo, which is not on PATH"}


def cargo(folder: Path, script: str) -> None:
    program = folder / "cargo"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_crate_is_built_once_at_its_version_into_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cargo(tmp_path, 'echo "$@" >>"$(dirname "$0")/calls"; mkdir -p "$4/bin"; touch "$4/bin/server"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    crate = Crate("durable-streams", "0.1.5", "server")

    assert installed(crate, tmp_path) == installed(crate, tmp_path) == tmp_path / "durable-streams-0.1.5/bin/server"
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"install --locked --root {tmp_path / 'durable-streams-0.1.5'} --version =0.1.5 durable-streams"
    ]


def test_a_crate_that_cannot_be_built_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cargo(tmp_path, "echo no network >&2; exit 101")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    with pytest.raises(CargoUnavailable, match="ended with 101: no network"):
        installed(Crate("durable-streams", "0.1.5", "server"), tmp_path)


def test_every_default_peer_is_known_and_ours_comes_first_in_each_group() -> None:
    groups = groups_of([SUBJECTS[name] for name in DEFAULT_PEERS], None)

    assert [group.servers[0].name for group in groups] == ["everbrook-memory", "everbrook-acid"]
    assert [len(group.servers) for group in groups] == [5, 4]
    assert {*PEER_CASES, *DURABLE_PEER_CASES} <= set(CASES)


def test_the_table_compares_within_rounds_and_names_who_is_missing() -> None:
    text = format_report(report_of(BOTH, {"rust": "no cargo"}))

    assert " 3.00 " in next(line for line in text.splitlines() if line.startswith("peer "))
    assert "rust is skipped: no cargo" in text
    assert "peer left 36 deliveries undone" in text


def test_the_page_is_drawn_from_the_json_and_asks_for_nothing(tmp_path: Path) -> None:
    turns = replace(BOTH, failures={"third": "<b>broke</b>"})
    write_json(report_of(turns, {"rust": "no cargo"}), tmp_path / "results.json")

    page = draw_page(json.loads((tmp_path / "results.json").read_text()))

    assert "<td>3.00</td>" in page  # the median of the ratios; the ratio of the medians would be 2
    assert 'style="--share:50.0%">100</td>' in page  # beside the 200 of ours
    assert "third failed: &lt;b&gt;broke&lt;/b&gt;" in page
    assert "rust is skipped: no cargo" in page
    assert not any(word in page for word in ("http:", "https:", "src=", "href=", "<script"))


@pytest.mark.parametrize("share, shown", [(0.95, ">100*</td>"), (0.5, ">100</td>")])
def test_a_rate_that_the_generator_limits_carries_a_mark_on_the_page(tmp_path: Path, share: float, shown: str) -> None:
    turns = Turns({"ours": [replace(sample(), subject="ours", generator_share=share)]})
    write_json(report_of(turns), tmp_path / "results.json")

    assert shown in draw_page(json.loads((tmp_path / "results.json").read_text()))


@pytest.mark.parametrize(
    "variables, guided, linked",
    [
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}, "with", "with"),
        ({"CONFIG_ARGS": "", "PY_CORE_CFLAGS": "-O3 -fprofile-use -flto"}, "with", "with"),
        ({"CONFIG_ARGS": None, "PY_CFLAGS": "-O3"}, "without", "without"),
    ],
)
def test_the_build_of_python_is_told_from_its_flags(variables: dict[str, object], guided: str, linked: str) -> None:
    expected = f"{guided} profile-guided optimisation, {linked} link-time optimisation"
    assert describe_build(variables) == expected


def test_a_server_that_shows_one_thing_takes_turns_in_its_own_cases_alone() -> None:
    tokens = SUBJECTS["everbrook-memory-jwt"]

    assert [case for case in PEER_CASES if tokens.takes(case)] == ["append-c64-s1"]
    assert SUBJECTS["everbrook-memory"].takes("get-10kb")


def test_every_request_to_the_server_with_tokens_carries_one_and_none_is_served_without() -> None:
    tokens = SUBJECTS["everbrook-memory-jwt"]

    assert take_all_turns(CASES["append-producer"], [tokens], 1, 0.05).failures == {}
    assert take_all_turns(CASES["append-c64-s1"], [tokens], 1, 0.05).failures == {}
    assert take_all_turns(CASES["get-10kb"], [tokens], 1, 0.05).failures == {}

    def keys_alone(folder: Path) -> dict[str, str]:
        token_headers(folder)
        return {}

    without = take_all_turns(CASES["append-c64-s1"], [replace(tokens, admission=keys_alone)], 1, 0.05)
    assert "must be answered with 201, got 401" in without.failures[tokens.name]
