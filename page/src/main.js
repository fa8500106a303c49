// What is chosen, and how lists, drawing and text follow it.

import { NO_TYPE, colour, documents, facts, inSentences, mentionsOf, notLookedUp, placesOf, prompts, refusals, thingAt, things, truncated, types, ungrounded, weak, wholePlace } from "./data.js";
import { draw } from "./graph.js";
import { button, element, fill, fillList, inWords, isolated } from "./lists.js";
import { clearPlace, onPassage, showDocument, showPlace } from "./text.js";

const $ = (id) => document.getElementById(id);

let thing = null; // the chosen one
let marked = null; // the fact whose place is shown
let places = [];
let at = 0; // which of the places
const hiddenTypes = new Set();
let drawing = null; // null also where there is no WebGL

// Choosing

/** Show a thing in the panel, the drawing and the lists, and its first mention, unless the reader is at one. */
function chooseThing(next, isAtMention = false) {
  thing = next;
  marked = null;
  hidePlace();
  showDetails();
  showNeighbours();
  moveToThing();
  if (thing && !isAtMention) showMentions();
}

function showMentions() {
  const only = $("document-filter").value;
  places = mentionsOf(thing)
    .filter((place) => !only || String(place.document.number) === only)
    .map((place) => ({ ...place, says: [isolated(thing.name)], by: place.passages.length ? "named here" : "extracted from this" }));
  if (places.length) stepTo(0);
}

function moveToThing() {
  if (thing?.visible) drawing?.moveTo(thing, $("depth").value === "0" ? [thing] : things.filter((each) => each.near));
}

/** Go to the first place of these facts; more are a step away. */
function chooseFacts(chosen) {
  marked = chosen[0];
  places = chosen.flatMap((fact) => placesOf(fact).map((place) => ({ ...place, says: [...sentenceOf(fact), remarkOn(fact)], by: fact.prompts.join(", ") })));
  if (thing !== marked.subject && thing !== marked.object) {
    thing = marked.subject;
    showDetails();
    showNeighbours();
    moveToThing();
  } else {
    drawing?.refresh(thing, marked);
  }
  for (const each of $("details").querySelectorAll(".predicate")) each.setAttribute("aria-pressed", String(each.fact === marked));
  if (places.length) stepTo(0);
  else tellPlace([...sentenceOf(marked), " — no passage of a text is known for this"]);
}

/** Show the place of an answer of which nothing became a fact. */
function chooseProblem({ passage, prompt }, says) {
  places = [{ ...wholePlace(passage), says: [says], by: prompt }];
  stepTo(0);
}

function stepTo(step) {
  at = (step + places.length) % places.length;
  const place = inSentences(places[at]);
  const which = places.length > 1 ? `Passage ${at + 1} of ${places.length}: ` : "";
  tellPlace([which, ...place.says], [...placeName(place.at), ` · ${place.by}`]);
  readDocument(place.document);
  showPlace(place);
}

function tellPlace(...lines) {
  $("place").hidden = false;
  $("previous").hidden = $("next").hidden = places.length < 2;
  $("place-text").replaceChildren(...lines.map((line, rank) => element(rank ? "small" : "span", {}, ...line)));
}

function hidePlace() {
  $("place").hidden = true;
  places = [];
  clearPlace();
}

const sentenceOf = ({ subject, predicate, object }) =>
  [isolated(subject.name), " — ", isolated(predicate), " → ", isolated(object.name ?? object)];

function remarkOn({ passages, isUngrounded, isWeak, isLookedUp }) {
  if (isWeak) return " — a name is in the text only in part";
  if (passages.length) return isUngrounded ? " — a name is not in the text" : isLookedUp ? "" : " — a name was not looked up";
  return ` — extracted from this passage${isUngrounded ? ", but not found in it" : isLookedUp ? "" : ", and not looked up in it"}`;
}

/** A passage by its file, page and heading. */
const placeName = ({ document, page, heading }) =>
  [document.name, page && `page ${page}`, heading].filter(Boolean).flatMap((part, rank) => [rank ? " · " : "", isolated(part)]);

$("previous").onclick = () => stepTo(at - 1);
$("next").onclick = () => stepTo(at + 1);

// The chosen thing

const linkTo = (other) => button(isolated(other.name), () => chooseThing(other), { class: "thing" });

function predicateButton(fact) {
  const count = fact.passages.length;
  const label = `${fact.predicate}: ${count ? "show in the text" : "no passage"}`;
  const made = button(fact.predicate, () => chooseFacts([fact]), {
    "aria-label": label, "aria-pressed": "false", class: count ? "predicate" : "predicate without",
  });
  return Object.assign(made, { fact });
}

