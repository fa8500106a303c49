"""TrustGraph's dialect renders what ibis 3.3.0 renders; what it does not offer is refused when loaded."""

from __future__ import annotations

from typing import Any

import pytest

from trustgraph_prompt.errors import RenderError, TemplateError
from trustgraph_prompt.prompts import Template

# Each was rendered by ibis 3.3.0 itself.
SAME: list[tuple[str, dict[str, Any], str]] = [
    ("{{ name }}", {"name": "Etna"}, "Etna"),
    ("{{ missing }}|{{ missing.deeper.still }}", {}, "|"),
    (
        "{{ none }} {{ yes }} {{ n }} {{ f }}",
        {"none": None, "yes": True, "n": 3, "f": 1.0},
        "None True 3 1.0",
    ),
    (
        "{{ schema }}",
        {"schema": {"name": "m", "fields": [{"name": "a", "primary": True, "size": None}]}},
        "{'name': 'm', 'fields': [{'name': 'a', 'primary': True, 'size': None}]}",
    ),
    (
        "{{ html }}{$ html $}",
        {"html": "<a href='x'>\"&"},
        "<a href='x'>\"&&lt;a href=&#x27;x&#x27;&gt;&quot;&amp;",
    ),
    ("{{ e.0 }} {{ e.1.k }} {{ e.9 }} {{ word.0 }}", {"e": ["x", {"k": "y"}], "word": "abc"}, "x y  a"),
    ("{{ d.0 }}", {"d": {"0": "zero"}}, "zero"),
    (
        "{% for x in xs %}{{ loop.index }}/{{ loop.count }}/{{ loop.length }}/"
        "{{ loop.is_first }}/{{ loop.is_last }} {% endfor %}",
        {"xs": ["a", "b"]},
        "0/1/2/True/False 1/2/2/False/True ",
    ),
    ("{% for x in xs %}{{ x }}{% empty %}nothing{% endfor %}", {"xs": []}, "nothing"),
    ("{% for x in xs %}{{ x }}{% empty %}nothing{% endfor %}", {}, "nothing"),
    ("{% for x in xs %}{{ x }}{% empty %}nothing{% endfor %}", {"xs": 5}, "nothing"),
    ("{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", {"d": {"a": 1, "b": [2]}}, "a=1;b=[2];"),
    ("{% for k in d %}{{ k }};{% endfor %}", {"d": {"a": 1, "b": [2]}}, "a;b;"),
    (
        "{% for a, b in pairs %}{{ a }}-{{ b }} {% endfor %}",
        {"pairs": [[1, 2, 3], ["x", "y"], "pq"]},
        "1-2 x-y p-q ",
    ),
    (
        "{% for a in x %}{% for b in a %}{{ loop.parent.index }}.{{ loop.index }} {% endfor %}{% endfor %}",
        {"x": [[1, 2], [3]]},
        "0.0 0.1 1.0 ",
    ),
    ("{% for c in word %}{{ c }}.{% endfor %}", {"word": "abc"}, "a.b.c."),
    ("{% if a %}A{% elif b %}B{% else %}C{% endif %}", {"b": 1}, "B"),
    (
        "{% if a and b %}both{% endif %}{% if a or b %}one{% endif %}{% if not a %}no{% endif %}",
        {"a": 0, "b": 1},
        "oneno",
    ),
    (
        "{% if a == 'x' or b > 2 and c in cs %}yes{% else %}no{% endif %}",
        {"a": "y", "b": 3, "c": 1, "cs": [1]},
        "yes",
    ),
    (
        "{% if c not in cs %}out{% endif %}{% if not c in cs %}out{% endif %}"
        "{% if missing == other %}same{% endif %}{% if missing != other %}differ{% endif %}",
        {"c": 2, "cs": [1]},
        "outoutdiffer",
    ),
    (
        "{% if x in 'abc' %}in{% endif %}{% if x != 'b' %}ne{% endif %}"
        "{% if n >= 2 && n <= 2 %}two{% endif %}",
        {"x": "a", "n": 2},
        "innetwo",
    ),
    (
        "{{ a or b or 'z' }} {{ none || 0 }} {{ a ?? 'y' :: 'n' }} {{ b ?? 'y' :: 'n' }}",
        {"b": "B", "none": None},
        "B 0 n y",
    ),
    (
        "{{ a|default('dflt') }} {{ b|upper|lower }} {{ xs|join(', ') }} "
        "{{ xs|len }} {{ b|first }}{{ b|last }}",
        {"b": "Bb", "xs": [1, None, "x"]},
        "dflt bb 1, None, x 3 Bb",
    ),
    (
        "{{ a|if_undefined('u') }} {{ b|if_undefined('u') }} {{ a|is_defined }} {{ b|is_defined }} "
        "{{ b|repr }} {{ xs|str }}",
        {"b": None, "xs": [1]},
        "u None False True None [1]",
    ),
    (
        "{{ 'lit' }} {{ 1 }} {{ 1.50 }} {{ None }} {{ True }} {{ 'a', 'b' }} "
        "{{ ['a', 1] }} {{ -1 }} {{ \"d'q\" }} {{ 'n\\n' }}",
        {},
        "lit 1 1.5 None True ('a', 'b') ['a', 1] -1 d'q n\n",
    ),
    ("{{ true }}{{ false }}{{ none }}", {"true": "t", "none": "n"}, "tn"),
    ("  {# gone #} a\n\n{% if x %}\n  b\n{% endif %}\n", {"x": 1}, "   a\n\n\n  b\n\n"),
    ("trailing\n\n", {}, "trailing\n\n"),
    ("a\r\nb\r\n{{ x }}\r\n", {"x": 1}, "a\r\nb\r\n1\r\n"),
    ('{"a": {"b": {{ x }}}}', {"x": 1}, '{"a": {"b": 1}}'),
    ("50% {done} }} %} #} $} { {x}", {}, "50% {done} }} %} #} $} { {x}"),
    ("{{x}}{{ x }}{{  x\n }}", {"x": 1}, "111"),
    ("{%if x%}y{%endif%}", {"x": 1}, "y"),
    ("{{ loop.index }}", {"loop": {"index": "mine"}}, "mine"),
    ("{{ context }}{{ class }}{{ id }}", {"context": "c", "class": "k", "id": "i"}, "cki"),
    ("{{ text }}", {"text": "{{ evil }} {% for %}"}, "{{ evil }} {% for %}"),
    ("{% for x in xs %}{{ x }}{% endfor %}{{ x }}", {"xs": [1], "x": "outer"}, "1outer"),
    ('{% if x == -1 %}neg{% endif %}{% if s == "a b" %}str{% endif %}', {"x": -1, "s": "a b"}, "negstr"),
    (
        "{{ d.missing or 'z' }}{{ big }}",
        {"d": {}, "big": 12345678901234567890123},
        "z12345678901234567890123",
    ),
    ("é {{ ключ }} 中", {"ключ": "ü"}, "é ü 中"),
]


