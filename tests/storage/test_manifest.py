"""What a stage leaves about itself."""

import json
import os
import threading

import pytest

from bert_tf.errors import BertTfError, UsageError
from bert_tf.storage import checksums, files, manifest, object_store


def test_finished_work_is_known_and_other_work_is_refused(tmp_path):
    path = str(tmp_path / "manifest.json")
    assert manifest.finished(path, {"size": 1}) is None
    manifest.write(path, {"size": 1}, entries=3)
    assert manifest.finished(path, {"size": 1})["entries"] == 3
    with pytest.raises(UsageError, match="size was 1, now 2"):
        manifest.finished(path, {"size": 2})
    assert manifest.finished(path, {"size": 2}, overwrite=True) is None


def test_a_stage_killed_while_it_replaces_another_is_not_finished(tmp_path, monkeypatch):
    folder, shards = str(tmp_path), ["0.shard", "1.shard"]

    def stage(size, overwrite=False):
        return manifest.resumed(
            folder, "manifest.json", "begun.json", {"size": size}, overwrite=overwrite,
            option="size", made=lambda: [name for name in shards if (tmp_path / name).exists()])

    assert stage(1) is None
    for name in shards:
        (tmp_path / name).write_text(name)
    manifest.write(str(tmp_path / "manifest.json"), {"size": 1})
    (tmp_path / "begun.json").unlink()
    assert stage(1)
    with monkeypatch.context() as patch:
        remove = files.remove
        patch.setattr(files, "remove", lambda path: 1 / 0 if path.endswith(shards[1])
                      else remove(path))
        with pytest.raises(ZeroDivisionError):
            stage(2, overwrite=True)
    with pytest.raises(UsageError, match="size was 1, now 2"):
        stage(2)
    assert stage(1) is None and (tmp_path / shards[1]).exists()
    assert stage(2, overwrite=True) is None and not (tmp_path / shards[1]).exists()


@pytest.mark.parametrize("content", ["", '{"fingerprint"', "[]", "{}"])
def test_a_damaged_one_is_named_and_made_anew(tmp_path, content):
    path = tmp_path / "manifest.json"
    path.write_text(content)
    with pytest.raises(BertTfError, match="manifest.json .*--overwrite"):
        manifest.finished(str(path), {})
    assert manifest.finished(str(path), {}, overwrite=True) is None


def test_inputs_are_known_by_their_content(tmp_path):
    path, source = str(tmp_path / "manifest.json"), tmp_path / "text.txt"
    source.write_text("some text")
    manifest.write(path, {}, [str(source)])
    moved = source.rename(tmp_path / "moved.txt")
    assert manifest.finished(path, {}, [str(moved)])
    moved.write_text("same size")
    with pytest.raises(UsageError, match="the input files changed"):
        manifest.finished(path, {}, [str(moved)])


@pytest.mark.parametrize("folder", ["memory://bucket", "/absent"])
def test_an_input_that_is_gone_is_named(folder):
    with pytest.raises(BertTfError, match=f"cannot read {folder}/none: no such file"):
        manifest.write(f"{folder}/manifest.json", {}, [f"{folder}/none"])


def test_an_input_that_changes_while_it_is_read_is_noticed(tmp_path):
    """The result is of what was there at the beginning, or of a part of it."""
    source, path, begun = (str(tmp_path / name) for name in ("text", "manifest.json", "begun.json"))
    (tmp_path / "text").write_text("before")
    manifest.write(begun, {"a": 1}, [source])
    (tmp_path / "text").write_text("after")
    manifest.write(path, {"a": 1}, [source], begun=begun)
    with pytest.raises(UsageError, match="the input files changed"):
        manifest.finished(path, {"a": 1}, [source])
    (tmp_path / "text").write_text("before")
    assert manifest.finished(path, {"a": 1}, [source])


def test_digest_sees_every_byte_of_a_file_and_both_ends_of_a_huge_one(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "_BLOCK", 10)
    monkeypatch.setattr(manifest, "_BLOCKS", 4)
    path = tmp_path / "file"

    def digest(size, *ones):
        path.write_bytes(bytes(place in ones for place in range(size)))
        files.write_bytes("memory://bucket/file", path.read_bytes())
        found = manifest.digest_file(str(path))
        assert manifest.digest_file("memory://bucket/file") == found
        return found

    for size in (0, 1, 39, 40):
        assert len({digest(size), *(digest(size, place) for place in range(size))}) == size + 1
    assert len({digest(1000), digest(1001), digest(1000, 0), digest(1000, 999)}) == 4


