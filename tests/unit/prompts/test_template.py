"""Templates in our own dialect: what they render, and how they say what is wrong with them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trustgraph_prompt.errors import RenderError, TemplateError
from trustgraph_prompt.prompts import Template


def render(source: str, **terms: Any) -> str:
    return Template.compile(source).render(terms)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as is, <b>not</b> escaped", "as is, <b>not</b> escaped"),
        (None, ""),
        (True, "true"),
        (7, "7"),
        (0.5, "0.5"),
        (2**70, str(2**70)),
        ([1, "é", None], '[1, "é", null]'),
        ({"a": {"b": [True]}}, '{"a": {"b": [true]}}'),
        ("{{ other }}", "{{ other }}"),
    ],
)
def test_values_are_rendered_as_people_and_models_read_them(value: object, text: str) -> None:
    assert render("{{ value }}", value=value) == text


def test_undefined_values_render_as_nothing_however_deep() -> None:
    source = (
        "[{{ a }}{{ a.b.c }}{{ a['b'][3].c }}{{ b.missing.still }}{{ c[9] }}{% for x in a.b %}x{% endfor %}]"
    )
    assert render(source, b={}, c=[]) == "[]"


def test_members_are_found_by_name_and_by_index() -> None:
    source = "{{ o.a }} {{ o['b-c'] }} {{ l[0] }} {{ l[-1] }} {{ l.1 }} {{ s[1] }} {{ o[key] }}"
    assert render(source, o={"a": 1, "b-c": 2}, l=["x", "y"], s="abc", key="a") == "1 2 x y y b 1"


def test_attributes_of_python_objects_are_undefined() -> None:
    assert (
        render("{{ s.upper }}{{ l.append }}{{ o.keys }}{{ o.items }}", s="a", l=[], o={"items": "mine"})
        == "mine"
    )


def test_loop_variables_count_the_rounds() -> None:
    source = (
        "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}"
        "{{ loop.length }}{% if loop.first %}F{% endif %}{% if loop.last %}L{% endif %} {% endfor %}"
    )
    assert render(source, xs=["a", "b"]) == "10212F 21102L "


def test_each_loop_has_its_own_loop_variable_and_outside_it_is_a_term() -> None:
    source = (
        "{{ loop }}{% for a in x %}{{ loop.index }}{% for b in a %}({{ loop.index }}){% endfor %}"
        "{{ loop.index }}{% else %}{{ loop }}{% endfor %}"
    )
    assert render(source, x=[[1, 2], []], loop="mine ") == "mine 1(1)(2)122"
    assert render(source, x=[], loop="mine ") == "mine mine "


def test_loops_run_over_lists_objects_and_strings() -> None:
    source = (
        "{% for k, v in o.items() %}{{ k }}={{ v }} {% endfor %}"
        "{% for k in o %}{{ k }}{% endfor %}{% for c in s %}{{ c }}.{% endfor %}"
    )
    assert render(source, o={"a": 1, "b": 2}, s="xy") == "a=1 b=2 abx.y."
    assert render("{% for k, v in o|items %}{{ k }}{{ v }}{% endfor %}", o={"a": 1}) == "a1"
    assert render("{% for a, b in x %}{{ b }}{{ a }}{% endfor %}", x=[[1, 2], [3, 4]]) == "2143"
    assert render("{% for x in none %}x{% else %}nothing{% endfor %}") == "nothing"


def test_conditions_and_tests_are_evaluated() -> None:
    source = "{% if a and not b %}1{% elif b in ['x', 'y'] %}2{% elif n >= 3 %}3{% else %}4{% endif %}"
    assert [
        render(source, a=1),
        render(source, b="y"),
        render(source, n=3),
        render(source, n=1),
    ] == ["1", "2", "3", "4"]
    assert render("{{ 'yes' if a else 'no' }}{{ a or 'other' }}", a="") == "noother"
    tests = (
        "{% if a is defined %}d{% endif %}{% if b is undefined %}u{% endif %}{% if a is none %}n{% endif %}"
    )
    assert render(tests, a=None) == "dun"


def test_filters_are_applied() -> None:
    assert (
        render("{{ s|upper|lower|trim }}|{{ l|length }}|{{ l|first }}{{ l|last }}", s=" Ab ", l=[1, 2])
        == "ab|2|12"
    )
    assert render("{{ l|join(', ') }} {{ l|json }} {{ s|tojson }}", l=[1, None, {"a": 1}], s='"') == (
        '1, , {"a": 1} [1, null, {"a": 1}] "\\""'
    )
    assert render("{{ a|default('x') }}{{ e|default('x') }}{{ e|default('x', true) }}", e="") == "xx"
    assert render("[{{ a|upper }}{{ a|first }}{{ a|length }}{{ a|join(',') }}{{ l|first }}]", l=[]) == "[0]"


def test_tag_alone_on_its_line_leaves_no_line_behind() -> None:
    source = """\
