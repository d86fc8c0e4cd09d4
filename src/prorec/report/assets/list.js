// The list of suspicious clicks: filtered and sorted as numbers, and only one page of it in the document.

const PAGE = matchMedia("(max-width: 640px)").matches ? 8 : 20;
const COLUMNS = [
  { key: "user", label: "user", text: click => String(users.id[clicks.user[click]]), sort: () => ranked(users.id, clicks.user) },
  { key: "item", label: "item", text: click => nameOf(clicks.item[click]), sort: () => ranked(items.name || items.id, clicks.item) },
  { key: "category", label: "category", text: click => categoriesOf(clicks.item[click]).join(", "), there: items.categories !== null,
    sort: () => ranked(items.id.map((_, item) => categoriesOf(item).join(", ")), clicks.item) },
  { key: "time", label: "day", text: dayOf, there: clicks.time !== null, sort: () => clicks.time },
  { key: "share", label: "plan value ρ", text: click => digits(clicks.share[click]), number: true, sort: () => clicks.share },
  { key: "threshold", label: "threshold", text: click => digits(users.threshold[clicks.user[click]]), number: true,
    sort: () => Float32Array.from(clicks.user, user => users.threshold[user]) },
  { key: "weight", label: "weight", text: click => digits(weightBefore(click)) + " → " + digits(clicks.weight[click]), number: true, sort: () => clicks.weight },
  { key: "probability", label: "noise probability", text: click => percent(clicks.probability[click]), number: true, sort: () => clicks.probability },
].filter(column => column.there !== false);

const list = { rows: [], nUsers: 0, sortedBy: "probability", down: true, page: 0 };

// For each click, the place of its name among all names in order.
function ranked(names, of) {
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const texts = names.map(String);
  const rank = new Int32Array(texts.length);
  texts.map((_, at) => at).sort((a, b) => compare(texts[a], texts[b])).forEach((at, place) => { rank[at] = place; });
  return Int32Array.from(of, each => rank[each]);
}

function filterList() {
  const flaggedOnly = byId("which").value === "flagged";
  const ofUser = byId("by-user").value.trim().toLowerCase(), ofItem = byId("by-item").value.trim().toLowerCase();
  const category = byId("by-category").value;
  const atLeast = Number(byId("at-least").value) || 0;
  const userFits = users.id.map(id => String(id).toLowerCase().includes(ofUser));
  const itemFits = items.id.map((id, item) =>
    (nameOf(item).toLowerCase().includes(ofItem) || String(id).toLowerCase().includes(ofItem)) &&
    (category === "" || items.categories[item].includes(Number(category))));
  const rows = new Uint32Array(nClicks);
  let n = 0;
  for (let click = 0; click < nClicks; click++) {
    if ((!flaggedOnly || clicks.flagged[click]) && clicks.probability[click] >= atLeast && userFits[clicks.user[click]] && itemFits[clicks.item[click]]) rows[n++] = click;
  }
  list.rows = rows.subarray(0, n);
  list.nUsers = new Set(Array.from(list.rows, click => clicks.user[click])).size;
  sortList();
}

function sortList() {
  const column = COLUMNS.find(each => each.key === list.sortedBy);
  const values = column.values || (column.values = column.sort());
  const sign = list.down ? -1 : 1;
  list.rows.sort((a, b) => sign * (values[a] - values[b]) || clicks.probability[b] - clicks.probability[a] || a - b);
  list.page = 0;
  showList();
}

function showList() {
  const total = list.rows.length, pages = Math.max(1, Math.ceil(total / PAGE));
  const rows = Array.from(list.rows.subarray(list.page * PAGE, (list.page + 1) * PAGE));
  byId("list-count").textContent = many(total, "click") + (total ? ", of " + many(list.nUsers, "user") : " with these filters");
  byId("clicks").tBodies[0].replaceChildren(...rows.map(rowOf));
  byId("page-place").textContent = "page " + (list.page + 1).toLocaleString("en") + " of " + pages.toLocaleString("en");
  byId("first").disabled = byId("back").disabled = list.page === 0;
  byId("next").disabled = byId("last").disabled = list.page >= pages - 1;
  byId("export").disabled = total === 0;
  for (const header of byId("clicks").tHead.rows[0].cells) {
    if (header.dataset.key === list.sortedBy) header.setAttribute("aria-sort", list.down ? "descending" : "ascending");
    else header.removeAttribute("aria-sort");
  }
}