def test_a_digest_holds_a_few_blocks_of_an_object_at_a_time(monkeypatch):
    monkeypatch.setattr(manifest, "_BLOCK", 10)
    files.write_bytes("memory://bucket/file", bytes(range(200)))
    read, sizes = object_store.read_ranges, []

    def spied(ranges):
        sizes.append(len(ranges))
        return read(ranges)

    monkeypatch.setattr(object_store, "read_ranges", spied)
    manifest.digest_file("memory://bucket/file")
    assert sizes == [8, 8, 4]


def test_a_large_input_is_read_again_where_it_may_have_changed(tmp_path, monkeypatch, capsys):
    """Size, time and samples stand for the content, unless all of it is to be read."""
    monkeypatch.setattr(manifest, "_BLOCK", 10)
    monkeypatch.setattr(manifest, "_BLOCKS", 4)
    path, source = str(tmp_path / "manifest.json"), tmp_path / "text.txt"

    def write(letter, time):
        source.write_bytes(b"a" * 500 + letter + b"a" * 499)  # between two samples
        os.utime(source, ns=(time, time))
        manifest._read_whole.cache_clear()
        manifest._say_unread.cache_clear()

    write(b"a", 10)
    manifest.write(path, {}, [str(source)])
    samples = manifest.digest_file(str(source))
    assert manifest.finished(path, {}, [str(source)])
    assert f"assumed unchanged by size, time and samples: {source};" in capsys.readouterr().out
    write(b"a", 20)  # touched, or copied
    assert manifest.finished(path, {}, [str(source)])
    assert capsys.readouterr().out == ""
    write(b"b", 20)
    assert manifest.digest_file(str(source)) == samples
    with pytest.raises(UsageError, match="the input files changed"):
        manifest.finished(path, {}, [str(source)])
    write(b"b", 10)  # somebody set the time back
    assert manifest.finished(path, {}, [str(source)])
    with pytest.raises(UsageError, match="the input files changed"):
        manifest.finished(path, {}, [str(source)], verify=True)
    write(b"a", 10)
    assert manifest.finished(path, {}, [str(source)], verify=True)


def test_all_large_inputs_that_are_not_read_are_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(manifest, "_BLOCK", 10)
    monkeypatch.setattr(manifest, "_BLOCKS", 4)
    sources = [str(tmp_path / f"{name}.txt") for name in range(3)]
    for source in sources:
        files.write_text(source, "a" * 1000)
    path = str(tmp_path / "manifest.json")
    manifest.write(path, {}, sources)
    for _ in range(2):  # stages
        assert manifest.finished(path, {}, sources)
    assert capsys.readouterr().out == (
        f"note: assumed unchanged by size, time and samples: {sources[0]} and 2 more; "
        "--verify_inputs reads files whole\n")


def test_options_of_how_and_where_may_change(tmp_path):
    path = str(tmp_path / "manifest.json")
    manifest.write(path, {"seed": 1, **dict.fromkeys(manifest.MAY_CHANGE, "a")})
    assert manifest.read(path)["options"] == {"seed": 1}
    assert manifest.finished(path, {"seed": 1, **dict.fromkeys(manifest.MAY_CHANGE, "b")})
    with pytest.raises(UsageError, match=r"another run \(seed was 1, now 2\)"):
        manifest.finished(path, {"seed": 2, "eval_every": 3})


def test_manifests_from_before_there_were_facts_are_known(tmp_path):
    """Their fingerprint is of all options, and of samples of the inputs."""
    path, source = str(tmp_path / "manifest.json"), tmp_path / "text.txt"
    source.write_text("some text")
    options = {"seed": 1, "export_dir": "a"}
    checksums.write_sealed(path, {
        "fingerprint": manifest.fingerprint(options, [manifest.digest_file(str(source))]),
        "options": options, "inputs": [str(source)]})
    assert manifest.finished(path, {"seed": 1, "export_dir": "b"}, [str(source)])
    source.write_text("same size")
    with pytest.raises(UsageError, match="the input files changed"):
        manifest.finished(path, {"seed": 1, "export_dir": "b"}, [str(source)])


