// The graph as `graph_store/page.py` writes it, with numbers resolved to objects.

import { shortened } from "./lists.js";

/**
 * @typedef {{start: number, end: number, document: Doc, page: ?number, heading: ?string, facts: Fact[]}} Passage
 *   Offsets are UTF-16 code units of the document's text, the end exclusive.
 * @typedef {{number: number, name: string, text: string, headings: number[][], passages: Passage[]}} Doc
 * @typedef {{number: number, name: string, types: string[], x: number, y: number, iris: string[], others: string[], facts: Fact[]}} Thing
 *   `facts` are those in which it is subject or object.
 * @typedef {{subject: Thing, predicate: string, object: Thing | string, isRelation: boolean, isLinked: boolean, passages: Passage[], prompts: string[], chunks: Passage[], isUngrounded: boolean, isWeak: boolean, isLookedUp: boolean}} Fact
 *   `chunks` are what it was extracted from. `isLinked`: the model gave a text, which is the name of this object.
 * @typedef {{document: Doc, start: number, end: number, passages: Passage[], at: Passage}} Place
 *   From the first sentence of some passages to the last; `at` tells page and heading.
 * @typedef {{passage: Passage, prompt: string, object: string, reason: string}} Refusal
 */

export const NO_TYPE = "no type";

const data = JSON.parse(document.getElementById("data").textContent);
const strings = data.strings;

/** Characters of a name, and of another text: a browser needs minutes to lay out a word of 100,000. */
const [LONGEST_NAME, LONGEST_TEXT] = [1000, 5000];
const name = (number) => shortened(strings[number], LONGEST_NAME);
const aText = (text) => shortened(text, LONGEST_TEXT);

/** @type {Doc[]} */
export const documents = data.documents.map(([files, text, headings], number) => ({
  number, name: files.join(", "), text, headings, passages: [],
}));

const passages = data.passages.map(([doc, start, end, page, heading]) => ({
  start, end, document: documents[doc], page, heading: typeof heading === "number" ? name(heading) : null, facts: [],
}));

/** @type {Thing[]} */
export const things = data.things.map(([own, types, x, y, iris, others], number) => ({
  number, x, y, facts: [],
  name: shortened(own, LONGEST_NAME),
  iris: iris.map(aText),
  others: others.map((other) => shortened(other, LONGEST_NAME)),
  types: types.length ? types.map(name) : [NO_TYPE],
}));

/** @type {Fact[]} */
export const facts = data.facts.map(([subject, predicate, object, isRelation, where, prompts, chunks, isUngrounded, isWeak, linked, isLookedUp]) => ({
  subject: things[subject],
  predicate: name(predicate),
  object: things[isRelation ? object : linked] ?? aText(strings[object]),
  isRelation: isRelation || linked !== null,
  isLinked: linked !== null,
  passages: where.map((each) => passages[each]),
  prompts: prompts.map((each) => strings[each]),
  chunks: chunks.map((each) => passages[each]),
  isUngrounded,
  isWeak,
  isLookedUp,
}));

for (const fact of facts) {
  for (const thing of new Set([fact.subject, fact.object])) if (typeof thing === "object") thing.facts.push(fact);
  for (const passage of fact.passages) passage.facts.push(fact);
}
for (const passage of passages) if (passage.facts.length) passage.document.passages.push(passage);

/** @type {Refusal[]} */
export const refusals = data.refusals.map(([passage, prompt, object, reason]) => ({
  passage: passages[passage], prompt: strings[prompt], object: aText(object), reason: aText(strings[reason]),
}));

export const truncated = data.cuts.map(([passage, prompt]) => ({ passage: passages[passage], prompt: strings[prompt] }));

export const ungrounded = facts.filter((fact) => fact.isUngrounded);

export const weak = facts.filter((fact) => fact.isWeak);

export const notLookedUp = facts.filter((fact) => !fact.isLookedUp);

export const prompts = [...new Set(facts.flatMap((fact) => fact.prompts))].sort();