function rowOf(click) {
  const cells = COLUMNS.map(column => make("td", { class: column.number ? "number" : column.key === "time" && "day", "data-label": column.label },
    column.key === "user" ? make("button", { type: "button", class: "link", onclick: () => openUser(clicks.user[click]) }, column.text(click)) : column.text(click)));
  return make("tr", { class: clicks.flagged[click] ? "flagged" : false }, ...cells, flagCell(click));
}

const flagCell = click => make("td", { "data-label": "flagged", class: clicks.flagged[click] ? false : "empty" }, clicks.flagged[click] ? make("span", { class: "badge" }, "flagged") : "");

function turnTo(page) {
  list.page = page;
  showList();
}

// ── csv ──
// A cell that a spreadsheet would take for a formula gets an apostrophe in front; a plain number stays one.
function csvCell(value) {
  if (typeof value !== "string" || /^[-+]?\d+(\.\d+)?$/.test(value)) return String(value);
  const text = /^\s*[=+\-@＝＋－＠\t\r\n]/.test(value) ? "'" + value : value;
  return '"' + text.replaceAll('"', '""') + '"';  // in quotes, whichever sign somebody's spreadsheet takes for a separator
}

function csvOf(rows) {
  const columns = [["user", click => users.id[clicks.user[click]]], ["item", click => items.id[clicks.item[click]]]];
  if (items.name) columns.push(["name", click => nameOf(clicks.item[click])]);
  if (items.categories) columns.push(["categories", click => categoriesOf(clicks.item[click]).join("|")]);
  if (clicks.time) columns.push(["timestamp", click => new Date(1000 * clicks.time[click]).toISOString()]);
  columns.push(["plan_value", click => clicks.share[click]], ["threshold", click => users.threshold[clicks.user[click]]],
    ["weight_before", weightBefore], ["weight", click => clicks.weight[click]],
    ["noise_probability", click => clicks.probability[click]], ["flagged", click => clicks.flagged[click] ? "true" : "false"]);
  if (clicks.percentile) columns.push(["percentile", click => clicks.percentile[click]]);
  const lines = [columns.map(([name]) => name).join(",")];
  for (const click of rows) lines.push(columns.map(([, value]) => csvCell(value(click))).join(","));
  return lines.join("\r\n") + "\r\n";
}

function exportList() {
  const address = URL.createObjectURL(new Blob([csvOf(list.rows)], { type: "text/csv" }));
  make("a", { href: address, download: "suspicious-clicks.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function startList() {
  const anyFlagged = clicks.flagged.includes(1);
  if (!anyFlagged) {
    byId("which").value = "all";
    byId("which-field").hidden = true;
  }
  if (items.categories === null) byId("category-field").hidden = true;
  data.categories.forEach((name, at) => byId("by-category").append(make("option", { value: String(at) }, name)));
  byId("clicks").classList.add("as-cards");
  byId("clicks").tHead.rows[0].append(...COLUMNS.map(column => make("th", { scope: "col", "data-key": column.key, class: column.number && "number" },
    make("button", { type: "button", onclick: () => {
      list.down = list.sortedBy === column.key ? !list.down : Boolean(column.number);
      list.sortedBy = column.key;
      sortList();
    } }, column.label))), make("th", { scope: "col" }, "flagged"));
  let waiting;
  byId("filters").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filterList, 120); });
  byId("filters").addEventListener("submit", event => event.preventDefault());
  byId("first").onclick = () => turnTo(0);
  byId("back").onclick = () => turnTo(list.page - 1);
  byId("next").onclick = () => turnTo(list.page + 1);
  byId("last").onclick = () => turnTo(Math.ceil(list.rows.length / PAGE) - 1);
  byId("export").onclick = exportList;
  filterList();
}
