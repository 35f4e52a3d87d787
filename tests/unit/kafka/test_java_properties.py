"""Properties files are parsed like `java.util.Properties.load` does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.kafka.java_properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a=1\nb: 2\nc 3\n", {"a": "1", "b": "2", "c": "3"}, id="three separators"),
        pytest.param("  a = x y  \n", {"a": "x y  "}, id="trailing blanks are kept"),
        pytest.param("# a=1\n ! b=2\n\n", {}, id="comments and empty lines"),
        pytest.param("a=1,\\\n   2\r\nb=3", {"a": "1,2", "b": "3"}, id="a continued line"),
        pytest.param("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}, id="two backslashes end a line"),
        pytest.param("a=1\\\n# 2", {"a": "1# 2"}, id="no comment in a continued line"),
        pytest.param("k\\=\\ y=v\\u0041\\t", {"k= y": "vA\t"}, id="escapes"),
        pytest.param('j=M required user="a=b:c";', {"j": 'M required user="a=b:c";'}, id="jaas"),
        pytest.param("a\nb=\n=c", {"a": "", "b": "", "": "c"}, id="no value, no key"),
        pytest.param("a=1\na=2", {"a": "2"}, id="the last one is used"),
        pytest.param("a==1", {"a": "=1"}, id="only the first sign separates"),
        pytest.param("a=1\\", {"a": "1"}, id="a backslash at the end"),
        pytest.param("\\", {"": ""}, id="only a backslash"),
        pytest.param("\\\n\\\n\na=1", {"a": "1"}, id="continued blank lines"),
        pytest.param("\\\n#=1", {"#": "1"}, id="no comment after a backslash"),
        pytest.param("a=x\\ud83d\\ude00", {"a": "x😀"}, id="a character as two escapes"),
        pytest.param("a=\\ude00\\ud83d", {"a": "\ude00\ud83d"}, id="unpaired surrogates"),
    ],
)
def test_a_properties_file_is_parsed_like_java(text, expected):
    assert parse_properties(text) == expected


@given(st.text(st.sampled_from("ab\\=: #!\n\r\tu0")))
def test_any_text_can_be_parsed(text):
    assert all(isinstance(value, str) for value in parse_properties(text).values())
