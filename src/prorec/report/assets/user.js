// One user: the user's clicks, the matrices before and after denoising, and the change of the recommendations.

const MAX_COLUMNS = 24, CELL = 20, LETTER = 6.6, MAX_LETTERS = 32, MAX_OPTIONS = 12, READABLE = 30, MAX_DOTS = 2000, MAX_ROWS = 500;
const GROUP_NOTES = { extreme: "Left out of the fit; its clicks count as noise.", suspicious: "Its clicks are neither flagged nor down-weighted for that." };
const NO_LIST = -2, SMALLEST_SHARE = 1e-30;
let shownUser = 0, options = [];

// Users with the most flagged clicks come first, then those with the most expected noise.
const userOrder = (() => {
  const noise = new Float64Array(nUsers);
  for (let click = 0; click < nClicks; click++) noise[clicks.user[click]] += clicks.probability[click];
  return Array.from(noise.keys()).sort((a, b) => users.nFlagged[b] - users.nFlagged[a] || noise[b] - noise[a] || a - b);
})();
const userRank = new Int32Array(nUsers);
userOrder.forEach((user, rank) => { userRank[user] = rank; });

function openUser(user) {
  showUser(user);
  byId("user").scrollIntoView();
  byId("user-details").querySelector("h3").focus({ preventScroll: true });
}

function showUser(user) {
  shownUser = user;
  const own = clicksOfUser(user).sort((a, b) => clicks.probability[b] - clicks.probability[a] || a - b);
  const parts = [makeHeading(user, own), makeUserTable("user-clicks", "Clicks of this user", USER_COLUMNS, own)];
  if (users.isComplete[user]) parts.push(makeMatrices(user, own));
  if (users.before && users.before[user * data.k] !== NO_LIST) parts.push(makeRecommendations(user));
  parts.push(makePlanDetails(user, own));
  byId("user-details").replaceChildren(...parts);
  byId("previous-user").disabled = userRank[user] === 0;
  byId("next-user").disabled = userRank[user] === nUsers - 1;
}

function makeHeading(user, own) {
  const part = users.isComplete[user] ? "" : " This page holds only the most suspicious " + formatCount(own.length, "click") + " of this user.";
  return makeElement("div", {}, makeElement("h3", { tabindex: "-1" }, "User " + users.id[user]),
    makeElement("p", {}, formatCount(users.activity[user], "click") + ", " + formatInteger(users.nFlagged[user]) + " flagged." + part),
    ...(data.accounts[user] ? [makeElement("p", {}, makeElement("span", { class: "badge" }, data.accounts[user].group + " account"), " " + data.accounts[user].reason + " " + GROUP_NOTES[data.accounts[user].group])] : []));
}

const COMMON_COLUMNS = COLUMNS.filter(column => column.key !== "user");
const weightColumn = { label: "weight", class: "number", title: "weight", isNumber: true, text: click => formatNumber(clicks.weight[click]) };
const USER_COLUMNS = [...COMMON_COLUMNS, { ...weightColumn, class: "number fact" }];
const PLAN_COLUMNS = [COLUMNS[0],
  { label: "row share ρ", title: "row share ρ", text: click => formatNumber(clicks.rowShare[click]) },
  { label: "threshold ρ_κ", title: "threshold ρ_κ", text: click => formatNumber(users.threshold[clicks.user[click]]) },
  { label: "weight before", title: "weight", text: click => formatNumber(weightBefore(click)) },
  { ...weightColumn, label: "weight after" },
  { label: "percentile rank", title: "percentile rank", text: click => formatNumber(clicks.percentileRank[click]), isShown: clicks.percentileRank !== null },
].filter(column => column.isShown !== false).map((column, index) => index ? { ...column, class: "number fact", isNumber: true } : column);

