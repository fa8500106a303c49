"use strict";

const live = document.getElementById("live");
const instance = document.documentElement.dataset.instance;
const secondsToNextTry = 5;
const here = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hour12: false });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });
const inUtc = new Date().getTimezoneOffset() === 0;

/** Adds the time in the reader's zone to all times within a node. */
function addLocalTimes(node) {
  for (const time of node.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    time.title = day.format(at);
    if (!inUtc) time.append(Object.assign(document.createElement("span"), { className: "here", textContent: ` (${here.format(at)} here)` }));
  }
}

/** Makes `old` like `fresh`; what stays keeps its focus, its selection and whether it is open. */
function morph(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  morphChildren(old, fresh);
}

/** Children with a `data-key` are matched by it, others by their place. */
function morphChildren(old, fresh) {
  const keyed = new Map([...old.children].map((child) => [child.dataset.key, child]));
  let place = old.firstChild;
  for (const node of [...fresh.childNodes]) {
    const key = node.dataset?.key;
    const same = key ? keyed.get(key) : place?.dataset?.key ? undefined : place;
    if (same?.nodeName !== node.nodeName) old.insertBefore(node, place);
    else {
      if (same === place) place = place.nextSibling;
      else old.insertBefore(same, place);
      morph(same, node);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function show(sections) {
  for (const [id, html] of Object.entries(sections)) {
    const old = document.getElementById(id), fresh = old.cloneNode(false);
    fresh.innerHTML = html;
    addLocalTimes(fresh);
    morphChildren(old, fresh);
  }
}

function say(text, isLive) {
  if (live.textContent !== text) live.textContent = text;
  live.classList.toggle("lost", !isLive);
}

function follow() {
  const events = new EventSource("events");
  events.onmessage = (message) => {
    const event = JSON.parse(message.data);
    if (event.instance !== instance) return location.reload();
    show(event.sections);
    say("Live", true);
  };
  events.onerror = () => {
    const isRefused = events.readyState === EventSource.CLOSED;
    say(isRefused ? "No updates: too many pages are open, or the worker cannot be reached" : "The worker cannot be reached", false);
    if (isRefused) setTimeout(follow, 1000 * secondsToNextTry);
  };
}

addLocalTimes(document);
follow();
