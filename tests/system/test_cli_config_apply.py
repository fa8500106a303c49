"""`config apply` as a job in a cluster runs it: a process, on folders that are mounted from ConfigMaps."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.command import run
from tests.support.pulsar_server import PulsarServer
from trustgraph_prompt.broker import EmbeddedBroker, connect

HELLO = "dialect: jinja\nprompt: hello\n"
HULLO = "dialect: jinja\nprompt: hullo\n"
OWNERS = "persistent://tg/config/prompt-owners"


class ConfigMap:
    """A folder as the kubelet mounts it: links through `..data` into a hidden folder, swapped as one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._versions = 0
        folder.mkdir()
        self.update({})

    def update(self, files: Mapping[str, str]) -> None:
        self._versions += 1
        version = self.folder / f"..2026_11_23_18_54_43.{self._versions:010}"
        version.mkdir()
        for name, text in files.items():
            (version / name).write_text(text)
        data, new = self.folder / "..data", self.folder / "..data_tmp"
        new.symlink_to(version.name)
        new.rename(data)
        for name in files:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        for link in self.folder.iterdir():
            if not link.name.startswith("..") and link.name not in files:
                link.unlink()


@pytest.fixture
def mount(tmp_path: Path) -> ConfigMap:
    return ConfigMap(tmp_path / "mount")


@pytest.fixture
def broker(tmp_path: Path) -> list[str]:
    return ["--broker", f"embedded:{tmp_path / 'broker.db'}"]


def apply(broker: list[str], *arguments: object, owner: str = "shop/prompts") -> CompletedProcess[str]:
    return run("config", "apply", *arguments, "--owner", owner, *broker)


def listed(broker: list[str]) -> list[str]:
    return run("config", "list", *broker).stdout.split()


def test_the_prompts_of_a_config_map_follow_it(mount: ConfigMap, broker: list[str]) -> None:
    mount.update({"hello.yaml": HELLO, "bye.prompt": "prompt bye: 'Bye.'\n"})
    first = apply(broker, mount.folder)
    published = "published 2 entries to workspace default: template.bye, template.hello\n"
    is_new = f"{broker[1]} is a new broker: no such file was there, so no worker follows it yet\n"
    assert (first.returncode, first.stdout, first.stderr) == (0, published, is_new)
    assert listed(broker) == ["default/template.bye", "default/template.hello"]

    mount.update(
        {"hello.yaml": f"# with a comment\n{HELLO}", "bye.prompt": "prompt bye:\n    text: 'Bye.'\n"}
    )
    again = apply(broker, mount.folder)
    assert (again.stdout, again.stderr) == ("nothing to change in workspace default\n", "")

    mount.update({"hello.yaml": HULLO})
    second = apply(broker, mount.folder)
    assert second.stdout == (
        "published 1 entry to workspace default: template.hello\n"
        "deleted from workspace default: template.bye\n"
    )
    assert json.loads(run("config", "get", "template.hello", *broker).stdout)["prompt"] == "hullo"

    mount.update({})
    assert apply(broker, mount.folder).stdout == "deleted from workspace default: template.hello\n"
    assert listed(broker) == []


def test_files_and_folders_are_applied_together(mount: ConfigMap, tmp_path: Path, broker: list[str]) -> None:
    mount.update({"hello.yaml": HELLO})
    empty = ConfigMap(tmp_path / "empty").folder
    bye, more = tmp_path / "bye.yaml", tmp_path / "more.json"
    bye.write_text("dialect: jinja\nprompt: bye\n")
    more.write_text(json.dumps({"template.more": {"dialect": "jinja", "prompt": "more"}}))
    assert apply(broker, mount.folder, empty, bye, more).returncode == 0
    assert listed(broker) == [f"default/template.{name}" for name in ("bye", "hello", "more")]

    more.write_text(json.dumps({"template.bye": {"dialect": "jinja", "prompt": "more"}}))
    twice = apply(broker, bye, more)
    assert twice.returncode == 2
    assert "the prompt is defined twice" in twice.stderr
    assert str(bye) in twice.stderr
    assert str(more) in twice.stderr


