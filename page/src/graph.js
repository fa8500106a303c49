// Draws the graph: an edge is all facts that relate one thing to another in this direction.

import { DirectedGraph } from "graphology";
import forceAtlas2 from "graphology-layout-forceatlas2";
import LayoutWorker from "graphology-layout-forceatlas2/worker";
import Sigma from "sigma";
import { EdgeArrowProgram, EdgeLineProgram } from "sigma/rendering";
import { colourOf, facts, things } from "./data.js";
import { shortened } from "./lists.js";

const REFINE_SECONDS = 3;
const MANY = 10_000; // facts
const FEW = 100; // things, which all get their labels where there is room
const LONGEST_LABEL = 40; // characters

const area = document.getElementById("graph");
const graphIsLarge = facts.length > MANY;

let colours;
let chosen = { thing: null, edge: null, fewAreNear: things.length <= FEW };

const edgeOf = (fact) => `${fact.subject.number} ${fact.object.number}`;

/** Of many nodes each is small. */
const scale = Math.min(1.5, (1000 / Math.max(things.length, 1)) ** 0.4);

function drawnGraph() {
  const graph = new DirectedGraph({ allowSelfLoops: true });
  for (const thing of things) {
    const degree = thing.facts.filter((fact) => fact.isRelation).length;
    const size = scale * (2.5 + Math.min(Math.sqrt(degree), 12));
    graph.addNode(thing.number, { x: thing.x, y: thing.y, label: shortened(thing.name, LONGEST_LABEL), size, thing });
  }
  for (const fact of facts) {
    if (!fact.isRelation) continue;
    const edge = edgeOf(fact);
    if (graph.hasEdge(edge)) graph.getEdgeAttribute(edge, "facts").push(fact);
    else graph.addEdgeWithKey(edge, fact.subject.number, fact.object.number, { facts: [fact] });
  }
  return graph;
}

/** Resolve the colours of the style sheet, which depend on light and dark. */
function readColours() {
  const probe = area.appendChild(document.createElement("i"));
  const resolve = (name) => {
    probe.style.color = `var(--${name})`; // also resolves `light-dark`
    return getComputedStyle(probe).color;
  };
  colours = Object.fromEntries(["ink", "soft", "paper", "edge", "faint", "accent"].map((name) => [name, resolve(name)]));
  colours.ofTypes = Array.from({ length: 10 }, (_, number) => resolve(`type-${number}`));
  // Of many edges each is thin. Sigma expects colours multiplied by their opacity.
  if (graphIsLarge) colours.edge = `rgba(${colours.soft.match(/\d+/g).map((part) => part >> 2)}, 0.25)`;
  probe.remove();
}

function nodeReducer(_, { thing, ...node }) {
  if (!thing.visible) return { ...node, hidden: true };
  if (!thing.near) return { ...node, color: colours.faint, label: "", zIndex: 0 };
  const color = colours.ofTypes[colourOf(thing.types[0])];
  return { ...node, color, zIndex: 1, highlighted: thing === chosen.thing, forceLabel: chosen.fewAreNear };
}

function edgeReducer(key, { facts }) {
  const seen = facts.filter((fact) => fact.visible);
  const { subject, object } = facts[0];
  const isNear = subject.near && object.near;
  if (!seen.length || (graphIsLarge && !isNear)) return { hidden: true };
  const isChosen = key === chosen.edge;
  const isLabelled = isChosen || (chosen.fewAreNear && (subject === chosen.thing || object === chosen.thing));
  const label = isLabelled ? shortened([...new Set(seen.map((fact) => (fact.isLinked ? `${fact.predicate} (linked)` : fact.predicate)))].join(", "), LONGEST_LABEL) : "";
  const look = { label, forceLabel: isLabelled, size: seen.every((fact) => fact.isLinked) ? 0.7 : 1.5, zIndex: 1 };
  if (isChosen) return { ...look, color: colours.accent, size: 4, zIndex: 2 };
  if (!isNear) return { ...look, color: colours.faint, zIndex: 0 };
  return { ...look, color: chosen.thing ? colours.soft : colours.edge };
}

const EDGE_OF_AREA = 6; // pixels inside the border that stay free
const GAP = 6; // pixels between a label and a node beside it

const box = (left, middle, width, height) => ({ left, right: left + width, top: middle - height / 2, bottom: middle + height / 2 });

/**
 * Make labels stay apart from each other, and from the nodes if these are few: beside a node, below, above or at a
 * corner; on the middle of an edge, or nearer to one of its ends. Where there is no room, that of a node with several
 * edges lies on nodes with fewer.
 */
