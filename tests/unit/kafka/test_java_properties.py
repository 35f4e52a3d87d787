"""Properties files are read as `java.util.Properties.load` reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.kafka.java_properties import read_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a=1\nb: 2\nc 3\n", {"a": "1", "b": "2", "c": "3"}, id="three ways to part"),
        pytest.param("  a = x y  \n", {"a": "x y  "}, id="blanks at the end stay"),
        pytest.param("# a=1\n ! b=2\n\n", {}, id="comments and empty lines"),
        pytest.param("a=1,\\\n   2\r\nb=3", {"a": "1,2", "b": "3"}, id="a line that goes on"),
        pytest.param("a=x\\\\\nb=1", {"a": "x\\", "b": "1"}, id="two backslashes end a line"),
        pytest.param("a=1\\\n# 2", {"a": "1# 2"}, id="no comment in a line that goes on"),
        pytest.param("k\\=\\ y=v\\u0041\\t", {"k= y": "vA\t"}, id="escapes"),
        pytest.param('j=M required user="a=b:c";', {"j": 'M required user="a=b:c";'}, id="jaas"),
        pytest.param("a\nb=\n=c", {"a": "", "b": "", "": "c"}, id="no value, no key"),
        pytest.param("a=1\na=2", {"a": "2"}, id="the last one holds"),
        pytest.param("a==1", {"a": "=1"}, id="only the first sign parts"),
        pytest.param("a=1\\", {"a": "1"}, id="a backslash at the end"),
        pytest.param("a=x\\ud83d\\ude00", {"a": "x😀"}, id="a character as native2ascii has it"),
        pytest.param("a=\\ude00\\ud83d", {"a": "\ude00\ud83d"}, id="halves that are none"),
    ],
)
def test_a_file_becomes_settings(text, expected):
    assert read_properties(text) == expected


@given(st.text(st.sampled_from("ab\\=: #!\n\r\tu0")))
def test_any_text_becomes_settings(text):
    assert all(isinstance(value, str) for value in read_properties(text).values())