@pytest.mark.parametrize(("source", "terms", "expected"), SAME)
def test_template_renders_as_in_ibis(source: str, terms: dict[str, Any], expected: str) -> None:
    assert Template.compile(source, dialect="ibis").render(terms) == expected


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ text.upper() }}", "line 1: a call is not available"),
        ("\n{{ text.__class__ }}", "line 2: `__class__`"),
        ("{{ now() }}", "line 1: a call"),
        ("{% for i in range(3) %}{% endfor %}", "line 1: a call"),
        ("{% for k in d.keys() %}{% endfor %}", "line 1: a call"),
        ("{{ d.items() }}", "line 1: a call"),
        ("a\nb{% include 'x' %}", "line 2: `{% include %}` is not available"),
        ("{% extends 'x' %}", "`{% extends %}`"),
        ("{% block x %}{% endblock %}", "`{% block %}`"),
        ("{% with a = b %}{% endwith %}", "`{% with %}`"),
        ("{% cycle 'a', 'b' %}", "`{% cycle %}`"),
        ("{% trim %}{% endtrim %}", "`{% trim %}`"),
        ("{{ x|pygmentize }}", "the filter `pygmentize`"),
        ("{{ x|random }}", "the filter `random`"),
        ("{{ x-y }}", "line 1: found -y, expected the end of the tag"),
        ("{{ }}", "expected a name or a literal"),
        ("{% %}", "`{%  %}`"),
        ("{{ a.b. }}", "`a.b.` is not a valid name"),
        ("{{ 'open }}", "found '"),
        ("{{ 1j }}", "found 1j"),
        ("{{ {'a': 1} }}", "found {"),
        ("{% for a.b in c %}{% endfor %}", "not a valid name for a loop variable"),
        ("{% for a of c %}{% endfor %}", "expected in"),
        ("{% if %}{% endif %}", "found the end of the tag"),
        ("{% if a = b %}{% endif %}", "found ="),
        ("\n{% for a in b %}\n", "line 2: the block opened here is not closed"),
        ("{{ a", "`{{` is not closed"),
        ("{# a", "`{#` is not closed"),
        ("{% endif %}", "`{% endif %}` is out of place"),
        ("{% for a in b %}{% endif %}", "`{% endif %}` is out of place"),
        ("{% for a in b %}{% else %}{% endfor %}", "`{% else %}` is out of place"),
        ("{% if a %}{% empty %}{% endif %}", "`{% empty %}` is out of place"),
        ("{% if a %}{% else %}{% elif b %}{% endif %}", "`{% elif %}` is out of place"),
        ("{{ x|upper('a') }}", "the filter `upper`: too many positional arguments"),
        ("{{ x|default(y) }}", "found y, expected a name or a literal"),
    ],
)
def test_unsupported_syntax_is_refused_when_loaded(source: str, said: str) -> None:
    with pytest.raises(TemplateError) as raised:
        Template.compile(source, dialect="ibis", where="template.x")
    assert said in str(raised.value)
    assert str(raised.value).startswith("template.x: line ")


def test_keys_of_data_go_before_methods_of_python() -> None:
    template = Template.compile("{{ d.items }} {{ d.keys }} {{ text.upper }}", dialect="ibis")
    assert template.render({"d": {"items": "mine"}, "text": "a"}) == "mine  "


def test_json_filter_writes_json_in_place_of_python() -> None:
    template = Template.compile("{{ schema|json }}", dialect="ibis")
    assert template.render({"schema": {"a": [True, None, "é"]}}) == '{"a": [true, null, "é"]}'


def test_loop_over_items_too_short_for_its_variables_is_a_render_error() -> None:
    template = Template.compile(
        "\n{% for a, b in pairs %}{{ a }}{% endfor %}", dialect="ibis", where="template.x"
    )
    with pytest.raises(RenderError, match=r"template\.x line 2: cannot unpack a list into 2 loop variables"):
        template.render({"pairs": [[1]]})