def test_entries_changed_by_others_are_left_alone_with_a_warning(
    mount: ConfigMap, tmp_path: Path, broker: list[str]
) -> None:
    mount.update({"hello.yaml": HELLO, "bye.yaml": HELLO})
    assert apply(broker, mount.folder).returncode == 0
    (tmp_path / "hello.yaml").write_text("dialect: jinja\nprompt: by hand\n")
    run("config", "push", tmp_path / "hello.yaml", *broker)
    run("config", "delete", "template.bye", *broker)

    mount.update({"bye.yaml": HULLO})
    result = apply(broker, mount.folder)
    assert result.returncode == 0
    assert result.stdout == "nothing to change in workspace default\n"
    assert result.stderr == (
        "warning: left alone template.bye: another client deleted it since it was last applied\n"
        "warning: left alone template.hello, which the owner no longer wants: "
        "another client changed it since it was last applied\n"
    )
    other = apply(broker, tmp_path / "hello.yaml", owner="other/prompts")
    assert (other.stdout, other.stderr) == ("nothing to change in workspace default\n", "")
    taken = apply(broker, mount.folder, owner="third/prompts")
    assert taken.stdout == "published 1 entry to workspace default: template.bye\n"
    theirs = apply(broker, tmp_path / "hello.yaml", owner="third/prompts")
    assert theirs.stderr == "warning: left alone template.hello: it belongs to owner other/prompts\n"

    mount.update({"hello.yaml": HULLO})
    forced = apply(broker, mount.folder, "--force")
    assert (forced.returncode, forced.stderr) == (0, "")
    assert json.loads(run("config", "get", "template.hello", *broker).stdout)["prompt"] == "hullo"


async def test_a_dry_run_says_what_would_change_and_makes_no_topic(
    mount: ConfigMap, tmp_path: Path, broker: list[str]
) -> None:
    mount.update({"hello.yaml": HELLO})
    assert "no such broker file" in apply(broker, mount.folder, "--dry-run").stderr
    assert not (tmp_path / "broker.db").exists()
    (tmp_path / "other.yaml").write_text(HULLO)
    run("config", "push", tmp_path / "other.yaml", *broker)

    result = apply(broker, mount.folder, "--dry-run")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "would publish 1 entry to workspace default: template.hello\n"
    assert listed(broker) == ["default/template.other"]
    async with await connect(broker[1]) as connected:
        assert isinstance(connected, EmbeddedBroker)
        assert OWNERS not in await connected.subscriptions()

    assert apply(broker, mount.folder).stdout == result.stdout.replace("would publish", "published")
    mount.update({})
    result = apply(broker, mount.folder, "--dry-run")
    assert result.stdout == "would delete from workspace default: template.hello\n"
    assert listed(broker) == ["default/template.hello", "default/template.other"]


@pytest.mark.parametrize(
    ("files", "place", "error"),
    [
        ({"bad.prompt": "prompt a: 'a'\nprompt b 'b'\n"}, "bad.prompt:2:10: ", "unexpected text"),
        ({"bad.yaml": "dialect: jinja\nprompt: '{{'\n"}, "bad.yaml /prompt", "`{{`"),
        ({"bad.prompt": 'prompt a:\n    text: """\n    {% if %}\n    """\n'}, "bad.prompt:3:5: ", "`%}`"),
        ({"README.md": "no prompts"}, "mount: ", "the folder contains no prompts"),
        ({"bad.prompt": ""}, "bad.prompt: ", "the file declares nothing"),
        ({"bad.prompt": "\n# nothing\n"}, "bad.prompt: ", "the file declares nothing"),
        ({"bad.yaml": "# nothing\n"}, "bad.yaml: ", "(found None, expected a mapping)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_is_published_where_a_file_is_wrong(
    mount: ConfigMap, tmp_path: Path, broker: list[str], files: dict[str, str], place: str, error: str
) -> None:
    if "README.md" not in files:
        files = {**files, "hello.yaml": HELLO}
    mount.update(files)
    result = apply(broker, mount.folder)
    assert result.returncode == 2
    assert f"{mount.folder.parent}/" in result.stderr
    assert place in result.stderr
    assert error in result.stderr
    assert result.stderr.endswith("nothing was published\n")
    assert not (tmp_path / "broker.db").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "declares nothing"),
        ("# hello\n", "declares nothing"),
        ("schema A:\n    b: string\n", "only schemas"),
    ],
    ids=["empty", "comment", "schemas"],
)
def test_a_file_without_prompts_deletes_none(
    tmp_path: Path, broker: list[str], text: str, error: str
) -> None:
    file = tmp_path / "hello.prompt"
    file.write_text("prompt hello: 'Hello.'\n")
    assert apply(broker, file).returncode == 0
    file.write_text(text)
    result = apply(broker, file)
    assert result.returncode == 2
    assert f"{file}: " in result.stderr
    assert error in result.stderr
    assert listed(broker) == ["default/template.hello"]