function makeUserTable(id, label, columns, own) {
  const shown = own.slice(0, MAX_ROWS), hasReasons = id === "user-clicks";
  return makeElement("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": label + ", table" }, makeElement("table", { class: "as-cards", id },
    makeElement("thead", {}, makeElement("tr", {}, ...columns.map(column => makeHeader(column, column.label)), ...(hasReasons ? [makeElement("th", { scope: "col" }, "why")] : []))),
    makeElement("tbody", {}, ...shown.map(click => makeElement("tr", { class: clicks.flagged[click] ? "flagged" : false }, ...makeCells(columns, click), ...(hasReasons ? [makeReasonCell(click, true)] : []))))),
    ...(shown.length < own.length ? [makeElement("p", {}, "The table shows the " + formatInteger(shown.length) + " most suspicious clicks.")] : []));
}

// The paper's quantities.
function makePlanDetails(user, own) {
  const nBelow = users.nBelow[user];
  const below = nBelow === 0 ? "No click of the user is below it." : formatInteger(nBelow) + " of the clicks " + (nBelow === 1 ? "is" : "are") + " below it.";
  return makeElement("details", { id: "user-plan" }, makeElement("summary", {}, "Transport plan of this user"),
    makeElement("p", {}, "The threshold puts κ = " + formatInteger(users.kappa[user]) + " of " + formatCount(data.nItems, "item") + " into the upper group; the smallest row share in it is " +
      formatNumber(users.threshold[user]) + ". " + below), makeStrip(user, own), makeUserTable("user-shares", "Row shares and weights of this user", PLAN_COLUMNS, own));
}

// The row shares of the user's clicks on one line, and the threshold.
function makeStrip(user, own) {
  own = own.slice(0, MAX_DOTS);
  const values = own.map(click => Math.max(clicks.rowShare[click], SMALLEST_SHARE));
  const threshold = Math.max(users.threshold[user], SMALLEST_SHARE);
  const low = Math.log10(values.reduce((a, b) => Math.min(a, b), threshold)), high = Math.log10(values.reduce((a, b) => Math.max(a, b), threshold));
  const scale = value => 16 + (Math.log10(value) - low) / (high - low || 1) * 608;
  const line = scale(threshold);
  const chart = makeSvg("svg", { viewBox: "0 0 640 74", class: "chart", role: "img", "aria-label": "Row shares of the clicks, and the threshold" },
    makeSvg("line", { class: "base", x1: 8, x2: 632, y1: 36, y2: 36 }),
    makeSvg("line", { class: "line flag", x1: line, x2: line, y1: 14, y2: 50 }),
    makeSvg("text", { x: Math.min(Math.max(line, 60), 580), y: 10, "text-anchor": "middle" }, "threshold " + formatNumber(users.threshold[user])),
    ...own.map((click, index) => makeSvg("circle", { class: clicks.flagged[click] ? "flag" : "main", cx: scale(values[index]), cy: 36, r: 5, "fill-opacity": 0.75 },
      makeSvg("title", {}, itemName(clicks.item[click]) + ": " + formatNumber(clicks.rowShare[click])))),
    makeSvg("text", { x: 8, y: 70 }, "smaller row share ρ: the plan sends little of the user's mass to the item"),
    makeSvg("text", { x: 632, y: 70, "text-anchor": "end" }, "larger"));
  return makeElement("div", { class: "strip" }, chart);
}

