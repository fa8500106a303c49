// The text of one document, with a mark on everything that was extracted from it.

import { colour, thingAt } from "./data.js";
import { element } from "./lists.js";

/** Whole lines of at least 2,000 characters: a block that is out of sight costs no layout. */
const BLOCKS = /[^]{1,2000}[^\n]*\n?/g;

/** What makes a line a heading, which is bold here instead. */
const HEADING_MARKS = /^ {0,3}#{1,6}[ \t]*|(?<![ \t])[ \t]+#+[ \t]*$|\n {0,3}(?:=+|-+)[ \t]*$/g;

const area = document.getElementById("text");

let shown = null;
/** Pieces of the text in its order: between two of them a passage or a heading begins or ends. */
let pieces = [];

/** Show a document, unless it is shown already. */
export function showDocument(doc) {
  if (shown === doc) return;
  shown = doc;
  pieces = [];
  const passages = [...doc.passages].sort((a, b) => a.start - b.start || b.end - a.end);
  const marks = doc.headings.flatMap(([start, end]) =>
    [...doc.text.slice(start, end).matchAll(HEADING_MARKS)].map(({ 0: mark, index }) => [start + index, start + index + mark.length]));
  const bounds = [...new Set([...passages.flatMap(({ start, end }) => [start, end]), ...doc.headings.flat(), ...marks.flat()])].sort((a, b) => a - b);
  const blocks = [];
  let open = [];
  let [next, bound, heading, mark] = [0, 0, 0, 0];
  for (const { 0: text, index: from } of doc.text.matchAll(BLOCKS)) {
    const block = document.createElement("div");
    block.style.containIntrinsicSize = `auto ${Math.ceil(text.length / 50) * 1.6}em`;
    for (let start = from; start < from + text.length; ) {
      while (bounds[bound] <= start) bound += 1;
      const end = Math.min(bounds[bound] ?? Infinity, from + text.length);
      open = open.filter((passage) => passage.end > start);
      while (passages[next]?.start <= start) open.push(passages[next++]);
      while (doc.headings[heading]?.[1] <= start) heading += 1;
      while (marks[mark]?.[1] <= start) mark += 1;
      const part = piece(doc.text.slice(start, end), start, end, open);
      const isMark = marks[mark]?.[0] <= start && !open.length;
      block.append(doc.headings[heading]?.[0] <= start ? element("b", { hidden: isMark }, part) : part);
      start = end;
    }
    blocks.push(block);
  }
  area.replaceChildren(...blocks);
  area.scrollTop = 0;
}

function piece(text, start, end, passages) {
  const node = document.createTextNode(text);
  const here = { start, end, node, mark: null };
  pieces.push(here);
  if (!passages.length) return node;
  const passage = passages.at(-1); // the innermost
  here.mark = colour(document.createElement("mark"), thingAt(passage).types[0]);
  Object.assign(here.mark, { passage, tabIndex: -1 });
  here.mark.classList.toggle("several", passages.length > 1);
  here.mark.append(node);
  return here.mark;
}

/** Show a place: its sentence, and in it its passages. @param {import('./data.js').Place} place */
export function showPlace(place) {
  showDocument(place.document);
  clearPlace();
  const within = pieces.filter(({ start, end }) => start < place.end && place.start < end);
  if (!within.length) return;
  const [first, last] = [within[0], within.at(-1)];
  const range = new Range();
  range.setStart(first.node, place.start - first.start);
  range.setEnd(last.node, place.end - last.start);
  globalThis.CSS.highlights?.set("sentence", new Highlight(range));
  for (const { start, end, mark } of within) {
    if (place.passages.some((passage) => passage.start < end && start < passage.end)) mark?.classList.add("chosen");
  }
  first.node.parentElement.closest("div").scrollIntoView(); // and so it gets a layout
  const above = range.getBoundingClientRect().top - area.getBoundingClientRect().top;
  area.scrollTop += above - area.clientHeight / 4;
}

export function clearPlace() {
  globalThis.CSS.highlights?.delete("sentence");
  for (const mark of area.querySelectorAll(".chosen")) mark.classList.remove("chosen");
}

/** Call back with the passage of a mark that is clicked, or reached with N and P and chosen with Enter. */
export function onPassage(callback) {
  area.addEventListener("click", ({ target }) => {
    const mark = target.closest("mark");
    if (mark && getSelection().isCollapsed) callback(mark.passage);
  });
  area.addEventListener("keydown", ({ key, target, ctrlKey, metaKey, altKey }) => {
    if (ctrlKey || metaKey || altKey) return;
    if (key === "Enter" && target.passage) callback(target.passage);
    const step = { n: 1, p: -1 }[key.toLowerCase()];
    const marks = [...area.querySelectorAll("mark")];
    if (!step || !marks.length) return;
    const at = marks.indexOf(target);
    marks[at < 0 ? firstInSight(marks) : (at + step + marks.length) % marks.length].focus();
  });
}

function firstInSight(marks) {
  const { top } = area.getBoundingClientRect();
  return Math.max(0, marks.findIndex((mark) => mark.getBoundingClientRect().top >= top));
}
