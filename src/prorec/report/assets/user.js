// One user: their clicks, the two matrices around them, and what their list of recommendations lost and gained.

const MOST_COLUMNS = 24, CELL = 20, MOST_FOUND = 12, READABLE = 30, MOST_DOTS = 2000, MOST_ROWS = 500;
let shownUser = 0, searched = [];

// Most flagged clicks first, then most noise expected.
const userOrder = (() => {
  const noise = new Float64Array(nUsers);
  for (let click = 0; click < nClicks; click++) noise[clicks.user[click]] += clicks.probability[click];
  return Array.from(noise.keys()).sort((a, b) => users.flags[b] - users.flags[a] || noise[b] - noise[a] || a - b);
})();
const placeInOrder = new Int32Array(nUsers);
userOrder.forEach((user, place) => { placeInOrder[user] = place; });

function openUser(user) {
  showUser(user);
  byId("user").scrollIntoView();
  byId("person").querySelector("h3").focus({ preventScroll: true });
}

function showUser(user) {
  shownUser = user;
  const own = clicksOf(user).sort((a, b) => clicks.probability[b] - clicks.probability[a] || a - b);
  const parts = [heading(user, own), strip(user, own), ownTable(own)];
  if (users.whole[user]) parts.push(matrices(user, own));
  if (users.before && users.before[user * data.k] !== -2) parts.push(recommendations(user));
  byId("person").replaceChildren(...parts);
  byId("user-back").disabled = placeInOrder[user] === 0;
  byId("user-next").disabled = placeInOrder[user] === nUsers - 1;
}

function heading(user, own) {
  const below = users.below[user];
  const part = users.whole[user] ? "" : " Only the most suspicious " + many(own.length, "click") + " of this user are in this page.";
  return make("div", {}, make("h3", { tabindex: "-1" }, "User " + users.id[user]),
    make("p", {}, many(users.activity[user], "click") + ", " + users.flags[user] + " flagged. This user's threshold puts " +
      many(users.kappa[user], "item") + " of " + data.nItems.toLocaleString("en") + " into the upper group; the least of them has a plan value of " + digits(users.threshold[user]) + ", and " +
      (below === 0 ? "none of the clicks is below it." : below + " of the clicks " + (below === 1 ? "is" : "are") + " below it.") + part));
}

// Every click's plan value on one line, and the threshold.
function strip(user, own) {
  own = own.slice(0, MOST_DOTS);
  const values = own.map(click => Math.max(clicks.share[click], 1e-30));
  const threshold = Math.max(users.threshold[user], 1e-30);
  const low = Math.log10(values.reduce((a, b) => Math.min(a, b), threshold)), high = Math.log10(values.reduce((a, b) => Math.max(a, b), threshold));
  const at = value => 16 + (Math.log10(value) - low) / (high - low || 1) * 608;
  const line = at(threshold);
  const picture = draw("svg", { viewBox: "0 0 640 74", class: "chart", role: "img", "aria-label": "Plan values of the clicks, and the threshold" },
    draw("line", { class: "base", x1: 8, x2: 632, y1: 36, y2: 36 }),
    draw("line", { class: "line flag", x1: line, x2: line, y1: 14, y2: 50 }),
    draw("text", { x: Math.min(Math.max(line, 60), 580), y: 10, "text-anchor": "middle" }, "threshold " + digits(users.threshold[user])),
    ...own.map((click, place) => draw("circle", { class: clicks.flagged[click] ? "flag" : "main", cx: at(values[place]), cy: 36, r: 5, "fill-opacity": 0.75 },
      draw("title", {}, nameOf(clicks.item[click]) + ": " + digits(clicks.share[click])))),
    draw("text", { x: 8, y: 70 }, "smaller plan value ρ: the plan does not see this user here"),
    draw("text", { x: 632, y: 70, "text-anchor": "end" }, "larger"));
  return make("div", { class: "strip" }, picture);
}

