from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scale0.errors import SettingsError
from scale0.protocol import limits
from scale0.protocol.zpl import Property, parse, write

NAMES = "abzAZ09$-_@.&+/"

names = st.text(st.sampled_from(NAMES), min_size=1, max_size=5)
values = st.text(st.sampled_from("a\"'# \t=\\") | st.characters(), max_size=8)


def properties(
    value: st.SearchStrategy[str], name: st.SearchStrategy[str] = names
) -> st.SearchStrategy[list[Property]]:
    leaves: st.SearchStrategy[list[Property]] = st.just([])
    return st.recursive(
        leaves, lambda below: st.lists(st.builds(Property, name, value, below), max_size=3), max_leaves=12
    )


def bare(found: list[Property]) -> list[tuple[str, str, object]]:
    """Without the lines."""
    return [(one.name, one.value, bare(one.children)) for one in found]


def value_of(text: str) -> str:
    (only,) = parse(text)
    return only.value


def refused(text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        parse(text)
    return str(caught.value)


# --- reading ------------------------------------------------------------------------------------------------------


def test_levels_are_four_spaces() -> None:
    text = "a = 1\n    b = 2\n        c = 3\n    d\ne\n"
    assert bare(parse(text)) == [("a", "1", [("b", "2", [("c", "3", [])]), ("d", "", [])]), ("e", "", [])]


def test_a_property_knows_its_line() -> None:
    first, second = parse("# a comment\n\na\n    b\nc\n")
    assert (first.line, first.children[0].line, second.line) == (3, 4, 5)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", ""),
        ("a =", ""),
        ('a = ""', ""),
        ("a = ''", ""),
        ("a=b", "b"),
        ("a\t=\tb\t", "b"),
        ("a = b c  ", "b c"),
        ("a = b = c", "b = c"),
        ("a = b#c", "b"),
        ("a = b # c", "b"),
        ("a = #c", ""),
        ("a # c", ""),
        ("a#c", ""),
        ('a = "b # c"', "b # c"),
        ('a = " b "', " b "),
        ('a = "b"#c', "b"),
        ('a = "b" # c "d"', "b"),
        ("a = 'b \" c'", 'b " c'),
        ('a = "it\'s"', "it's"),
        ('a = "back\\slash"', "back\\slash"),
    ],
)
def test_a_value_is_bare_or_in_quotes(text: str, value: str) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('a = "abc', '"abc'),
        ('a = "abc" def', '"abc" def'),
        ("a = 'abc", "'abc"),
        ('a = "abc" def # x', '"abc" def'),
        ('a = "a"b"', '"a"b"'),
        ('a = "a#b" c', '"a'),
        ("a = \"a'", "\"a'"),
    ],
)
def test_quotes_that_do_not_enclose_the_value_are_taken_literally(text: str, value: str) -> None:
    assert value_of(text) == value


def test_the_same_name_twice_is_a_list() -> None:
    assert bare(parse("a = 1\na = 2\n")) == [("a", "1", []), ("a", "2", [])]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_each_kind_of_line_end_is_one(end: str) -> None:
    first, second = parse(f"a = 1{end}{end}b = 2{end}")
    assert (first.value, second.value, second.line) == ("1", "2", 3)


def test_other_characters_that_part_lines_elsewhere_are_ordinary_here() -> None:
    assert value_of("a = x\u2028y\x0bz\x85") == "x\u2028y\x0bz\x85"


def test_comments_and_blank_lines_may_be_indented_anyhow() -> None:
    assert bare(parse("a\n  # two\n\t# tab\n \t \n            # far\n    b\n")) == [("a", "", [("b", "", [])])]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\n  b", "line 2: indented by 2 spaces"),
        ("a\n        b", "line 2: indented by 2 levels"),
        ("a\n\tb", "line 2: indented by a tab"),
        ("a\n    \tb", "line 2: indented by a tab"),
        ("    a", "line 1: indented by 1 levels"),
        ("a\nb c", "line 2: after b comes 'c'"),
        ("= a", "line 1: '= a' does not begin with a name"),
        ("a\né = 1", "line 2: 'é = 1' does not begin with a name"),
        ("aé = 1", "line 1: after a comes"),
        ("\ufeffa", "line 1:"),
    ],
)
def test_what_is_malformed_is_refused_with_its_line(text: str, told: str) -> None:
    assert told in refused(text)


