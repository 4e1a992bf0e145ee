from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scale0.errors import SettingsError
from scale0.protocol import limits
from scale0.protocol.xml_documents import parse, write
from scale0.protocol.zpl import Property

names = st.text(st.sampled_from("abZ_"), min_size=1, max_size=4)
values = st.text(st.sampled_from("a<>&'\" \n\t]]>") | st.characters(), max_size=8)
leaves = st.builds(Property, names, values)
trees = st.lists(
    st.recursive(leaves, lambda below: st.builds(Property, names, st.just(""), st.lists(below, max_size=3))), max_size=3
)

LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<scale0><network>&b;</network></scale0>"""
FILE = '<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]><scale0><network>&x;</network></scale0>'


def bare(found: list[Property]) -> list[tuple[str, str, object]]:
    """Without the lines."""
    return [(one.name, one.value, bare(one.children)) for one in found]


def refused(text: str) -> str:
    with pytest.raises(SettingsError) as caught:
        parse(text)
    return str(caught.value)


def test_elements_are_properties_with_lines() -> None:
    text = "<scale0>\n  <network>prod</network>\n  <brokers>\n    <identity>a</identity>\n  </brokers>\n</scale0>"
    network, brokers = parse(text)
    assert bare([network, brokers]) == [("network", "prod", []), ("brokers", "", [("identity", "a", [])])]
    assert (network.line, brokers.line, brokers.children[0].line) == (2, 3, 4)


def test_text_of_an_element_without_children_is_taken_as_it_stands() -> None:
    (only,) = parse("<scale0><a> x\n&lt;y&gt; &amp; &#233; <![CDATA[<z>]]> </a></scale0>")
    assert only.value == " x\n<y> & é <z> "


def test_an_element_with_children_may_have_a_value() -> None:
    assert bare(parse("<scale0><a> x <b>1</b>\n</a></scale0>")) == [("a", "x", [("b", "1", [])])]


def test_comments_and_processing_instructions_mean_nothing() -> None:
    assert bare(parse("<?xml version='1.0'?><!-- x --><scale0><a><!-- y -->1<?z?></a></scale0>")) == [("a", "1", [])]


@pytest.mark.parametrize("text", [LAUGHS, FILE, '<!DOCTYPE scale0 SYSTEM "http://127.0.0.1/x"><scale0/>'])
def test_document_types_and_entities_are_refused_unexpanded(text: str) -> None:
    assert "a document type or an entity, which is refused" in refused(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not XML: no element found"),
        ("<scale0>\n<a></b></scale0>", "line 2: not XML: mismatched tag"),
        ("<scale0>&nbsp;</scale0>", "line 1: not XML: undefined entity"),
        ("<network/>", "line 1: the root element is <scale0>, not <network>"),
        ('<scale0>\n<service name="x"/></scale0>', "line 2: attribute name; write <name>…</name> inside <service>"),
        ('<scale0 xmlns="urn:x"/>', "the root element is <scale0>"),
        ('<scale0><a xmlns="urn:x"/></scale0>', "no namespace"),
        ("<scale0>text</scale0>", "text outside of any key"),
        ("<scale0/><scale0/>", "not XML: junk after document element"),
        ("<scale0>\ud800</scale0>", "not XML"),
    ],
)
def test_what_is_no_document_is_refused_with_its_line(text: str, told: str) -> None:
    assert told in refused(text)


def test_depth_and_size_have_limits() -> None:
    most = limits.DOCUMENT_DEPTH_MAX
    assert parse("<scale0>" + "<a>" * most + "</a>" * most + "</scale0>")
    assert "levels deep" in refused("<scale0>" + "<a>" * (most + 1) + "</a>" * (most + 1) + "</scale0>")
    assert "levels deep" in refused("<scale0>" + "<a>" * 100_000)
    assert "bytes" in refused("<scale0>" + " " * limits.DOCUMENT_BYTES_MAX + "</scale0>")


@given(trees)
def test_what_is_written_is_read_back_as_it_was_or_refused(tree: list[Property]) -> None:
    try:
        text = write(tree)
    except SettingsError:
        return
    assert bare(parse(text)) == bare(tree)


@given(st.text(st.sampled_from("<>/&;!?[]a \"='") | st.characters(), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, f"<scale0>{text}</scale0>"):
        with suppress(SettingsError):
            assert isinstance(parse(whole), list)


@pytest.mark.parametrize("value", ["a\x00", "a\rb", "\x1b[2J", "\ufffe", "\ud800"])
def test_what_xml_cannot_carry_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="XML cannot carry"):
        write([Property("a", value)])


def test_names_and_depth_are_checked_when_written() -> None:
    for name in ("", "1a", "a b", "é", "a/b"):
        with pytest.raises(SettingsError, match="no name"):
            write([Property(name)])
    deep = Property("a")
    for _ in range(limits.DOCUMENT_DEPTH_MAX):
        deep = Property("a", children=[deep])
    with pytest.raises(SettingsError, match="levels deep"):
        write([deep])
