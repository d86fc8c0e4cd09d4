"use strict";
// What the page knows: columns of numbers over users, items and clicks. Names are only ever put into text nodes.

const data = JSON.parse(document.getElementById("data").textContent);
const KINDS = { float32: Float32Array, float64: Float64Array, int32: Int32Array, uint8: Uint8Array };

function unpack(column) {
  if (column === null) return null;
  const text = atob(column.bytes);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return new KINDS[column.kind](bytes.buffer);
}

const users = data.users, items = data.items, clicks = data.clicks;
for (const name of ["activity", "flags", "below", "kappa", "threshold", "start", "whole", "neighbours", "before", "after"]) users[name] = unpack(users[name]);
for (const name of ["item", "probability", "weight", "weightBefore", "share", "percentile", "time", "flagged"]) clicks[name] = unpack(clicks[name]);
const nClicks = clicks.item.length, nUsers = users.id.length;
clicks.user = new Int32Array(nClicks);
for (let user = 0; user < nUsers; user++) clicks.user.fill(user, users.start[user], users.start[user + 1]);

const nameOf = item => items.name ? items.name[item] : String(items.id[item]);
const categoriesOf = item => items.categories ? items.categories[item].map(at => data.categories[at]) : [];
const weightBefore = click => clicks.weightBefore ? clicks.weightBefore[click] : 1;
const clicksOf = user => Array.from({ length: users.start[user + 1] - users.start[user] }, (_, at) => users.start[user] + at);

// ── words ──
const percent = value => value > 0 && value < 0.001 ? "<0.1%" : value < 1 && value > 0.999 ? ">99.9%" : (100 * value).toFixed(1) + "%";
const digits = value => value === 0 ? "0" : Math.abs(value) < 0.001 ? value.toExponential(1) : value.toPrecision(3);
const dayOf = click => new Date(1000 * clicks.time[click]).toISOString().slice(0, 10);
const many = (number, one, more) => number.toLocaleString("en") + " " + (number === 1 ? one : more || one + "s");
const cut = (text, most) => text.length <= most ? text : text.slice(0, most - 1) + "…";

// ── elements ──
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}
const make = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) => filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const byId = id => document.getElementById(id);