Terms:
  {# a comment #}
{% for x in xs %}
  {% if x %}
- {{ x }}{% if x == 'a' %} first{% endif %}
  {% endif %}
{% endfor %}
end
"""
    assert render(source, xs=["a", "", "b"]) == "Terms:\n- a first\n- b\nend"


def test_line_with_more_than_a_tag_keeps_its_end() -> None:
    assert (
        render("{% if a %}x{% endif %}\n{% if a %} {% endif %}{{ a }}\n  {% raw %}{{{% endraw %}\n-", a=1)
        == "x\n 1\n  {{\n-"
    )


def test_raw_text_is_kept_literally() -> None:
    assert render("{% raw %}{{ a }}{% set x %}{% endraw %}{{ a }}", a=1) == "{{ a }}{% set x %}1"


def test_rendering_changes_no_term() -> None:
    terms = {"o": {"b": [3, 1, 2], "a": {"c": None}}, "l": [[1], {"k": "v"}]}
    before = copy.deepcopy(terms)
    source = "{{ o }}{{ l|first|json }}{% for k, v in o.items() %}{{ v|length }}{% endfor %}{{ l|join }}"
    template = Template.compile(source)
    assert template.render(terms) == template.render(terms)
    assert terms == before


class Stringy(str):
    pass


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"a": object()}, "term /a: found object <object"),
        ({"a": [{"b": {1, 2}}]}, "term /a/0/b: found set {1, 2}, expected plain JSON"),
        ({"a": float("nan")}, "term /a: found float nan"),
        ({"a": {1: 2}}, "term /a: found the key 1, expected a string"),
        ({"a": (1, 2)}, "term /a: found tuple (1, 2)"),
        ({"a": Stringy("x")}, "term /a: found Stringy 'x'"),
        ({"a/b~": b"x"}, "term /a~1b~0: found bytes b'x'"),
    ],
)
def test_terms_that_are_not_plain_json_are_refused(terms: dict[str, object], said: str) -> None:
    with pytest.raises(RenderError) as raised:
        Template.compile("x", where="template.x").render(terms)
    assert str(raised.value).startswith(f"template.x: {said}")


def test_terms_nested_too_deep_are_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RenderError, match="nested deeper than 100 levels"):
        Template.compile("{{ deep }}").render({"deep": deep})
    while deep:
        deep = deep.pop()  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("source", "terms", "said"),
    [
        ("\n\n{% for x in n %}{% endfor %}", {"n": 5}, "line 3: cannot loop over a number"),
        (
            "{% for k, v in n.items() %}{% endfor %}",
            {"n": [1]},
            "line 1: `items` works on an object, found a list",
        ),
        (
            "{% for a, b in l %}{% endfor %}",
            {"l": ["xy"]},
            "line 1: cannot unpack a string into 2 loop variables",
        ),
        ("{{ n|upper }}", {"n": 5}, "line 1: `upper` works on a string, found a number"),
        (
            "{{ n|length }}",
            {"n": None},
            "line 1: `length` works on a list or a string or an object, found null",
        ),
        ("{% if n < 'a' %}{% endif %}", {"n": 5}, "line 1: '<' not supported"),
        ("{% if 'a' in n %}{% endif %}", {"n": 5}, "line 1: argument of type 'int' is not iterable"),
        ("{% if missing > 1 %}{% endif %}", {}, "line 1: 'missing' is undefined"),
    ],
)
def test_term_of_a_wrong_type_is_an_error_that_names_the_line(
    source: str, terms: dict[str, object], said: str
) -> None:
    with pytest.raises(RenderError) as raised:
        Template.compile(source, where="template.x").render(terms)
    assert str(raised.value).startswith(f"template.x {said}")


def test_errors_say_where_and_what() -> None:
    with pytest.raises(TemplateError) as raised:
        Template.compile("ok\n{{ a|shout }}", where="template.x")
    error = raised.value
    assert error.where == "template.x"
    assert str(error).startswith(
        "template.x: line 2: the filter `shout` is not available in templates; available: default, first"
    )


@pytest.mark.parametrize(
    "source", ["{{ a", "{% if a %}", "{{ a b }}", "{% nope %}", "{% endif %}", "{{ a| }}", "{{ '", "{# a"]
)
def test_invalid_template_is_refused_with_its_line(source: str) -> None:
    with pytest.raises(TemplateError, match="line 2: "):
        Template.compile("\n" + source)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("Find {{ text\n\n<passage>\nx\n</passage>", "line 1: `{{` is not closed by `}}`"),
        ("a\nFind {{ text\n{{ more }}", "line 2: `{{` is not closed by `}}`"),
        ("a\nFind {{ text }\n", "line 2: `{{` is not closed by `}}`"),
        ("a\n{% if x\nb\n{% endif %}", "line 2: `{%` is not closed by `%}`"),
        ("a\n{# b\n{{ c }}", "line 2: `{#` is not closed by `#}`"),
        ("a\n{{ b\n<c>\n</c>\n{'d': {'e': 1}}", "line 2: is this `{{` closed? 2 lines further: unexpected"),
        ("a\n{% if b %}\nc\n", "line 2: `{% if %}` is not closed by `{% endif %}`"),
        ("{% for a in b %}\n{% if a %}\n{% endfor %}", "line 2: `{% if %}` is not closed by `{% endif %}`"),
        ("{% if a %}{% endif %}\n{% for a in b %}\n{{ a }}", "line 2: `{% for %}` is not closed"),
        ('{% raw %}{{ {% endraw %}{{ "{{" }}\n{{ a b }}', "line 2: found `b`, expected `}}`"),
        ("{% if a %}\n{% endfor %}{% endif %}", "line 1: `{% if %}` is not closed by"),
        ("a\n{% endif %}", "line 2: unexpected `{% endif %}`"),
        (
            "{% if a %}{% nope %}{% endif %}",
            "line 1: found `{% nope %}`, expected `{% elif %}` or `{% else %}`",
        ),
        ("{% set a %}", "line 1: found the end of the template, expected `{% endset %}`"),
        ("{{ a }}\n{{ a }}{{ }}", "line 2: `{{ }}` is empty, expected something like `{{ text }}`"),
        ("{% %}", "line 1: `{% %}` is empty, expected something like `{% if text %}`"),
        ("{{ a + }}", "line 1: unexpected `}}`"),
        ("{{ a | }}", "line 1: found `}}`, expected a name"),
        ("{{ a? }}", "line 1: unexpected character '?'"),
    ],
)
def test_unclosed_tag_is_refused_with_the_line_where_it_was_opened(source: str, said: str) -> None:
    with pytest.raises(TemplateError) as refusal:
        Template.compile(source)
    assert str(refusal.value).startswith(said)
