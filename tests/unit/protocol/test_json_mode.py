"""JSON mode: messages come back byte for byte."""

import json

import msgspec
import pytest
from hypothesis import example, given, strategies as st

from everbrook.protocol import join_messages, pack_messages
from everbrook.protocol.errors import BatchTooLarge, InvalidJson
from everbrook.protocol.json_mode import MAX_BATCH_VALUES, split_messages
from everbrook.protocol.json_text import decode_mended, mend
from tests.kit.generated import generated

# Versions of Python differ in how many levels they recurse into; from 3.14 on it is hundreds of thousands.
BEYOND_ANY_STACK = 1_000_000

blanks = st.text(" \t\r\n", max_size=2)
numbers = st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
strings = st.one_of(
    st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters='"\\'), max_size=5),
    st.sampled_from([r"\n", r"\u00e9", r"\ud83d\ude00", r"\/", r"\"", "é", ","]),
).map('"{}"'.format)
scalars = st.one_of(numbers, strings, st.sampled_from(["true", "false", "null"]))


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects as text, so that a key may come twice."""
    members = st.builds("{}{}{}:{}{}".format, blanks, strings, blanks, blanks, values)
    return st.lists(members, max_size=3).map(lambda found: "{" + ",".join(found) + "}")


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    items = st.builds("{}{}{}".format, blanks, values, blanks)
    return st.builds("[{}{}]".format, blanks, st.lists(items, max_size=3).map(",".join))


texts = st.recursive(scalars, lambda values: st.one_of(objects(values), arrays(values)), max_leaves=8)


padded = st.tuples(blanks, texts, blanks)


def split(body: bytes) -> list[bytes]:
    return [bytes(message) for message in split_messages(body)]


@generated
@given(blanks, st.lists(padded, max_size=5), blanks)
def test_messages_of_an_array_are_kept_byte_for_byte(
    before: str, messages: list[tuple[str, str, str]], after: str
) -> None:
    """§9.1.2: one level is flattened. Whitespace around a message is not part of it."""
    body = before + "[" + ",".join("".join(parts) for parts in messages) + "]" + after

    assert split(body.encode()) == [message.encode() for _, message, _ in messages]


@generated
@given(padded.filter(lambda parts: not parts[1].startswith("[")))
def test_a_value_that_is_no_array_is_one_message(parts: tuple[str, str, str]) -> None:
    """§9.1.1."""
    assert split("".join(parts).encode()) == [parts[1].encode()]


@pytest.mark.parametrize(
    "message",
    [
        b"100000000000000000000000000000000000001",
        b"1e2",
        b"-0.0",
        b"1E+400",
        b'{"b":1,"a":2,"b":3}',
        b'{ "a" :\t[ 1 ,\n2 ] }',
        b'"\\u0041\\/"',
        '"é\N{GRINNING FACE}\N{LINE SEPARATOR}"'.encode(),
        b'""',
    ],
)
def test_what_a_parser_would_rewrite_comes_back_as_it_was_sent(message: bytes) -> None:
    """Better than the reference: nothing is parsed and written anew."""
    stored, _ = pack_messages(message, 0)

    assert join_messages(stored) == b"[" + message + b"]"


@pytest.mark.parametrize(
    "body, messages",
    [
        (b'{"event": "created"}', [b'{"event": "created"}']),
        (b'[{"event": "a"}, {"event": "b"}]', [b'{"event": "a"}', b'{"event": "b"}']),
        (b"[[1,2], [3,4]]", [b"[1,2]", b"[3,4]"]),
        (b"[[[1,2,3]]]", [b"[[1,2,3]]"]),
        (b"[[]]", [b"[]"]),
        (b"[]", []),
        (b" [ ] ", []),
    ],
)
def test_exactly_one_level_is_flattened(body: bytes, messages: list[bytes]) -> None:
    """§9.1.2, §9.1.3: the examples of the specification, and the empty array."""
    assert split(body) == messages


@generated
@given(st.lists(texts, max_size=5))
def test_stored_messages_read_as_one_array(messages: list[str]) -> None:
    """§9.1.5; no messages are an empty array."""
    array = ("[" + ",".join(messages) + "]").encode()

    assert join_messages(pack_messages(array, 0)[0]) == array


@generated
@given(st.text('{}[],:"\\ \n\t\r\x0001e.-+Eutrfalsn\x1f\x7fé', max_size=8))
@example('"\t"')
@example("1 2")
@example("[1,]")
@example('{"a":1,}')
@example("01")
@example("-")
@example("1.")
@example("NaN")
@example('"\\x"')
@example("\N{ZERO WIDTH NO-BREAK SPACE}1")
@example("")
def test_what_another_strict_parser_refuses_is_refused_and_nothing_else(text: str) -> None:
    """§9.1.4: appended data must be valid JSON."""
    try:
        json.loads(text, parse_constant=int)  # no number is called NaN
    except ValueError:
        with pytest.raises(InvalidJson, match="the body must be JSON"):
            split_messages(text.encode())
    else:
        split_messages(text.encode())


@pytest.mark.parametrize("body", [b'"\xff"', b'"\xed\xa0\x80"', b"\xff", b'["\xc3"]', b'{"\xe9":1}'])
def test_text_that_is_not_utf8_is_refused(body: bytes) -> None:
    """§9.1.4."""
    with pytest.raises(InvalidJson, match=r"the body must be JSON in UTF-8: .* at byte"):
        split_messages(body)


@pytest.mark.parametrize("opening, closing", [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_too_deep_is_refused(opening: bytes, closing: bytes) -> None:
    """§9.1.4: 400, not a crash."""
    with pytest.raises(InvalidJson, match="nested less deeply"):
        split_messages(opening * BEYOND_ANY_STACK + b"1" + closing * BEYOND_ANY_STACK)


@pytest.mark.parametrize("batch", [b"%b", b"[%b]", b'[1,%b,{"a":2}]'])
def test_a_message_has_at_most_512_levels_alone_and_in_a_batch(batch: bytes) -> None:
    """Better than the interpreter's own limit, which differs between its versions."""
    deepest = b'{"a":' + b"[" * 511 + b"]" * 511 + b"}"
    assert deepest in split(batch % deepest)
    with pytest.raises(InvalidJson, match="at most 512 levels"):
        split_messages(batch % (b'{"b":' + deepest + b"}"))