function ownTable(everything) {
  const own = everything.slice(0, MOST_ROWS);
  const columns = [
    ["item", click => nameOf(clicks.item[click])],
    ["categories", click => categoriesOf(clicks.item[click]).join(", "), { class: "tags" }, items.categories !== null],
    ["day", dayOf, { class: "day" }, clicks.time !== null],
    ["plan value ρ", click => digits(clicks.share[click]), { class: "number" }],
    ["threshold", click => digits(users.threshold[clicks.user[click]]), { class: "number" }],
    ["weight before", click => digits(weightBefore(click)), { class: "number" }],
    ["weight after", click => digits(clicks.weight[click]), { class: "number" }],
    ["noise probability", click => percent(clicks.probability[click]), { class: "number" }],
  ].filter(([, , , there]) => there !== false);
  return make("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Clicks of this user, table" }, make("table", { class: "as-cards", id: "own" },
    make("thead", {}, make("tr", {}, ...columns.map(([label, , attributes]) => make("th", { scope: "col", ...attributes }, label)), make("th", { scope: "col" }, "flagged"))),
    make("tbody", {}, ...own.map(click => make("tr", { class: clicks.flagged[click] ? "flagged" : false },
      ...columns.map(([label, text, attributes]) => make("td", { "data-label": label, ...attributes }, text(click))), flagCell(click))))),
    ...(own.length < everything.length ? [make("p", {}, "The " + own.length.toLocaleString("en") + " most suspicious are shown.")] : []));
}

// The paper's Figure 3 around this user: the same clicks, before and after.
function matrices(user, own) {
  const byWeight = own.slice().sort((a, b) => clicks.weight[b] - clicks.weight[a] || a - b);
  const last = Math.floor(MOST_COLUMNS / 2);
  const shown = byWeight.length <= MOST_COLUMNS ? byWeight : [...byWeight.slice(0, MOST_COLUMNS - last), ...byWeight.slice(-last)];
  const columns = shown.map(click => clicks.item[click]);
  const near = Array.from(users.neighbours.subarray(user * data.nNear, (user + 1) * data.nNear)).filter(row => row >= 0);
  const rows = [user, ...near].map(row => new Map(clicksOf(row).map(click => [clicks.item[click], click])));
  const shares = item => rows.slice(1).filter(row => row.has(item)).length;
  const names = [user, ...near].map(row => String(users.id[row]));
  const all = byWeight.length > MOST_COLUMNS ? "the " + (MOST_COLUMNS - last) + " items that weigh most now and the " + last + " that weigh least" : "all items";
  const words = near.length === 0 ? "No other user in this page shares an item with this one." :
    "Columns: " + all + " of this user. Rows: this user, and the " + many(near.length, "user") + " most like them" + (data.isEverything ? "" : " of those who are in this page") + ". " + nameOf(columns[0]) + ", which weighs most now, is shared by " +
    shares(columns[0]) + " of those; " + nameOf(columns[columns.length - 1]) + ", which weighs least, by " + shares(columns[columns.length - 1]) + ".";
  const seen = rows.flatMap(row => columns.filter(item => row.has(item)).map(item => row.get(item))).flatMap(click => [weightBefore(click), clicks.weight[click]]);
  const least = Math.min(...seen), most = Math.max(...seen);
  const picture = (label, weightOf) => make("figure", {}, make("h4", {}, label), matrix(label, names, columns, rows, click => (weightOf(click) - least) / (most - least || 1), weightOf));
  return make("div", {}, make("h3", {}, "Before and after, around this user"),
    make("p", {}, words + " The fainter a click, the less it weighs: from " + digits(least) + " to " + digits(most) + (users.flags[user] ? "; flagged ones are framed." : ".")),
    make("div", { class: "sides" }, picture("Before", weightBefore), picture("After", click => clicks.weight[click])));
}

function matrix(label, names, columns, rows, depth, weightOf) {
  const left = 92, top = 118, width = left + MOST_COLUMNS * CELL + 60, height = top + rows.length * CELL + 8;
  const cells = rows.flatMap((row, y) => columns.map((item, x) => {
    const click = row.get(item);
    const box = { x: left + x * CELL + 1, y: top + y * CELL + 1, width: CELL - 2, height: CELL - 2 };
    if (click === undefined) return draw("rect", { class: "cell", ...box });
    return draw("rect", { class: "cell on" + (clicks.flagged[click] ? " flagged" : ""), "fill-opacity": (0.15 + 0.85 * depth(click)).toFixed(3), ...box },
      draw("title", {}, names[y] + ", " + nameOf(item) + ": " + digits(weightOf(click))));
  }));
  return draw("svg", { viewBox: "0 0 " + width + " " + height, class: "chart matrix", role: "img", "aria-label": label + ": weights of clicks, users in rows and items in columns" },
    ...names.map((name, y) => draw("text", { class: y === 0 ? "name self" : "name", x: left - 6, y: top + y * CELL + 14, "text-anchor": "end" }, cut(name, 12))),
    ...columns.map((item, x) => draw("text", { transform: "translate(" + (left + x * CELL + 13) + " " + (top - 5) + ") rotate(-55)" }, cut(nameOf(item), 20))),
    ...cells);
}