function factRow(fact) {
  const marks = [fact.isLinked && "linked by name", fact.isWeak && "in the text in part", fact.isUngrounded && "not in the text", !fact.isLookedUp && "not looked up"];
  const remarks = element("small", {}, marks.filter(Boolean).map((mark) => ` (${mark})`).join(""));
  if (!fact.isRelation) return [predicateButton(fact), element("span", {}, fact.object), remarks];
  const [arrow, other] = fact.subject === thing ? ["→ ", fact.object] : ["← ", fact.subject];
  return [predicateButton(fact), arrow, linkTo(other), remarks];
}

const OUR_IDS = "http://trustgraph.ai/e/";
const aboutIds = (iris) => [
  iris.length > 1 && "Several ids: the names are one by rule, or a person decided so. ",
  iris.some((iri) => iri.startsWith(OUR_IDS)) && `Ids that begin with ${OUR_IDS} are made from names, as TrustGraph makes them. They are no addresses on the web.`,
].filter(Boolean);

const isTyped = types.some(([type]) => type !== NO_TYPE);
const swatch = (type) => colour(element("i", { class: "swatch" }), type);

function showDetails() {
  const panel = $("details");
  if (panel.contains(document.activeElement)) panel.focus(); // what has the focus is about to go
  if (!thing) {
    panel.replaceChildren($("hint").content.cloneNode(true));
    return;
  }
  const seen = thing.facts.filter((fact) => fact.visible).sort((a, b) => a.isRelation - b.isRelation);
  const rows = element("ul", { class: "list facts", "aria-label": "Facts" });
  fillList(rows, seen, factRow);
  panel.replaceChildren(
    element("h2", {}, thing.name),
    ...(isTyped ? [element("p", {}, ...thing.types.flatMap((type) => [swatch(type), `${type} `]))] : []),
    ...(thing.others.length ? [element("p", {}, element("b", {}, "Also: "), thing.others.join(", "))] : []),
    element("h3", {}, `Facts (${inWords(seen.length)})`),
    rows,
    element("p", {}, "Only names and values are looked up in the text: a predicate or a definition may be wrong."),
    ...(seen.some((fact) => fact.isLinked) ? [element("p", {}, "Linked by name: the model gave a text, not a thing. This page links it, as it is the name of one.")] : []),
    element("p", { class: "iris" }, ...thing.iris.flatMap((iri) => [iri, element("br")]), ...aboutIds(thing.iris)),
  );
}

// Filters and neighbours

function showNeighbours() {
  const depth = Number($("depth").value);
  const near = new Set(thing && depth ? [thing] : things);
  for (let step = 0; thing && step < depth; step += 1) {
    for (const fact of [...near].flatMap((each) => each.facts)) {
      if (fact.visible && fact.isRelation) near.add(fact.subject).add(fact.object);
    }
  }
  for (const each of things) each.near = near.has(each);
  drawing?.refresh(thing, marked);
}

function filter() {
  const [doc, prompt] = [$("document-filter").value, $("prompt-filter").value];
  const ofType = (each) => typeof each === "string" || each.types.some((type) => !hiddenTypes.has(type));
  for (const each of things) each.visible = !doc && !prompt && ofType(each);
  for (const fact of facts) {
    fact.visible =
      (!doc || [...fact.passages, ...fact.chunks].some((passage) => String(passage.document.number) === doc)) &&
      (!prompt || fact.prompts.includes(prompt)) && ofType(fact.subject) && ofType(fact.object);
    if (fact.visible) for (const end of [fact.subject, fact.object]) if (typeof end === "object") end.visible = true;
  }
  search();
  showDetails();
  showNeighbours();
}

const byFacts = [...things].sort((a, b) => b.facts.length - a.facts.length || a.number - b.number);

/** List the things that are seen and whose name contains the words; those that begin with them come first. */
function search() {
  const words = $("search").value.trim().toLowerCase();
  const names = (each) => [each.name, ...each.others].map((name) => name.toLowerCase());
  const found = byFacts.filter((each) => each.visible && names(each).some((name) => name.includes(words)));
  const begins = (each) => names(each).some((name) => name.startsWith(words));
  if (words) found.sort((a, b) => begins(b) - begins(a));
  $("found").textContent = `${inWords(found.length)} of ${inWords(things.length)} things`;
  fillList($("things"), found, thingRow);
}

function thingRow(each) {
  const row = button(isolated(each.name), () => chooseThing(each), { class: "thing" });
  row.prepend(swatch(each.types[0]));
  return row;
}

$("search").oninput = search;
$("search").onkeydown = (event) => {
  const first = $("things").querySelector("button");
  if (event.key === "ArrowDown") event.preventDefault(), first?.focus();
  if (event.key === "Enter") first?.click();
};
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "k") event.preventDefault(), $("search").select();
  if (event.key === "Escape") chooseThing(null);
});