def test_what_another_stage_made_is_not_replaced(tmp_path):
    path, made = str(tmp_path / "manifest.json"), ("model", "report")
    manifest.check_own(path, made, "task")
    (tmp_path / "notes.txt").touch()
    manifest.check_own(path, made, "task")
    (tmp_path / "model").mkdir()
    with pytest.raises(UsageError, match="holds model, not written by this command; try"):
        manifest.check_own(path, made, "task")
    manifest.write(path, {"objective": "mlm"})
    with pytest.raises(UsageError, match="holds manifest.json, not written by this"):
        manifest.check_own(path, made, "task")
    manifest.write(path, {"task": "cola"})
    manifest.check_own(path, made, "task")


def test_no_digit_of_a_manifest_changes_in_silence(tmp_path):
    path = tmp_path / "manifest.json"
    options, facts = {"seed": 12, "share": 0.15, "names": ["a"]}, {"entries": 34, "mean": 1 / 3}
    manifest.write(str(path), options, **facts)
    text, expected = path.read_text(), manifest.read(str(path))
    assert expected["options"] == options and expected["mean"] == 1 / 3
    name = text.index("blake2b")  # under another name it is not known, and all else is right
    for place, letter in enumerate(text):
        if letter.isdigit() and not name <= place < name + len("blake2b"):
            other = str((int(letter) + 1) % 10)
            path.write_text(text[:place] + other + text[place + 1:])
            with pytest.raises(BertTfError, match="manifest.json is damaged.*--overwrite"):
                manifest.finished(str(path), options)
            assert manifest.finished(str(path), options, overwrite=True) is None
    values = json.loads(text)
    del values["blake2b"]  # as the message says, for a change that is meant
    path.write_text(json.dumps({**values, "entries": 35}))
    assert manifest.finished(str(path), options)["entries"] == 35


def test_files_beside_a_manifest_are_compared(tmp_path):
    path, vocabulary = str(tmp_path / "vocab.json"), tmp_path / "vocab.txt"
    manifest.check_made(path)  # there is none
    vocabulary.write_text("[PAD]\n")
    manifest.write(path, {}, files=checksums.facts(str(tmp_path), ["vocab.txt"]))
    manifest.check_made(path)
    vocabulary.write_text("[PAT]\n")
    for look in (lambda: manifest.check_made(path), lambda: manifest.finished(path, {})):
        with pytest.raises(BertTfError, match="vocab.txt is damaged: its content changed"):
            look()
    assert manifest.finished(path, {}, overwrite=True) is None


@pytest.mark.parametrize("options", [7, "seed", [["seed", 1]], None])
def test_options_that_are_none(tmp_path, options):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"fingerprint": "0", "options": options}))
    with pytest.raises(BertTfError, match="manifest.json is no manifest; try --overwrite"):
        manifest.finished(str(path), {"seed": 1})
    assert manifest.finished(str(path), {"seed": 1}, overwrite=True) is None
    if options:
        with pytest.raises(UsageError, match="holds manifest.json, not written by this"):
            manifest.check_own(str(path), ["model"], "task")


@pytest.mark.parametrize("error", [BertTfError, KeyboardInterrupt])
@pytest.mark.parametrize("begun", [True, False])
def test_what_is_replaced_comes_back_where_the_new_is_refused(begun, error, tmp_path):
    (tmp_path / "test" / "report").mkdir(parents=True)
    (tmp_path / "test" / "report" / "old").write_text("")
    names = ("run.json", "test", "test/report")
    with pytest.raises(error), manifest.replacing(str(tmp_path), names, lambda: begun):
        assert not list(tmp_path.glob("test"))
        (tmp_path / "run.json").write_text("new")
        raise error("refused")
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    assert left == ({"run.json"} if begun else {"test", "test/report", "test/report/old"})


def test_inputs_in_a_store_are_read_several_at_a_time(tmp_path, monkeypatch):
    paths = [f"memory://inputs/{name}" for name in "ab"]
    for path in paths:
        files.write_text(path, path)
    record, together = str(tmp_path / "manifest.json"), threading.Barrier(2)
    digest = manifest.digest_file
    monkeypatch.setattr(manifest, "digest_file",
                        lambda path: together.wait(timeout=20) >= 0 and digest(path))
    made = manifest.write(record, {}, paths)
    assert [facts["content"] for facts in made["input_facts"]] == list(map(digest, paths))
    assert manifest.finished(record, {}, paths) == made