function placeLabels(graph) {
  let sigma; // draws its first frame before it can be asked where things are
  let waiting = []; // labels of nodes
  let taken = null; // for one frame, as `placeOf`
  let placeOf;

  const isInSight = ({ left, right, top, bottom }) =>
    right > 0 && left < area.clientWidth && bottom > 0 && top < area.clientHeight;
  const nodes = () => graph.filterNodes((_, { thing }) => chosen.fewAreNear && thing.visible).map((node) => {
    const shown = sigma.getNodeDisplayData(node);
    const { x, y } = sigma.framedGraphToViewport(shown);
    const size = sigma.scaleSize(shown.size);
    return { ...box(x - size, y, 2 * size, 2 * size), size };
  }).filter(isInSight);
  /** Whether nothing is there yet, but for nodes that are smaller than `least`. */
  const isFree = (least) => ({ left, right, top, bottom }) =>
    left >= EDGE_OF_AREA && right <= area.clientWidth - EDGE_OF_AREA &&
    !taken.some((other) => !(other.size < least) &&
      left < other.right && other.left < right && top < other.bottom && other.top < bottom);

  function places({ x, y, size }, width, height) {
    // Away from the middle, where the edges are.
    const [aside, off] = [x < area.clientWidth / 2 ? -1 : 1, y < area.clientHeight / 2 ? -1 : 1];
    const sides = [[aside, 0], [0, off], [aside, off], [0, -off], [aside, -off], [-aside, 0]];
    return sides.map(([dx, dy]) => {
      const center = x + dx * (width / 2 + (dy ? 0 : size + GAP));
      return box(center - width / 2, y + dy * (size + 2 + height / 2), width, height);
    });
  }

  /**
   * Write the labels of a frame's nodes before all others: first that of the chosen thing, then those of the
   * things with the most relations. Returns false before the first frame.
   */
  function isReady() {
    if (sigma && !taken) {
      [taken, placeOf] = [nodes(), new Map()];
      waiting.sort(([, a], [, b]) => b.highlighted - a.highlighted || b.size - a.size);
      for (const label of waiting) write(...label);
    }
    return Boolean(sigma);
  }

  const writeLater = (...label) => waiting.push(label);

  function write(context, node, { labelSize, labelFont }, isHighlighted) {
    context.font = `${node.highlighted ? 600 : 400} ${labelSize}px ${labelFont}`;
    const possible = places(node, context.measureText(node.label).width, labelSize + 2);
    const least = graph.degree(node.key) > 1 ? node.size : 0;
    const place = placeOf.get(node.key) ?? possible.find(isFree(0)) ?? possible.find(isFree(least)) ?? (isHighlighted && possible[0]);
    if (!place || !node.label) return;
    placeOf.set(node.key, place);
    taken.push(place);
    const baseline = (place.top + place.bottom + labelSize * 0.7) / 2;
    // Stays legible over edges.
    context.lineWidth = isHighlighted ? 6 : 3;
    context.lineJoin = "round";
    context.strokeStyle = colours.paper;
    context.strokeText(node.label, place.left, baseline);
    context.fillStyle = colours.ink;
    context.fillText(node.label, place.left, baseline);
  }

  /** Where a label of this width may stand on an edge: the boxes that it covers, and its middle. */
  function* placesOnEdge(from, to, width, height) {
    const [dx, dy] = [to.x - from.x, to.y - from.y];
    const length = Math.hypot(dx, dy);
    const steps = Math.ceil(width / height);
    const [first, last] = [from.size + width / 2 + GAP, length - to.size - width / 2 - GAP];
    for (const part of [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9]) {
      const middle = length * part;
      if (middle < first || middle > last) continue;
      const at = (distance) => ({ x: from.x + (dx / length) * distance, y: from.y + (dy / length) * distance });
      const boxes = Array.from({ length: steps }, (_, step) => {
        const { x, y } = at(middle + ((step + 0.5) / steps - 0.5) * width);
        return box(x - height / 2, y, height, height);
      });
      yield { boxes, ...at(middle) };
    }
  }

  function writeOnEdge(context, edge, from, to, { edgeLabelSize, edgeLabelFont }) {
    if (!edge.label || !isReady()) return;
    context.font = `400 ${edgeLabelSize}px ${edgeLabelFont}`;
    const width = context.measureText(edge.label).width;
    const possible = [...placesOnEdge(from, to, width, edgeLabelSize)];
    const place = placeOf.get(edge.key) ?? possible.find(({ boxes }) => boxes.every(isFree(0)));
    if (!place) return; // the list beside it has it, too
    placeOf.set(edge.key, place);
    taken.push(...place.boxes);
    const angle = Math.atan2(to.y - from.y, to.x - from.x);
    context.save();
    context.translate(place.x, place.y);
    context.rotate(Math.abs(angle) > Math.PI / 2 ? angle + Math.PI : angle); // never upside down
    context.fillStyle = colours.paper; // also between words
    context.fillRect(-width / 2 - 2, -edgeLabelSize / 2, width + 4, edgeLabelSize);
    context.fillStyle = edge.color;
    context.fillText(edge.label, -width / 2, edgeLabelSize * 0.35);
    context.restore();
  }

  function writeHighlighted(context, node, settings) {
    if (isReady()) write(context, node, settings, true);
    context.strokeStyle = colours.accent;
    context.lineWidth = 3;
    context.beginPath();
    context.arc(node.x, node.y, node.size + 2, 0, 2 * Math.PI);
    context.stroke();
  }

  function begin(drawn) {
    sigma = drawn;
    sigma.on("beforeRender", () => ([waiting, taken] = [[], null]));
    sigma.on("afterRender", isReady);
    sigma.scheduleRender();
  }
  return { writeLater, writeHighlighted, writeOnEdge, begin };
}