def test_a_batch_is_split_up_to_a_million_values() -> None:
    """Better than the reference: bodies are bounded (413), in what they cost too."""
    values = b"1," * (MAX_BATCH_VALUES - 1)

    assert len(split_messages(b"[" + values + b"1]")) == MAX_BATCH_VALUES
    with pytest.raises(BatchTooLarge, match="at most 1000000 values"):
        split_messages(b" [" + values + b"1,1]")


def test_commas_bound_a_batch_wherever_they_stand() -> None:
    """Telling them apart would cost what the bound saves; a value that is no array may hold any number."""
    text = b'"' + b"," * MAX_BATCH_VALUES + b'"'

    assert split(text) == [text]
    with pytest.raises(BatchTooLarge):
        split_messages(b"[" + text + b"]")


def test_a_hostile_batch_is_refused_at_once() -> None:
    """A text that never ends, with a quotation mark in every third byte: no look at it may begin again at each."""
    with pytest.raises(BatchTooLarge):
        split_messages(b'["' + b'\\",' * MAX_BATCH_VALUES + b"]")


@pytest.mark.parametrize(
    "message",
    [
        rb'"\ud83d"',
        rb'"\uDE00"',
        rb'"\ud83d\ud83d\ude00"',
        rb'"\uD83D\n\\\ude00"',
        rb'{"\ud800":"\ud800","\ud800": [ "\\ud83d" , "\\\ud83d" ]}',
        rb'"\u0041\"\ud83d"',
    ],
)
def test_lone_surrogates_are_kept_alone_and_in_a_batch(message: bytes) -> None:
    """Gap G-03: what JavaScript sends when a chunk splits an emoji."""
    batch = b' [%b,1 , "\\\\" ,\n%b,[%b],[],"" ]'

    assert split(b" \n%b\t" % message) == [message]
    assert split(batch % (message, message, message)) == [
        message,
        b"1",
        rb'"\\"',
        message,
        b"[%b]" % message,
        b"[]",
        b'""',
    ]


@pytest.mark.parametrize(
    "body",
    [
        rb'"\ud83d',
        rb'"\ud83"',
        rb'"\udxyz"',
        rb"\ud83d",
        rb"1\ud83d",
        rb'["\ud83d",]',
        rb'["\ud83d" "\ud83d"]',
        rb'"\ud83d\x"',
        b'"\\ud83d\n"',
        rb'"\ud83d"1',
        rb'\\"\ud83d"',
        b"[" * 100_000 + rb'"\ud83d"' + b"]" * 100_000,
    ],
)
def test_what_is_no_json_beside_a_lone_surrogate_is_refused(body: bytes) -> None:
    """§9.1.4."""
    with pytest.raises(InvalidJson, match="the body must be JSON"):
        split_messages(body)


@generated
@given(st.text('{}[],:"\\ \n\t0ud8ceD3\x00', max_size=12), st.sampled_from([r"\ud83d", r"\uDE00", r"\\ud83d"]))
def test_beside_lone_surrogates_as_much_is_accepted_as_by_another_parser(text: str, escape: str) -> None:
    """§9.1.4: Python's own parser takes lone surrogates, and nothing else that is no JSON."""
    for body in (f'"{escape}{text}', f"[{text}{escape}", f'["{escape}", {text}'):
        try:
            expected = json.loads(body)
        except ValueError:
            with pytest.raises(InvalidJson):
                split_messages(body.encode())
        else:
            assert [json.loads(each) for each in split(body.encode())] == (
                expected if isinstance(expected, list) else [expected]
            )


@generated
@given(st.lists(st.sampled_from([r"\ud83d", r"\ude00", r"\\", r"\n", "x", r"\\ud83d"]), max_size=6).map("".join))
def test_a_mended_text_has_the_replacement_character_for_each_lone_surrogate(text: str) -> None:
    """It is what a decoder of UTF-16 makes of it, in as many bytes."""
    message = f'"{text}"'.encode()
    mended = json.loads(message).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    assert len(mend(message)) == len(message)
    assert json.loads(mend(message)).encode("utf-16-le", "surrogatepass").decode("utf-16-le") == mended
    assert decode_mended(msgspec.json.decode, message) == mended


def test_what_is_no_json_is_not_mended_into_json() -> None:
    for text in (b'"\\ud83d\0\0"', b'"', b'"\\ud83d'):
        with pytest.raises(msgspec.DecodeError):
            decode_mended(msgspec.json.decode, text)


def test_a_value_beside_a_lone_surrogate_is_bounded_in_its_depth_too() -> None:
    with pytest.raises(InvalidJson, match="nested less deeply"):
        split_messages(rb'["\ud83d",' + b"[" * BEYOND_ANY_STACK + b"]" * (BEYOND_ANY_STACK + 1))
