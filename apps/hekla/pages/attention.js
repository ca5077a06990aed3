"use strict";

// Shows the layers of the JSON in #data: every head as a small picture, and one head as a large map with its tokens.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);

// Weights are 16 bits each, little endian, in base64.
for (const layer of data.layers) {
  const bytes = atob(layer.weights);
  layer.values = new Float32Array(bytes.length / 2);
  for (let i = 0; i < layer.values.length; i++)
    layer.values[i] = (bytes.charCodeAt(2 * i) | bytes.charCodeAt(2 * i + 1) << 8) / 65535;
}

const weightAt = (layer, head, query, key) =>
  layer.values[(head * layer.queries.length + query) * layer.keys.length + key];

// ---- colors

function scaleEnds() {
  const style = getComputedStyle(document.documentElement);
  const components = name => {
    const hex = style.getPropertyValue(name).trim().slice(1);
    return [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16));
  };
  return [components("--low"), components("--high")];
}

let [low, high] = scaleEnds();

// Returns red, green and blue of a weight, by its square root so that small weights are visible.
function color(weight) {
  const position = Math.sqrt(weight);
  return low.map((from, i) => Math.round(from + (high[i] - from) * position));
}

const cssColor = weight => `rgb(${color(weight).join(",")})`;

// ---- all heads

const heads = []; // {button, canvas, layer, head}
let current = 0;

function drawThumbnail({canvas, layer, head}) {
  canvas.width = layer.keys.length;
  canvas.height = layer.queries.length;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let query = 0; query < canvas.height; query++)
    for (let key = 0; key < canvas.width; key++) {
      const pixel = 4 * (query * canvas.width + key);
      image.data.set([...color(weightAt(layer, head, query, key)), 255], pixel);
    }
  context.putImageData(image, 0, 0);
}

for (const layer of data.layers) {
  const block = document.createElement("div");
  block.className = "layer";
  const name = document.createElement("b");
  name.textContent = layer.place;
  const row = document.createElement("div");
  row.className = "heads";
  block.append(name, row);
  for (let head = 0; head < layer.heads; head++) {
    const button = document.createElement("button");
    const canvas = document.createElement("canvas");
    button.title = `${layer.place}, head ${head}`;
    button.setAttribute("aria-label", button.title);
    button.append(canvas);
    row.append(button);
    const number = heads.length;
    button.onclick = () => show(number);
    heads.push({button, canvas, layer, head});
    drawThumbnail(heads[number]);
  }
  byId("all").append(block);
}

// ---- one head

function svgElement(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  return element;
}

// The space for labels, in pixels.
const labelSize = tokens => Math.min(120, 8 + 7 * Math.max(...tokens.map(token => token.length)));

function drawMap({layer, head}) {
  const {queries, keys} = layer;
  const cell = Math.max(7, Math.min(26, Math.floor(560 / Math.max(queries.length, keys.length))));
  const left = labelSize(queries), top = labelSize(keys);
  const label = token => cell >= 10 ? token.slice(0, 16) : "";
  const map = byId("map");
  map.replaceChildren();
  map.setAttribute("width", left + keys.length * cell + 4);
  map.setAttribute("height", top + queries.length * cell + 4);
  const columns = keys.map((token, key) => {
    const x = left + key * cell + cell / 2 + 4;
    return svgElement("text", {transform: `translate(${x},${top - 5}) rotate(-90)`}, label(token));
  });
  const rows = queries.map((token, query) =>
    svgElement("text", {x: left - 5, y: top + query * cell + cell / 2 + 4, "text-anchor": "end"}, label(token)));
  map.append(...columns, ...rows);
  for (let query = 0; query < queries.length; query++)
    for (let key = 0; key < keys.length; key++) {
      const weight = weightAt(layer, head, query, key);
      const square = svgElement("rect", {
        x: left + key * cell, y: top + query * cell, width: cell - .5, height: cell - .5, fill: cssColor(weight)});
      square.onmouseenter = () => {
        rows.forEach((text, i) => text.classList.toggle("on", i === query));
        columns.forEach((text, i) => text.classList.toggle("on", i === key));
        byId("status").textContent =
          `“${queries[query]}” (${query}) → “${keys[key]}” (${key}): ${weight.toFixed(4)}`;
        showTokens(query);
      };
      map.append(square);
    }
}

// The tokens below the map, colored by the weights of one query.
function showTokens(query) {
  const {layer, head} = heads[current];
  const tokens = byId("tokens");
  tokens.replaceChildren();
  const add = (text, index, isQuery, weight) => {
    const token = document.createElement("span");
    token.className = isQuery && index === query ? "token query" : "token";
    token.textContent = text;
    if (weight !== null) {
      const [red, green, blue] = color(weight);
      token.style.background = `rgb(${red},${green},${blue})`;
      token.style.color = (red * 3 + green * 6 + blue) / 10 > 140 ? "#111" : "#fff";
      token.title = weight.toFixed(4);
    }
    if (isQuery) token.onmouseenter = () => showTokens(index);
    tokens.append(token);
  };
  const same = layer.queries.join("\0") === layer.keys.join("\0");
  if (!same) {
    layer.queries.forEach((text, i) => add(text, i, true, null));
    tokens.append(document.createElement("br"));
  }
  layer.keys.forEach((text, key) => add(text, key, same, weightAt(layer, head, query, key)));
}

function show(number) {
  heads[current].button.setAttribute("aria-pressed", false);
  current = number;
  const {button, layer, head} = heads[number];
  button.setAttribute("aria-pressed", true);
  byId("name").textContent = `${layer.place}, head ${head}`;
  byId("status").textContent = "";
  drawMap(heads[number]);
  showTokens(layer.queries.length - 1);
}

addEventListener("keydown", event => {
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  if (!step) return;
  event.preventDefault();
  show((current + step + heads.length) % heads.length);
  heads[current].button.scrollIntoView({block: "nearest"});
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  [low, high] = scaleEnds();
  heads.forEach(drawThumbnail);
  show(current);
});

if (heads.length) show(0);
