// The table of suspicious clicks. It is filtered and sorted as numbers; the document holds one page of it.

const IS_PHONE = matchMedia("(max-width: 640px)").matches, PAGE_SIZE = IS_PHONE ? 8 : 20;
const COLUMNS = [
  { key: "item", label: "item", class: "name", text: click => itemName(clicks.item[click]), sortKeys: () => rankNames(items.name || items.id, clicks.item) },
  { key: "user", label: "user", class: "fact", text: click => String(users.id[clicks.user[click]]), sortKeys: () => rankNames(users.id, clicks.user) },
  { key: "category", label: "category", class: "tags fact", text: click => itemCategories(clicks.item[click]).join(", "), isShown: items.categories !== null,
    sortKeys: () => rankNames(items.id.map((_, item) => itemCategories(item).join(", ")), clicks.item) },
  { key: "time", label: "day", class: "day fact", text: formatDay, isShown: clicks.time !== null, sortKeys: () => clicks.time },
  { key: "probability", label: "noise probability", class: "number main-number", title: "noise probability", text: click => formatPercent(clicks.probability[click]), isNumber: true, sortKeys: () => clicks.probability },
].filter(column => column.isShown !== false);

const N_SUSPICIOUS = 200;
// In the list of suspicious clicks an extreme account has one line, that of its first click.
const isExtreme = user => data.accounts[user] !== undefined && data.accounts[user].group === "extreme";
const isLine = click => byId("which").value === "suspicious" && isExtreme(clicks.user[click]);
const table = { rows: [], nUsers: 0, sortColumn: "probability", isDescending: true, page: 0 };

// The rank of each click's name among all names in alphabetical order; `codes` has the index of each click's name.
function rankNames(names, codes) {
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const texts = names.map(String);
  const ranks = new Int32Array(texts.length);
  texts.map((_, index) => index).sort((a, b) => compare(texts[a], texts[b])).forEach((index, rank) => { ranks[index] = rank; });
  return Int32Array.from(codes, code => ranks[code]);
}

// Which clicks the list of suspicious ones has: a line of each extreme account, the flagged clicks of other users, and the most suspicious of the others.
const isSuspicious = (() => {
  const chosen = new Uint8Array(nClicks), others = [];
  let n = 0;
  for (let click = 0; click < nClicks; click++) {
    if (isExtreme(clicks.user[click])) chosen[click] = click === users.start[clicks.user[click]] ? 1 : 0;
    else if (clicks.flagged[click]) n += chosen[click] = 1;
    else if (data.reasons[click]) others.push(click);
  }
  others.sort((a, b) => clicks.probability[b] - clicks.probability[a] || a - b).slice(0, Math.max(0, N_SUSPICIOUS - n)).forEach(click => { chosen[click] = 1; });
  return chosen;
})();

function filterTable() {
  const suspiciousOnly = byId("which").value === "suspicious", flaggedOnly = byId("which").value === "flagged", sampleOnly = byId("which").value === "sample";
  const userText = byId("by-user").value.trim().toLowerCase(), itemText = byId("by-item").value.trim().toLowerCase();
  const category = byId("by-category").value;
  const minProbability = Number(byId("min-probability").value) || 0;
  const userMatches = users.id.map(id => String(id).toLowerCase().includes(userText));
  const itemMatches = items.id.map((id, item) =>
    (itemName(item).toLowerCase().includes(itemText) || String(id).toLowerCase().includes(itemText)) &&
    (category === "" || items.categories[item].includes(Number(category))));
  const rows = new Uint32Array(nClicks);
  let n = 0;
  for (let click = 0; click < nClicks; click++) {
    if ((!suspiciousOnly || isSuspicious[click]) && (!flaggedOnly || clicks.flagged[click]) && (!sampleOnly || inSample.has(click)) && clicks.probability[click] >= minProbability && userMatches[clicks.user[click]] && itemMatches[clicks.item[click]]) rows[n++] = click;
  }
  table.rows = rows.subarray(0, n);
  table.nUsers = new Set(Array.from(table.rows, click => clicks.user[click])).size;
  sortTable();
}

function sortTable() {
  const column = COLUMNS.find(each => each.key === table.sortColumn);
  const keys = column.cachedKeys || (column.cachedKeys = column.sortKeys());
  const sign = table.isDescending ? -1 : 1;
  const first = table.sortColumn === "probability" && table.isDescending ? click => (isLine(click) ? 0 : 1) : () => 0;
  table.rows.sort((a, b) => first(a) - first(b) || sign * (keys[a] - keys[b]) || clicks.probability[b] - clicks.probability[a] || a - b);
  showPage(0);
}

function showPage(page) {
  table.page = page;
  const total = table.rows.length, nPages = Math.max(1, Math.ceil(total / PAGE_SIZE));
  const rows = Array.from(table.rows.subarray(page * PAGE_SIZE, (page + 1) * PAGE_SIZE));
  byId("click-count").textContent = describeCount(total);
  byId("clicks").tBodies[0].replaceChildren(...rows.map(makeRow));
  byId("page-number").textContent = "page " + formatInteger(page + 1) + " of " + formatInteger(nPages);
  byId("first-page").disabled = byId("previous-page").disabled = page === 0;
  byId("next-page").disabled = byId("last-page").disabled = page >= nPages - 1;
  byId("export").disabled = total === 0;
  for (const header of byId("clicks").tHead.rows[0].cells) {
    if (header.dataset.key === table.sortColumn) header.setAttribute("aria-sort", table.isDescending ? "descending" : "ascending");
    else header.removeAttribute("aria-sort");
  }
}