def test_a_broken_entry_of_an_export_is_named_with_its_file(tmp_path: Path, broker: list[str]) -> None:
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"template.a": {"dialect": "tex"}}))
    result = apply(broker, export)
    assert result.returncode == 2
    assert f"{export} template.a" in result.stderr


@pytest.mark.parametrize("owner", ["", " ", "a\nb", "x" * 201], ids=["empty", "blank", "two lines", "long"])
def test_owner_must_have_a_valid_name(mount: ConfigMap, broker: list[str], owner: str) -> None:
    result = apply(broker, mount.folder, owner=owner)
    assert result.returncode == 2
    assert "--owner: the name is not valid" in result.stderr


def test_a_workspace_with_too_many_prompts_gets_none(tmp_path: Path, broker: list[str]) -> None:
    def prompts(name: str, count: int) -> Path:
        text = "".join(f"prompt {name}{number}: 'a'\n" for number in range(count))
        (tmp_path / f"{name}.prompt").write_text(text)
        return tmp_path / f"{name}.prompt"

    run("config", "push", prompts("a", 990), *broker)
    result = apply(broker, prompts("b", 11))
    assert result.returncode == 2
    assert "workspace default would have too many prompts (found '1,001'" in result.stderr
    assert apply(broker, prompts("b", 10)).returncode == 0
    assert len(listed(broker)) == 1000  # the record counts for none


async def test_malformed_record_is_ignored_with_a_warning(mount: ConfigMap, broker: list[str]) -> None:
    async with await connect(broker[1]) as connected:
        producer = await connected.producer(OWNERS)
        await producer.send(b"no \x1b json", key="default/other")
    mount.update({"hello.yaml": HELLO})
    result = apply(broker, mount.folder)
    assert result.returncode == 0
    assert result.stderr.startswith(f"warning: {OWNERS}: ignored the record of owner other: ")
    assert listed(broker) == ["default/template.hello"]


def test_without_a_worker_waiting_fails_unless_nothing_changes(mount: ConfigMap, broker: list[str]) -> None:
    mount.update({"hello.yaml": HELLO})
    waited = apply(broker, mount.folder, "--wait", "1")
    assert waited.returncode == 1
    assert "no running worker is known for workspace default" in waited.stderr
    assert apply(broker, mount.folder, "--wait", "1").returncode == 0


@pytest.mark.pulsar
def test_on_pulsar_a_dry_run_makes_no_topic_either(
    mount: ConfigMap, pulsar: PulsarServer, pulsar_space: str
) -> None:
    topic = f"persistent://{pulsar_space}/config/prompt"
    place = ["--broker", pulsar.url, "--topic", topic]
    asked = [*place, "--admin-url", pulsar.admin_url]
    mount.update({"hello.yaml": HELLO})

    would = apply(place, mount.folder, "--dry-run", "--admin-url", pulsar.admin_url)
    assert would.stdout == "would publish 1 entry to workspace default: template.hello\n"
    assert "there are no entries on the topic" in run("config", "list", *asked).stderr
    assert topics(pulsar, pulsar_space) == set()

    assert apply(place, mount.folder).stdout == would.stdout.replace("would publish", "published")
    assert listed(asked) == ["default/template.hello"]
    assert topics(pulsar, pulsar_space) == {topic, f"{topic}-owners", f"{topic}-history"}
    assert apply(place, mount.folder).stdout == "nothing to change in workspace default\n"


def topics(pulsar: PulsarServer, space: str) -> set[str]:
    with urllib.request.urlopen(f"{pulsar.admin_url}/admin/v2/persistent/{space}/config", timeout=60) as said:
        return set(json.load(said))
