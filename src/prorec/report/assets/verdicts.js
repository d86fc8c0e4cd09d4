// Verdicts of the reader on clicks. They are kept in this page only; `prorec audit read` reads the exported file.

const VERDICTS = ["", "noise", "genuine"];
const verdicts = new Map();
const inSample = new Set(data.sample);

function makeVerdictCell(click) {
  const choice = makeElement("select", { "aria-label": "verdict on " + itemName(clicks.item[click]) + " of user " + users.id[clicks.user[click]] },
    ...VERDICTS.map(verdict => makeElement("option", { value: verdict, selected: (verdicts.get(click) || "") === verdict }, verdict || "none")));
  choice.addEventListener("change", () => {
    if (choice.value) verdicts.set(click, choice.value);
    else verdicts.delete(click);
    showVerdictCount();
  });
  return makeElement("td", { "data-label": "verdict", class: "verdict" }, choice);
}

function showVerdictCount() {
  byId("export-verdicts").disabled = verdicts.size === 0;
  byId("verdict-count").textContent = verdicts.size ? formatCount(verdicts.size, "verdict") + ", not saved until you export them" : "";
}

// The whole sample in its random order, also what has no verdict, and then the other clicks with a verdict.
function makeVerdictCsv() {
  const rows = [...data.sample, ...Array.from(verdicts.keys()).filter(click => !inSample.has(click))];
  const lines = ["user,item,name,verdict,drawn"];
  for (const click of rows) {
    lines.push([users.id[clicks.user[click]], items.id[clicks.item[click]], itemName(clicks.item[click]), verdicts.get(click) || "", inSample.has(click) ? "true" : "false"].map(csvCell).join(","));
  }
  return lines.join("\r\n") + "\r\n";
}

function startVerdicts() {
  if (!data.sample.length) byId("which").querySelector("option[value=sample]").remove();
  byId("export-verdicts").onclick = () => downloadCsv(makeVerdictCsv(), "verdicts.csv");
  showVerdictCount();
}