def test_depth_and_size_have_limits() -> None:
    deepest = "".join(f"{'    ' * level}a\n" for level in range(limits.DOCUMENT_DEPTH_MAX))
    assert parse(deepest)
    assert "levels deep" in refused(deepest + "    " * limits.DOCUMENT_DEPTH_MAX + "a")
    assert "bytes" in refused("#" * (limits.DOCUMENT_BYTES_MAX + 1))


@given(st.text(st.sampled_from("ab= \t#\"'\r\n") | st.characters(), max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        lines = [one.line for one in parse(text)]
    except SettingsError as error:
        lines = [int(str(error).removeprefix("line ").partition(":")[0])]
    assert all(line > 0 for line in lines)


# --- writing ------------------------------------------------------------------------------------------------------


@given(properties(values))
def test_what_is_written_is_read_back_as_it_was_or_refused(tree: list[Property]) -> None:
    try:
        text = write(tree)
    except SettingsError:
        return
    assert bare(parse(text)) == bare(tree)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("", "a\n"),
        ("b", 'a = "b"\n'),
        ("b#c", 'a = "b#c"\n'),
        ('b"c', "a = 'b\"c'\n"),
        ("b\"c'd", "a = b\"c'd\n"),
        (" ", 'a = " "\n'),
    ],
)
def test_quotes_are_chosen_by_what_the_value_has(value: str, written: str) -> None:
    assert write([Property("a", value)]) == written


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "\"'", "'\"", "a\"'#", " a\"'", "a\"' ", "a\"'\t"])
def test_what_zpl_cannot_carry_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="ZPL cannot carry"):
        write([Property("a", value)])


def test_names_and_depth_are_checked_when_written() -> None:
    for name in ("", "a b", "é", "a=b"):
        with pytest.raises(SettingsError, match="no name"):
            write([Property(name)])
    deep = Property("a")
    for _ in range(limits.DOCUMENT_DEPTH_MAX):
        deep = Property("a", children=[deep])
    with pytest.raises(SettingsError, match="levels deep"):
        write([deep])


# --- an independent reader ----------------------------------------------------------------------------------------


class Czmq:
    """`zconfig` of libczmq, by its C interface."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        for name, result in {
            "zconfig_str_load": ctypes.c_void_p,
            "zconfig_child": ctypes.c_void_p,
            "zconfig_next": ctypes.c_void_p,
            "zconfig_name": ctypes.c_char_p,
            "zconfig_value": ctypes.c_char_p,
        }.items():
            getattr(self.library, name).restype = result

    def parse(self, text: str) -> list[tuple[str, str, object]]:
        root = ctypes.c_void_p(self.library.zconfig_str_load(text.encode()))
        assert root.value or not text, "refused"
        try:
            return self.below(root) if root.value else []
        finally:
            self.library.zconfig_destroy(ctypes.byref(root))

    def below(self, parent: ctypes.c_void_p) -> list[tuple[str, str, object]]:
        return [
            (
                self.library.zconfig_name(one).decode(),
                (self.library.zconfig_value(one) or b"").decode(),
                self.below(one),
            )
            for one in self.children(parent)
        ]

    def children(self, parent: ctypes.c_void_p) -> Iterator[ctypes.c_void_p]:
        child = self.library.zconfig_child(parent)
        while child:
            yield ctypes.c_void_p(child)
            child = self.library.zconfig_next(ctypes.c_void_p(child))


@pytest.fixture(scope="module")
def czmq() -> Czmq:
    path = ctypes.util.find_library("czmq")
    if path is None:
        pytest.skip("libczmq is not installed; on Debian and Ubuntu: apt install libczmq4")
    return Czmq(path)


@settings(max_examples=50)
@given(tree=properties(st.text(st.sampled_from("ab #=.:/é"), max_size=6), names.filter(lambda name: "/" not in name)))
def test_zconfig_reads_what_we_write(czmq: Czmq, tree: list[Property]) -> None:
    assert czmq.parse(write(tree)) == bare(tree)
