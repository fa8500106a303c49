"""Whoever may write a template can neither run code nor exhaust the worker."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from trustgraph_prompt.errors import RenderError, RenderTooLong, TemplateError
from trustgraph_prompt.prompts import Template
from trustgraph_prompt.prompts.template import Dialect

DIALECTS: tuple[Dialect, ...] = ("jinja", "ibis")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ x.__class__.__mro__ }}", "`__mro__`, a name that begins with an underscore"),
        ("{{ __import__ }}", "`__import__`"),
        ("{{ _private }}", "`_private`"),
        ("{% for _x in y %}{% endfor %}", "`_x`"),
        ("{{ x|attr('__class__') }}", "the filter `attr`"),
        ("{{ l|map(attribute='__class__') }}", "the filter `map`"),
        ("{{ '%999999999d'|format(1) }}", "the filter `format`"),
        ("{{ '{0.__class__}'.format(x) }}", "a call"),
        ("{{ ''.join(x) }}", "a call"),
        ("{{ x() }}", "a call"),
        ("{{ x.items() }}", "a call"),
        ("{% for k in x.items(1) %}{% endfor %}", "a call"),
        ("{% for k in x.values() %}{% endfor %}", "a call"),
        ("{% for i in range(999999999) %}{% endfor %}", "a call"),
        ("{{ cycler('a').next() }}", "a call"),
        ("{{ joiner(',') }}", "a call"),
        ("{{ lipsum(n=999999) }}", "a call"),
        ("{{ namespace(a=1) }}", "a call"),
        ("{{ dict(a=1) }}", "a call"),
        ("{% for x in y recursive %}{{ loop(x) }}{% endfor %}", "`for … recursive`"),
        ("{% for x in y %}{{ loop(x) }}{% endfor %}", "a call"),
        ("{% for x in y %}{{ loop.cycle('a') }}{% endfor %}", "a call"),
        ("{% for x in y if x %}{% endfor %}", "`for … if` is not available in templates; available: an `if`"),
        ("{% set a = 'x' %}", "{% set %}"),
        ("{% set a %}x{% endset %}", "{% set %}"),
        ("{% macro m() %}{{ m() }}{% endmacro %}", "{% macro %}"),
        ("{% call m() %}{% endcall %}", "{% call %}"),
        ("{% filter upper %}x{% endfilter %}", "{% filter %}"),
        ("{% include 'x' %}", "{% include %}"),
        ("{% import 'x' as y %}", "{% import %}"),
        ("{% from 'x' import y %}", "{% from %}"),
        ("{% extends 'x' %}", "{% extends %}"),
        ("{% block b %}{{ self.b() }}{% endblock %}", "{% block %}"),
        ("{% with a = x %}{% endwith %}", "{% with %}"),
        ("{% autoescape true %}{% endautoescape %}", "{% autoescape %}"),
        ("{% do x %}", "unexpected `{% do %}`"),
        ("{{ self }}", "the name `self`"),
        ("{{ x ~ x }}", "concatenation"),
        ("{{ x + x }}", "arithmetic"),
        ("{{ 'a' * 999999999 }}", "arithmetic"),
        ("{{ 9 ** 9 ** 9 }}", "arithmetic"),
        ("{{ x % 2 }}", "arithmetic"),
        ("{{ -x }}", "arithmetic"),
        ("{{ x[:5] }}", "a slice"),
        ("{{ {'a': 1} }}", "a {…} literal"),
        ("{{ x|upper(*y) }}", "`*` in arguments"),
        ("{{ x|join(nope=1) }}", "the filter `join`"),
        ("{{ x is callable }}", "the test `callable`"),
        ("{{ 1e999 }}", "a number that is not finite"),
        ("{{ " + "9" * 10_000 + " }}", "cannot be read"),
    ],
)
def test_syntax_not_on_the_allowlist_is_refused_when_loaded(source: str, said: str) -> None:
    with pytest.raises(TemplateError) as raised:
        Template.compile(source)
    assert said in str(raised.value)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 5_000 + "x" + ")" * 5_000 + " }}",
        "{{ " + "[" * 5_000 + "1" + "]" * 5_000 + " }}",
        "{{ x" + ".y" * 3_000 + " }}",
        "{{ x" + "|upper" * 2_000 + " }}",
        "{{ x" + " or x" * 2_000 + " }}",
        "{% if " + "not " * 3_000 + "x %}{% endif %}",
        "{% for a in x %}" * 60 + "{% endfor %}" * 60,
        "{% if x %}" * 3_000 + "{% endif %}" * 3_000,
        "{% if x %}" + "{% elif x %}" * 4_000 + "{% endif %}",
        "{{ x }}" * 10_000,
        "{{ [" + "1," * 6_000 + "1] }}",
        "{{" * 10_000,
        "{{ '" + "\\'" * 50_000,
        "x" * 200_000,
    ],
    ids=lambda source: source[:20],
)
def test_template_too_large_or_too_deep_is_refused_when_loaded(source: str, dialect: Dialect) -> None:
    with pytest.raises(TemplateError):
        Template.compile(source, dialect=dialect)


MANY = list(range(1_000))
LONG = "y" * 1_000_000

TOO_MUCH: dict[str, tuple[str, dict[str, Any], str]] = {
    "doubling by loops": (
        "{% for a in x %}{% for b in x %}{{ t }}{% endfor %}{% endfor %}",
        {"x": MANY, "t": LONG},
        "longer than 4,000,000 characters",
    ),
    "loops that print nothing": (
        "{% for a in x %}{% for b in x %}{% for c in x %}{% endfor %}{% endfor %}{% endfor %}",
        {"x": MANY},
        "more than 10,000,000 steps",
    ),
    "a long body": (
        "{% for a in x %}{% for b in x %}" + "{% if a %}{% endif %}" * 1_000 + "{% endfor %}{% endfor %}",
        {"x": MANY},
        "more than 10,000,000 steps",
    ),
    "a long separator": ("{{ x|join('" + "y" * 20_000 + "') }}", {"x": MANY}, "more than 10,000,000 steps"),
    "filters that print nothing": (
        "{% for a in x %}{% if t|upper %}{% endif %}{% endfor %}",
        {"x": MANY, "t": LONG},
        "more than 10,000,000 steps",
    ),
    "comparisons of long strings": (
        "{% for a in x %}{% if t == u %}{% endif %}{% endfor %}",
        {"x": MANY, "t": LONG, "u": LONG[:-1] + "z"},
        "more than 10,000,000 steps",
    ),
    "searches in long lists": (
        "{% for a in x %}{% if 'z' in t %}{% endif %}{% endfor %}",
        {"x": MANY, "t": ["y"] * 15_000},
        "more than 10,000,000 steps",
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", TOO_MUCH)
def test_rendering_ends_at_its_limits(name: str, dialect: Dialect) -> None:
    source, terms, said = TOO_MUCH[name]
    template = Template.compile(source, dialect=dialect, where="template.x")
    with pytest.raises(RenderError, match=said) as raised:
        template.render(terms)
    assert str(raised.value).startswith("template.x")


@pytest.mark.parametrize("source", ["{{ x }}", "{% for a in x %}{% endfor %}", "{{ x|tojson }}"])
def test_rendering_with_a_share_of_the_limits_ends_at_that_share(source: str) -> None:
    template = Template.compile(source)
    template.render({"x": MANY}, share=0.02)
    with pytest.raises(RenderTooLong):
        template.render({"x": MANY * 50}, share=0.02)
    template.render({"x": MANY * 50})


def test_separator_from_the_terms_cannot_multiply_them() -> None:
    with pytest.raises(RenderError, match="more than 10,000,000 steps"):
        Template.compile("{{ x|join(t) }}").render({"x": MANY, "t": LONG})


def test_each_rendering_has_the_whole_limits() -> None:
    template = Template.compile("{% for a in x %}{{ t }}{% endfor %}")
    terms = {"x": [1, 2, 3], "t": LONG}
    assert [len(template.render(terms)) for _ in range(3)] == [3_000_000] * 3


def test_template_syntax_in_a_term_is_kept_literally() -> None:
    evil = "{{ secret }}{% for x in y %}{{ ''.__class__ }}"
    assert Template.compile("{{ text }}").render({"text": evil, "secret": "s"}) == evil


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_internal_to_jinja_are_undefined(dialect: Dialect) -> None:
    source = "{{ environment }}{{ context }}{{ missing }}{{ resolve }}{{ undefined }}{{ range }}{{ lipsum }}"
    assert Template.compile(source, dialect=dialect).render({}) == ""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_invalid_escape_in_a_template_gives_no_warning(dialect: Dialect) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Template.compile(r"{{ '\d' }}", dialect=dialect).render({}) == r"\d"