// The paper's Figure 3 around this user: the weights before, if they differ, and after denoising.
function makeMatrices(user, own) {
  const byWeight = own.slice().sort((a, b) => clicks.weight[b] - clicks.weight[a] || a - b);
  const nSmallest = Math.floor(MAX_COLUMNS / 2), nLargest = MAX_COLUMNS - nSmallest;
  const isCut = byWeight.length > MAX_COLUMNS;
  const shown = isCut ? [...byWeight.slice(0, nLargest), ...byWeight.slice(-nSmallest)] : byWeight;
  const columns = shown.map(click => clicks.item[click]);
  const neighbors = Array.from(users.neighbors.subarray(user * data.nNeighbors, (user + 1) * data.nNeighbors)).filter(neighbor => neighbor >= 0);
  const rows = [user, ...neighbors].map(each => new Map(clicksOfUser(each).map(click => [clicks.item[click], click])));
  const names = [user, ...neighbors].map(each => String(users.id[each]));
  const countSharing = item => rows.slice(1).filter(row => row.has(item)).length;
  const largest = columns[0], smallest = columns[columns.length - 1];
  const note = neighbors.length === 0 ? "No other user in this page shares an item with this user." :
    "Columns: " + (isCut ? "the " + nLargest + " items with the largest weights and the " + nSmallest + " with the smallest" : "all items") + " of this user. Rows: this user, and the " +
    formatCount(neighbors.length, "most similar user") + (data.isComplete ? "" : " in this page") + ". " + itemName(largest) + ", which has the largest weight, is shared by " +
    countSharing(largest) + " of them; " + itemName(smallest) + ", which has the smallest, by " + countSharing(smallest) + ".";
  const makeFigure = (label, weightOf) => makeElement("figure", {}, ...(clicks.weightBefore ? [makeElement("h4", {}, label)] : []), makeMatrix(label, names, columns, rows, weightOf));
  return makeElement("div", {}, makeElement("h3", {}, "Similar users"),
    makeElement("p", {}, note + " Each row is shaded by its own weights: its smallest is pale, its largest is dark" + (clicks.flagged.includes(1) ? ", and a flagged click is red." : ".")),
    makeElement("div", { class: "sides" }, ...(clicks.weightBefore ? [makeFigure("Before", weightBefore)] : []), makeFigure("After", click => clicks.weight[click])));
}

function makeMatrix(label, names, columns, rows, weightOf) {
  const labels = columns.map(item => truncate(itemName(item), MAX_LETTERS)), rowLabels = names.map(name => truncate(name, MAX_LETTERS));
  const longest = texts => LETTER * Math.max(...texts.map(text => text.length));
  // Labels of columns are turned by 55°, and end on the right of their column.
  const left = 1.2 * longest(rowLabels) + 12, top = 0.82 * longest(labels) + 14, right = Math.max(0, ...labels.map((text, x) => 0.58 * LETTER * text.length + 13 - (labels.length - x) * CELL)) + 8;
  const width = left + columns.length * CELL + right, height = top + rows.length * CELL + 8;
  const cells = rows.flatMap((row, y) => {
    const weights = columns.filter(item => row.has(item)).map(item => weightOf(row.get(item)));
    const low = Math.min(...weights), high = Math.max(...weights);
    return columns.map((item, x) => {
      const click = row.get(item);
      const box = { x: left + x * CELL + 1, y: top + y * CELL + 1, width: CELL - 2, height: CELL - 2 };
      if (click === undefined) return makeSvg("rect", { class: "cell", ...box });
      const shade = high > low ? 0.25 + 0.75 * (weightOf(click) - low) / (high - low) : 1;
      return makeSvg("rect", { class: "cell on" + (clicks.flagged[click] ? " flagged" : ""), "fill-opacity": (clicks.flagged[click] ? 1 : shade).toFixed(3), ...box },
        makeSvg("title", {}, names[y] + ", " + itemName(item) + ": " + formatNumber(weightOf(click))));
    });
  });
  return makeSvg("svg", { viewBox: "0 0 " + width + " " + height, style: "max-width: " + width + "px", class: "chart matrix", role: "img", "aria-label": label + ": weights of clicks, users in rows and items in columns" },
    ...rowLabels.map((name, y) => makeSvg("text", { class: y === 0 ? "name self" : "name", x: left - 6, y: top + y * CELL + 14, "text-anchor": "end" }, name)),
    ...labels.map((name, x) => makeSvg("text", { transform: "translate(" + (left + x * CELL + 13) + " " + (top - 5) + ") rotate(-55)" }, name)),
    ...cells);
}

const listOfUser = (lists, user) => Array.from(lists.subarray(user * data.k, (user + 1) * data.k)).filter(item => item >= 0);