const listOf = (lists, user) => Array.from(lists.subarray(user * data.k, (user + 1) * data.k)).filter(item => item >= 0);

function recommendations(user) {
  const before = listOf(users.before, user), after = listOf(users.after, user);
  const fresh = after.filter(item => !before.includes(item)).length;
  const side = (label, mine, other, kind, word) => make("div", {}, make("h4", {}, label), make("ol", {}, ...mine.map(item => {
    const extra = categoriesOf(item).length ? make("span", { class: "tags" }, " " + categoriesOf(item).join(", ")) : "";
    return other.includes(item) ? make("li", {}, nameOf(item), extra) : make("li", {}, make("span", { class: kind }, nameOf(item)), " (" + word + ")", extra);
  })));
  return make("div", { id: "lists" }, make("h3", {}, "Recommendations"),
    make("p", {}, fresh === 0 ? "Nothing new entered this user's list." : fresh + " of " + after.length + " recommendations " + (fresh === 1 ? "is" : "are") + " new."),
    make("div", { class: "sides" }, side("Before", before, after, "left-out", "left"), side("After", after, before, "entered", "entered")));
}

// ── finding one ──
function search() {
  const wanted = byId("find").value.trim().toLowerCase();
  const starts = [], contains = [];
  for (const user of userOrder) {
    const at = String(users.id[user]).toLowerCase().indexOf(wanted);
    if (at === 0) starts.push(user);
    else if (at > 0 && contains.length < MOST_FOUND) contains.push(user);
  }
  const exact = starts.findIndex(user => String(users.id[user]).toLowerCase() === wanted);
  if (exact > 0) starts.unshift(...starts.splice(exact, 1));
  searched = [...starts, ...contains].slice(0, MOST_FOUND);
  byId("found").replaceChildren(...(searched.length ? searched.map((user, place) => make("li", { role: "option", id: "option-" + place, "aria-selected": "false",
    onmousedown: event => { event.preventDefault(); pick(place); } },
    users.id[user] + " (" + many(users.activity[user], "click") + ", " + users.flags[user] + " flagged)")) : [make("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "nobody in this page is called that")]));
  openFound(true);
  choose(searched.length ? 0 : -1);
}

function openFound(open) {
  byId("found").hidden = !open;
  byId("find").setAttribute("aria-expanded", String(open));
  if (!open) byId("find").removeAttribute("aria-activedescendant");
}

function choose(place) {
  Array.from(byId("found").children).forEach((option, at) => option.setAttribute("aria-selected", String(at === place)));
  if (place < 0) return;
  byId("find").setAttribute("aria-activedescendant", "option-" + place);
  byId("found").children[place].scrollIntoView({ block: "nearest" });
}

function pick(place) {
  if (searched[place] === undefined) return;
  byId("find").value = String(users.id[searched[place]]);
  openFound(false);
  showUser(searched[place]);
}

function startUser() {
  const find = byId("find");
  find.addEventListener("input", search);
  find.addEventListener("focus", () => { find.select(); search(); });
  find.addEventListener("blur", () => openFound(false));
  find.addEventListener("keydown", event => {
    const now = Array.from(byId("found").children).findIndex(option => option.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (byId("found").hidden) search();
      else if (searched.length) choose((now + (event.key === "ArrowDown" ? 1 : searched.length - 1)) % searched.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      pick(now);
    } else if (event.key === "Escape" && !byId("found").hidden) {
      event.preventDefault();  // a search field would be emptied, which is a new search
      openFound(false);
    }
  });
  byId("user-back").onclick = () => showUser(userOrder[placeInOrder[shownUser] - 1]);
  byId("user-next").onclick = () => showUser(userOrder[placeInOrder[shownUser] + 1]);
  // To begin with, somebody whose clicks can be taken in at a glance, and whose list has changed if there is one.
  const readable = userOrder.filter(user => users.whole[user] && users.activity[user] <= READABLE);
  const changed = readable.find(user => users.before && listOf(users.after, user).some(item => !listOf(users.before, user).includes(item)));
  showUser([changed, readable[0], userOrder[0]].find(user => user !== undefined));
}
