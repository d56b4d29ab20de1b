"""YAML with places: the scalars of 1.2, and what a document must not hold."""

from __future__ import annotations

import pytest

from planner.errors import InputError, Where
from planner.source import MAX_BYTES, MAX_NODES, parse_yaml, read_source


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("012", 12),
        ("0o14", "0o14"),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("2026-01-31", "2026-01-31"),
        ("true", True),
        ("null", None),
        ("~", None),
        ('"1"', "1"),
        ("500 ms", "500 ms"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text, value):
    read = parse_yaml(f"a: {text}\n", "x").data["a"]
    assert read == value
    assert type(read) is type(value)


def test_every_key_and_item_knows_its_place():
    source = parse_yaml("a:\n  - b: 1\n    c: 2\n  - d\n", "x")
    assert source.at(("a", 0, "c")) == Where("x", 3, 5)
    assert source.at(("a", 1)) == Where("x", 4, 5)
    assert source.at(("a", 1, "not", "there")) == Where("x", 4, 5)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("a: &x 1\nb: *x\n", "x:1:4: anchors and aliases are not read; write the value out"),
        ("a: [&x [1]]\n", "x:1:5: anchors and aliases are not read; write the value out"),
        ("a: !!python/object:os.system x", "x:1:4: tags are not read; write the plain value"),
        ("a: !!binary aGk=", "x:1:4: tags are not read; write the plain value"),
        ("[" * 5000, "x:1:41: the document nests too deep"),
        ("a: " + "{b: " * 5000, "x:1:160: the document nests too deep"),
        ('a: "\\ud800"', "x:1:4: half a character (a lone surrogate); write it whole"),
        (
            "a: \x07",
            "x:1:4: not YAML: the character U+0007 must not stand in a file; remove it",
        ),
    ],
)
def test_what_is_refused(text, mistake):
    with pytest.raises(InputError) as error:
        parse_yaml(text, "x")
    assert str(error.value).startswith(mistake)


def test_a_document_of_too_many_values_is_refused_before_it_is_built():
    with pytest.raises(InputError, match=f"more than {MAX_NODES:,} values"):
        parse_yaml("[" + "1," * MAX_NODES + "1]", "x")


def test_a_file_that_is_too_long_is_refused_unread(tmp_path):
    path = tmp_path / "long.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="longer than 4 MiB"):
        read_source(path)


def test_a_repeated_key_keeps_the_first_and_is_noted():
    source = parse_yaml("a: 1\nb: {c: 1, c: 2}\n1: x\n'1': y\n", "x")
    assert source.data == {"a": 1, "b": {"c": 1}, "1": "x"}
    assert source.problems == (
        (Where("x", 2, 11), "b.c: key is repeated (first on line 2); keep one"),
        (Where("x", 4, 1), "1: key is repeated (first on line 3); keep one"),
    )


def test_a_byte_order_mark_is_no_content(tmp_path):
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read_source(path).data == {"a": 1}


def test_utf16_is_refused_with_a_mend(tmp_path):
    path = tmp_path / "wide.yaml"
    path.write_bytes("a: 1".encode("utf-16"))
    with pytest.raises(InputError, match=r"wide.yaml:1:1: not UTF-8 text; save the file as UTF-8"):
        read_source(path)


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path):
    with pytest.raises(InputError, match="is a folder; name a file"):
        read_source(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read_source(tmp_path / "none.yaml")


@pytest.mark.parametrize("digits", [401, 5_000, 100_000])
def test_a_whole_number_of_any_length_is_read_and_beyond_every_bound(digits):
    assert parse_yaml("a: " + "9" * digits, "x").data["a"] >= 10**400
    assert parse_yaml("a: -" + "9" * digits, "x").data["a"] <= -(10**400)
    assert parse_yaml("a: " + "0" * digits, "x").data["a"] == 0