function makeRecommendations(user) {
  const before = listOfUser(users.before, user), after = listOfUser(users.after, user);
  const nNew = after.filter(item => !before.includes(item)).length;
  const makeList = (label, list, other, cssClass, mark) => makeElement("div", {}, makeElement("h4", {}, label), makeElement("ol", {}, ...list.map(item => {
    const categories = itemCategories(item).length ? makeElement("span", { class: "tags" }, " " + itemCategories(item).join(", ")) : "";
    return other.includes(item) ? makeElement("li", {}, itemName(item), categories) : makeElement("li", {}, makeElement("span", { class: cssClass }, itemName(item)), " (" + mark + ")", categories);
  })));
  return makeElement("div", { id: "recommendations" }, makeElement("h3", {}, "Recommendations"),
    makeElement("p", {}, nNew === 0 ? "Denoising adds no new recommendation." : nNew + " of " + after.length + " recommendations " + (nNew === 1 ? "is" : "are") + " new."),
    makeElement("div", { class: "sides" }, makeList("Before", before, after, "removed", "removed"), makeList("After", after, before, "added", "new")));
}

// ── search ──
function searchUsers() {
  const text = byId("find-user").value.trim().toLowerCase();
  const starting = [], containing = [];
  for (const user of userOrder) {
    const position = String(users.id[user]).toLowerCase().indexOf(text);
    if (position === 0) starting.push(user);
    else if (position > 0 && containing.length < MAX_OPTIONS) containing.push(user);
  }
  const exact = starting.findIndex(user => String(users.id[user]).toLowerCase() === text);
  if (exact > 0) starting.unshift(...starting.splice(exact, 1));
  options = [...starting, ...containing].slice(0, MAX_OPTIONS);
  byId("user-options").replaceChildren(...(options.length ? options.map((user, index) => makeElement("li", { role: "option", id: "option-" + index, "aria-selected": "false",
    onmousedown: event => { event.preventDefault(); chooseOption(index); } },
    users.id[user] + " (" + formatCount(users.activity[user], "click") + ", " + formatInteger(users.nFlagged[user]) + " flagged)")) : [makeElement("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "no user in this page has such an id")]));
  toggleOptions(true);
  selectOption(options.length ? 0 : -1);
}

function toggleOptions(open) {
  byId("user-options").hidden = !open;
  byId("find-user").setAttribute("aria-expanded", String(open));
  if (!open) byId("find-user").removeAttribute("aria-activedescendant");
}

function selectOption(selected) {
  Array.from(byId("user-options").children).forEach((option, index) => option.setAttribute("aria-selected", String(index === selected)));
  if (selected < 0) return;
  byId("find-user").setAttribute("aria-activedescendant", "option-" + selected);
  byId("user-options").children[selected].scrollIntoView({ block: "nearest" });
}

function chooseOption(index) {
  if (options[index] === undefined) return;
  byId("find-user").value = String(users.id[options[index]]);
  toggleOptions(false);
  showUser(options[index]);
}

function startUser() {
  const field = byId("find-user");
  field.addEventListener("input", searchUsers);
  field.addEventListener("focus", () => { field.select(); searchUsers(); });
  field.addEventListener("blur", () => toggleOptions(false));
  field.addEventListener("keydown", event => {
    const selected = Array.from(byId("user-options").children).findIndex(option => option.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (byId("user-options").hidden) searchUsers();
      else if (options.length) selectOption((selected + (event.key === "ArrowDown" ? 1 : options.length - 1)) % options.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      chooseOption(selected);
    } else if (event.key === "Escape" && !byId("user-options").hidden) {
      event.preventDefault();  // a search field would be emptied, which starts a new search
      toggleOptions(false);
    }
  });
  byId("previous-user").onclick = () => showUser(userOrder[userRank[shownUser] - 1]);
  byId("next-user").onclick = () => showUser(userOrder[userRank[shownUser] + 1]);
  // The first user shown has few clicks and, if possible, a changed list of recommendations.
  const readable = userOrder.filter(user => users.isComplete[user] && users.activity[user] <= READABLE);
  const changed = readable.find(user => users.before && listOfUser(users.after, user).some(item => !listOfUser(users.before, user).includes(item)));
  showUser([changed, readable[0], userOrder[0]].find(user => user !== undefined));
}