function showTypes() {
  fillList($("types"), types, ([type, count]) => {
    const box = element("input", { type: "checkbox", checked: !hiddenTypes.has(type) });
    box.onchange = () => {
      if (box.checked) hiddenTypes.delete(type);
      else hiddenTypes.add(type);
      filter();
    };
    return element("label", {}, box, swatch(type), element("span", {}, type), element("data", { value: count }, inWords(count)));
  });
}
$("types-part").hidden = !isTyped;

$("all-types").onclick = () => {
  const none = !hiddenTypes.size;
  hiddenTypes.clear();
  if (none) for (const [type] of types) hiddenTypes.add(type);
  showTypes();
  filter();
};

const documentChoices = documents.map((doc) => [doc.name, doc.number]);
fill($("document-filter"), [["all documents", ""], ...documentChoices]);
fill($("prompt-filter"), [["all prompts", ""], ...prompts.map((prompt) => [prompt, prompt])]);
$("prompt-filter").onchange = $("depth").onchange = filter;
$("document-filter").onchange = () => {
  const { value } = $("document-filter");
  if (value) readDocument(documents[value]);
  filter();
};

// Documents

fill($("document"), documentChoices);
$("document").onchange = () => {
  hidePlace();
  readDocument(documents[$("document").value]);
};

function readDocument(doc) {
  $("document").value = doc.number;
  showProblem(null);
  showDocument(doc);
}

onPassage((passage) => chooseThing(thingAt(passage), true));

// What is missing from the graph

const factProblem = (fact) => [button(sentenceOf(fact), () => chooseFacts([fact])), element("small", {}, fact.prompts.join(", "))];

/** For each kind: the list, the row of one, and what it means. */
const problems = {
  refused: [refusals, (refusal) => [
    button(refusal.reason, () => chooseProblem(refusal, `Refused: ${refusal.reason}`)),
    element("code", {}, refusal.object), element("small", {}, `${refusal.prompt} · `, ...placeName(refusal.passage))],
    "Objects that did not pass the checks of their prompt. They are not in the graph."],
  ungrounded: [ungrounded, factProblem,
    "Facts with a name that is not in the text. Their prompt keeps such facts; they may be made up."],
  weak: [weak, factProblem,
    "Facts with a name of which the text has only a part, such as the surname. It may be the name of another thing."],
  ...(notLookedUp.length && { "not looked up": [notLookedUp, factProblem,
    "Facts with a name from a key that no schema marks. Nobody has asked whether it is in the text."] }),
  truncated: [truncated, (cut) => [
    button("The answer was truncated: objects may be missing", () => chooseProblem(cut, "The answer about this passage was truncated")),
    element("small", {}, `${cut.prompt} · `, ...placeName(cut.passage))],
    "Answers that ended before the model had finished. Facts of these passages may be missing."],
};

/** Show a list of problems in the place of the text, or the text again. */
function showProblem(kind) {
  for (const each of $("problems").children) each.setAttribute("aria-pressed", String(each.dataset.problem === kind));
  const hadFocus = $("problem-list").contains(document.activeElement);
  $("problem-help").hidden = $("problem-list").hidden = !kind;
  $("text").hidden = Boolean(kind);
  if (!kind && hadFocus) $("text").focus();
  if (!kind) return;
  hidePlace();
  const [list, row, meaning] = problems[kind];
  $("problem-help").textContent = meaning;
  fillList($("problem-list"), list, row);
}

for (const [kind, [list]] of Object.entries(problems)) {
  const toggle = button(`${inWords(list.length)} ${kind}${documents.length > 1 ? " in all" : ""}`, () =>
    showProblem(toggle.getAttribute("aria-pressed") === "true" ? null : kind));
  toggle.dataset.problem = kind;
  toggle.disabled = !list.length;
  $("problems").append(toggle);
}

// The head of the page

const relations = facts.filter((fact) => fact.isRelation && !fact.isLinked).length;
const linked = facts.filter((fact) => fact.isLinked).length;
const numbers = { things: things.length, facts: facts.length, relations, ...(linked && { "linked by name": linked }), documents: documents.length };
for (const [name, number] of Object.entries(numbers)) {
  $("numbers").append(element("li", {}, element("data", { value: number, "data-of": name }, inWords(number)), ` ${number === 1 && name.endsWith("s") ? name.slice(0, -1) : name}${name === "relations" ? " among them" : ""}`));
}

showTypes();
filter();
if (documents.length) readDocument(documents[0]);
drawing = draw({ chooseThing, chooseFacts, chooseNothing: () => chooseThing(null) });
matchMedia("(prefers-color-scheme: dark)").onchange = () => drawing?.recolour();
$("no-webgl").hidden = Boolean(drawing);
$("tools").hidden = $("graph").hidden = !drawing;

/** For the console of the browser. */
globalThis.graphPage = { sigma: drawing?.sigma };
// The second frame begins when the first has been drawn.
requestAnimationFrame(() => requestAnimationFrame((time) => { document.documentElement.dataset.drawn = Math.round(time); }));