function describeCount(total) {
  const lines = Array.from(table.rows).filter(isLine);
  const nClicksOfLines = lines.reduce((sum, click) => sum + users.activity[clicks.user[click]], 0), nOthers = table.nUsers - lines.length;
  const rest = formatCount(total - lines.length, "click") + (total > lines.length ? ", of " + formatCount(nOthers, lines.length ? "other user" : "user") : "");
  if (!total) return "0 clicks with these filters";
  return lines.length ? formatCount(lines.length, "extreme account") + " with " + formatCount(nClicksOfLines, "click") + (total > lines.length ? ", and " + rest : "") : rest;
}

// Cells of a click that all tables of clicks have.
const makeCells = (columns, click) => columns.map(column => makeElement("td", { class: column.class, "data-label": column.label }, column.text(click)));
const makeHeader = (column, content) => makeElement("th", { scope: "col", class: column.isNumber && "number", "data-key": column.key, title: data.definitions[column.title] || false }, content);

function makeRow(click) {
  const cells = makeCells(COLUMNS, click), user = cells[COLUMNS.findIndex(column => column.key === "user")];
  user.replaceChildren(makeElement("button", { type: "button", class: "link", onclick: () => openUser(clicks.user[click]) }, user.textContent));
  if (isLine(click)) {
    for (const cell of cells) if (cell.matches(".tags, .day")) cell.textContent = "";
    cells[0].textContent = "all " + formatCount(users.activity[clicks.user[click]], "click") + " of " + users.id[clicks.user[click]];
    return makeElement("tr", { class: "flagged" }, ...cells, makeElement("td", { class: "why" }, makeElement("span", { class: "badge" }, "extreme account"), " " + data.accounts[clicks.user[click]].reason), makeElement("td", { class: "verdict" }));
  }
  return makeElement("tr", { class: clicks.flagged[click] ? "flagged" : false }, ...cells, makeReasonCell(click, byId("which").value !== "flagged" && byId("which").value !== "sample"), makeVerdictCell(click));
}

const makeReasonCell = (click, hasBadge) => makeElement("td", { class: "why" }, ...(hasBadge && clicks.flagged[click] ? [makeElement("span", { class: "badge" }, "flagged"), " "] : []), data.reasons[click] || "");

// ── csv ──
// A cell that a spreadsheet would take for a formula gets an apostrophe in front; a plain number stays a number.
function csvCell(value) {
  if (typeof value !== "string" || /^[-+]?\d+(\.\d+)?$/.test(value)) return String(value);
  const text = /^\s*[=+\-@＝＋－＠\t\r\n]/.test(value) ? "'" + value : value;
  return '"' + text.replaceAll('"', '""') + '"';  // quoted, because spreadsheets differ in their separators
}

function makeCsv(rows) {
  const columns = [["user", click => users.id[clicks.user[click]]], ["item", click => items.id[clicks.item[click]]]];
  if (items.name) columns.push(["name", click => itemName(clicks.item[click])]);
  if (items.categories) columns.push(["categories", click => itemCategories(clicks.item[click]).join("|")]);
  if (clicks.time) columns.push(["timestamp", click => new Date(1000 * clicks.time[click]).toISOString()]);
  columns.push(["row_share", click => clicks.rowShare[click]], ["threshold", click => users.threshold[clicks.user[click]]],
    ["weight_before", weightBefore], ["weight", click => clicks.weight[click]],
    ["noise_probability", click => clicks.probability[click]], ["flagged", click => clicks.flagged[click] ? "true" : "false"]);
  if (clicks.percentileRank) columns.push(["percentile_rank", click => clicks.percentileRank[click]]);
  columns.push(["reason", click => data.reasons[click] || ""]);
  const lines = [columns.map(([name]) => name).join(",")];
  for (const click of Array.from(rows).flatMap(each => isLine(each) ? clicksOfUser(clicks.user[each]) : [each])) lines.push(columns.map(([, value]) => csvCell(value(click))).join(","));
  return lines.join("\r\n") + "\r\n";
}

function downloadCsv(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  makeElement("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function startTable() {
  if (!clicks.flagged.includes(1)) {
    byId("which").value = "all";
    byId("which-field").hidden = true;
  }
  if (items.categories === null) byId("category-field").hidden = true;
  data.categories.forEach((name, index) => byId("by-category").append(makeElement("option", { value: String(index) }, name)));
  byId("filter-box").open = !IS_PHONE;
  byId("clicks").tHead.rows[0].append(...COLUMNS.map(column => makeHeader(column,
    makeElement("button", { type: "button", onclick: () => {
      table.isDescending = table.sortColumn === column.key ? !table.isDescending : Boolean(column.isNumber);
      table.sortColumn = column.key;
      sortTable();
    } }, column.label))), makeElement("th", { scope: "col" }, "why"), makeElement("th", { scope: "col" }, "your verdict"));
  let timer;
  byId("filters").addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(filterTable, 120); });
  byId("filters").addEventListener("submit", event => event.preventDefault());
  byId("first-page").onclick = () => showPage(0);
  byId("previous-page").onclick = () => showPage(table.page - 1);
  byId("next-page").onclick = () => showPage(table.page + 1);
  byId("last-page").onclick = () => showPage(Math.ceil(table.rows.length / PAGE_SIZE) - 1);
  byId("export").onclick = () => downloadCsv(makeCsv(table.rows), "suspicious-clicks.csv");
  filterTable();
}
