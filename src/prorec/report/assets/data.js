"use strict";
// The data of the page: columns over users, items and clicks. Names are only ever put into text nodes.

const data = JSON.parse(document.getElementById("data").textContent);
const ARRAYS = { float32: Float32Array, float64: Float64Array, int32: Int32Array, uint8: Uint8Array };

function unpackColumn(column) {
  const text = atob(column.bytes);
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index++) bytes[index] = text.charCodeAt(index);
  return new ARRAYS[column.dtype](bytes.buffer);
}

const users = data.users, items = data.items, clicks = data.clicks;
for (const table of [users, clicks]) {
  for (const [name, column] of Object.entries(table)) if (column && column.dtype) table[name] = unpackColumn(column);
}
const nClicks = clicks.item.length, nUsers = users.id.length;
clicks.user = new Int32Array(nClicks);
for (let user = 0; user < nUsers; user++) clicks.user.fill(user, users.start[user], users.start[user + 1]);

const itemName = item => items.name ? items.name[item] : String(items.id[item]);
const itemCategories = item => items.categories ? items.categories[item].map(index => data.categories[index]) : [];
const weightBefore = click => clicks.weightBefore ? clicks.weightBefore[click] : 1;
const clicksOfUser = user => Array.from({ length: users.start[user + 1] - users.start[user] }, (_, index) => users.start[user] + index);

// ── texts ──
const formatPercent = value => value > 0 && value < 0.001 ? "<0.1%" : value < 1 && value > 0.999 ? ">99.9%" : (100 * value).toFixed(1) + "%";
const formatNumber = value => value === 0 ? "0" : Math.abs(value) < 0.001 ? value.toExponential(1) : value.toPrecision(3);
const formatInteger = value => value.toLocaleString("en");
const formatDay = click => new Date(1000 * clicks.time[click]).toISOString().slice(0, 10);
const formatCount = (number, noun) => formatInteger(number) + " " + noun + (number === 1 ? "" : "s");
const truncate = (text, limit) => text.length <= limit ? text : text.slice(0, limit - 1) + "…";

// ── elements ──
function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}
const makeElement = (tag, attributes, ...children) => fillElement(document.createElement(tag), attributes, children);
const makeSvg = (tag, attributes, ...children) => fillElement(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const byId = id => document.getElementById(id);
