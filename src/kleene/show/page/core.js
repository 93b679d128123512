"use strict";
// Shared by all pages: making elements (text only, never HTML) and reading the data.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (on…) and children; a string child is text. */
function make(tag, attributes = {}, ...children) {
  const element = ["svg", "g", "path", "rect", "circle", "line", "text", "marker", "defs"].includes(tag)
    ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** The data of the page: base64 of deflated JSON. */
async function readData() {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** Ascending numbers from the distances between them. */
function unpackGaps(gaps) {
  let at = 0;
  return Int32Array.from(gaps, (gap) => (at += gap));
}

function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** A sentence in which `…` is code. */
function withCode(text) {
  return text.split("`").map((part, k, all) => k % 2 && k < all.length - 1 ? make("code", {}, part) : k % 2 ? `\`${part}` : part);
}

/** The top of a page: its name, its input, and facts about it. */
function pageHeader(title, text, facts) {
  return make("header", { class: "top" },
    make("div", { class: "name" }, make("h1", {}, title), text ? make("p", { class: "input" }, text) : null),
    make("p", { class: "facts" }, facts.filter(Boolean).map((fact) => make("span", {}, fact))));
}

/** The line that says which keys there are. */
function helpLine(keys) {
  return make("p", { class: "help" }, keys.map(([key, what]) =>
    make("span", {}, key.split(" ").map((one) => make("kbd", {}, one)), ` ${what}`)));
}

/** Whether a key press belongs to a field that is being typed in. */
function isTyping(event) {
  return event.target.matches("input:not([type=range]):not([type=checkbox]), select, textarea");
}

const ICONS = {
  first: "M4 3h2v10H4zM14 3v10L7 8z", back: "M12 3v10L5 8z", play: "M5 3v10l8-5z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z", next: "M4 3v10l7-5z", last: "M2 3v10l7-5zM10 3h2v10h-2z",
};

function icon(name) {
  return make("svg", { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true" }, make("path", { d: ICONS[name] }));
}