/**
 * Draw the graph. Returns null where there is no WebGL.
 * @param {{chooseThing: (thing) => void, chooseFacts: (facts) => void, chooseNothing: () => void}} on
 */
export function draw(on) {
  if (!document.createElement("canvas").getContext("webgl2")) return null;
  readColours();
  const graph = drawnGraph();
  const labels = placeLabels(graph);
  const sigma = new Sigma(graph, area, {
    defaultEdgeType: graphIsLarge ? "line" : "arrow",
    edgeProgramClasses: { arrow: EdgeArrowProgram, line: EdgeLineProgram },
    enableEdgeEvents: true,
    renderEdgeLabels: true,
    hideEdgesOnMove: graphIsLarge,
    hideLabelsOnMove: graphIsLarge,
    labelFont: "system-ui, sans-serif",
    edgeLabelFont: "system-ui, sans-serif",
    edgeLabelSize: 12,
    labelSize: 13,
    labelRenderedSizeThreshold: 5 * scale,
    labelGridCellSize: graphIsLarge ? 300 : 120,
    stagePadding: 60,
    minCameraRatio: 0.002,
    maxCameraRatio: 3,
    zIndex: true,
    defaultDrawNodeLabel: labels.writeLater,
    defaultDrawNodeHover: labels.writeHighlighted,
    defaultDrawEdgeLabel: labels.writeOnEdge,
    nodeReducer,
    edgeReducer,
  });
  labels.begin(sigma);
  sigma.on("clickNode", ({ node }) => on.chooseThing(things[node]));
  sigma.on("clickEdge", ({ edge }) => on.chooseFacts(graph.getEdgeAttribute(edge, "facts").filter((fact) => fact.visible)));
  sigma.on("clickStage", on.chooseNothing);
  for (const event of ["enterNode", "enterEdge"]) sigma.on(event, () => area.classList.add("pointing"));
  for (const event of ["leaveNode", "leaveEdge"]) sigma.on(event, () => area.classList.remove("pointing"));

  const camera = sigma.getCamera();
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const move = (state) => (still.matches || graphIsLarge ? camera.setState(state) : camera.animate(state, { duration: 300 }));
  const pan = (x, y) => () => camera.setState({ x: camera.x + x * camera.ratio, y: camera.y + y * camera.ratio });
  const zoom = (factor) => () => move({ ratio: camera.ratio * factor });
  const showAll = () => move({ x: 0.5, y: 0.5, ratio: 1 });
  const keys = {
    ArrowLeft: pan(-0.1, 0), ArrowRight: pan(0.1, 0), ArrowUp: pan(0, 0.1), ArrowDown: pan(0, -0.1),
    "+": zoom(2 / 3), "=": zoom(2 / 3), "-": zoom(3 / 2), 0: showAll,
  };
  area.addEventListener("keydown", ({ key }) => keys[key]?.());
  document.getElementById("zoom-in").onclick = keys["+"];
  document.getElementById("zoom-out").onclick = keys["-"];
  document.getElementById("fit").onclick = showAll;

  // Without more gravity, what is not connected drifts away from the rest of a small graph.
  const gravity = Math.max(0.05, 30 / Math.max(graph.order, 1));
  const layout = new LayoutWorker(graph, { settings: { ...forceAtlas2.inferSettings(graph), gravity } });
  const settle = () => {
    layout.kill();
    area.ariaBusy = "false";
  };
  area.ariaBusy = "true";
  if (still.matches || !graph.size) settle();
  else {
    graph.once("eachNodeAttributesUpdated", () => setTimeout(settle, REFINE_SECONDS * 1000)); // its first step
    layout.start();
  }

  return {
    sigma,
    /** Draw again, after filters or `near` of things have changed. @param {?object} fact the one to mark */
    refresh(thing, fact) {
      const near = things.filter((each) => each.near && each.visible).length;
      chosen = { thing, edge: fact?.isRelation ? edgeOf(fact) : null, fewAreNear: near <= FEW };
      sigma.refresh();
    },
    /** Move the camera to a thing, and as far out as most of its neighbours need. Nothing else moves from then on. */
    moveTo(thing, neighbours) {
      settle();
      const { x, y } = sigma.getNodeDisplayData(thing.number);
      const distances = neighbours.filter((each) => each.visible).map((each) => {
        const other = sigma.getNodeDisplayData(each.number);
        return Math.max(Math.abs(other.x - x), Math.abs(other.y - y));
      });
      // A few may be far off.
      const reach = distances.sort((a, b) => a - b)[Math.floor(distances.length * 0.75)] ?? 0;
      move({ x, y, ratio: Math.min(Math.max(reach * 3, 0.05), 2) });
    },
    recolour() {
      readColours();
      sigma.refresh();
    },
  };
}
