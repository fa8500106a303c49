// Small elements of the page. Texts from the graph become text nodes, never markup.

/** @returns an element with attributes (or properties, for functions) and children */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made[key] = value;
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

export const button = (content, onclick, attributes = {}) =>
  element("button", { type: "button", onclick, ...attributes }, ...[content].flat());

/** The first characters of a text, of which there may be far too many to read or to lay out. */
export function shortened(text, longest) {
  if (text.length <= longest) return text;
  const characters = [...text.slice(0, 2 * longest + 2)]; // one may be two code units
  return characters.length > longest ? `${characters.slice(0, longest).join("")}…` : text;
}

/** A text whose direction changes nothing beside it. */
export const isolated = (text) => element("bdi", {}, text);

/** A number with its thousands apart. */
export const inWords = (number) => number.toLocaleString("en");

/** Fill a `select` with choices: [text, value] each. */
export function fill(select, choices) {
  select.replaceChildren(...choices.map(([text, value]) => element("option", { value: String(value) }, text)));
}

const MOST_ROWS = 200;

/** Fill a list with the rows of values, the first 200, and then as many again on request. */
export function fillList(list, values, row, from = 0) {
  const rows = values.slice(from, from + MOST_ROWS).map((value) => element("li", {}, ...[row(value)].flat()));
  const rest = values.length - from - rows.length;
  if (from === 0) list.replaceChildren();
  list.append(...rows);
  if (rest) {
    const more = button(`${inWords(rest)} more`, () => {
      more.parentElement.remove();
      fillList(list, values, row, from + MOST_ROWS);
      list.children[from + MOST_ROWS].querySelector("button").focus();
    }, { class: "small" });
    list.append(element("li", {}, more));
  }
  oneStop(list, controls(list)[0]);
}

const controls = (list) => [...list.querySelectorAll("button, input")];

/** A list is one stop of Tab; arrow keys move in it. */
function oneStop(list, stop) {
  for (const each of controls(list)) each.tabIndex = each === stop ? 0 : -1;
}

document.addEventListener("focusin", ({ target }) => {
  const list = target.closest("ul.list");
  if (list && target !== list) oneStop(list, target);
});

document.addEventListener("keydown", (event) => {
  const list = event.target.closest("ul.list");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!list || !step) return;
  event.preventDefault();
  const all = controls(list);
  all[all.indexOf(event.target) + step]?.focus();
});