/** Each type with the number of its things, the most frequent first. */
export const types = [...Map.groupBy(things.flatMap((thing) => thing.types), (type) => type)]
  .map(([type, same]) => [type, same.length])
  .sort(([, a], [, b]) => b - a);

const colours = new Map(types.map(([type], rank) => [type, type === NO_TYPE && types.length > 1 ? 9 : Math.min(rank, 9)]));

/** The number of the colour of a type: nine frequent types have their own, the others share one. */
export const colourOf = (type) => colours.get(type);

/** Give an element the colour of a type. */
export function colour(element, type) {
  element.style.setProperty("--type", `var(--type-${colourOf(type)})`);
  return element;
}

/** How much a passage is like a name of a thing: 2 if it is one, 1 if one has the other in it, else 0. */
function likeness(thing, { document, start, end }) {
  const quote = document.text.slice(start, end).toLowerCase();
  const names = [thing.name, ...thing.others].map((name) => name.toLowerCase());
  if (names.includes(quote)) return 2;
  return names.some((name) => quote.includes(name) || name.includes(quote)) ? 1 : 0;
}

/** The thing that a passage names: of the subjects and objects of its facts, that whose name is most like it. */
export function thingAt(passage) {
  const candidates = passage.facts.flatMap((fact) => (fact.isRelation ? [fact.subject, fact.object] : [fact.subject]));
  return candidates.reduce((best, each) => (likeness(each, passage) > likeness(best, passage) ? each : best));
}

const SAME_PLACE = 300;
const sentences = new Intl.Segmenter("en", { granularity: "sentence" });

/** A whole passage as a place. @returns {Place} */
export const wholePlace = (at) => ({ document: at.document, start: at.start, end: at.end, passages: [], at });

const byPlace = (a, b) => a.document.number - b.document.number || a.start - b.start;

/** Where the texts name a thing, one by one; if they do not, what its facts were extracted from. @returns {Place[]} */
export function mentionsOf(thing) {
  const seen = thing.facts.filter((fact) => fact.visible);
  const passages = [...new Set(seen.flatMap((fact) => fact.passages))].filter((passage) => thingAt(passage) === thing).sort(byPlace);
  const named = passages.filter((passage) => likeness(thing, passage));
  const mentions = (named.length ? named : passages).map((at) => ({ ...wholePlace(at), passages: [at] }));
  return mentions.length ? mentions : [...new Set(seen.flatMap((fact) => fact.chunks))].sort(byPlace).map(wholePlace);
}

/**
 * Where a fact stands: passages of one document that are near each other are one place. Where a fact
 * has none, what it was extracted from.
 * @returns {Place[]}
 */
export function placesOf(fact) {
  if (!fact.passages.length) return fact.chunks.map(wholePlace);
  const places = [];
  const inOrder = [...fact.passages].sort(byPlace);
  for (const passage of inOrder) {
    let place = places.at(-1);
    if (place?.document !== passage.document || passage.start - place.end > SAME_PLACE) {
      place = wholePlace(passage);
      places.push(place);
    }
    place.passages.push(passage);
    place.end = Math.max(place.end, passage.end);
  }
  return places;
}

const WINDOW = 600;

/** A place from the beginning of a sentence to the end of one; what was extracted from as it is. @returns {Place} */
export function inSentences(place) {
  if (!place.passages.length) return place;
  const { text } = place.document;
  const from = Math.max(text.lastIndexOf("\n\n", place.start - 1) + 1, place.start - WINDOW, 0);
  const blank = text.indexOf("\n\n", place.end);
  const to = Math.min(blank < 0 ? text.length : blank, place.end + WINDOW);
  // A line break within a paragraph would end a sentence.
  const parts = sentences.segment(text.slice(from, to).replaceAll("\n", " "));
  let { start, end } = place;
  for (const { index, segment } of parts) {
    const [first, last] = [from + index, from + index + segment.trimEnd().length];
    if (first <= place.start && place.start < last) start = first + segment.length - segment.trimStart().length;
    if (first < place.end && place.end <= last) end = last;
  }
  return { ...place, start: Math.min(start, place.start), end };
}
