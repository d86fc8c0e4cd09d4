// Verdicts of the reader on clicks. They are kept in this page only; `prorec audit read` reads the exported file.

const VERDICTS = { noise: "right", genuine: "wrong" };
const verdicts = new Map();
const inSample = new Set(data.sample);

// A flag is right if the click is noise. A click without a flag has no such thing, but noise and genuine.
function makeVerdictCell(click) {
  const name = itemName(clicks.item[click]) + " of user " + users.id[clicks.user[click]];
  const buttons = Object.entries(VERDICTS).map(([verdict, word]) => makeElement("button", { type: "button", class: "verdict-button", "data-verdict": verdict,
    "aria-pressed": String(verdicts.get(click) === verdict), "aria-label": verdict + ": " + name, title: verdict,
    onclick: () => {
      if (verdicts.get(click) === verdict) verdicts.delete(click);
      else verdicts.set(click, verdict);
      for (const button of buttons) button.setAttribute("aria-pressed", String(verdicts.get(click) === button.dataset.verdict));
      showVerdictCount();
    } }, clicks.flagged[click] ? word : verdict));
  return makeElement("td", { class: "verdict" }, ...buttons);
}

function showVerdictCount() {
  byId("export-verdicts").disabled = verdicts.size === 0;
  const nDrawn = data.sample.filter(click => verdicts.has(click)).length;
  byId("verdict-count").textContent = verdicts.size ? formatCount(verdicts.size, "verdict") + (inSample.size ? ", " + nDrawn + " of " + inSample.size + " in the random sample" : "") + "; not saved until you export them" : "";
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
