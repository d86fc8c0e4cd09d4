// Sorting of the tables of accounts and items, whose rows are in the document, and links from accounts to their clicks.

function sortRows(table, header) {
  const isNumber = header.classList.contains("number"), position = header.cellIndex;
  const isDescending = header.hasAttribute("aria-sort") ? header.getAttribute("aria-sort") !== "descending" : isNumber;
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const value = row => isNumber ? Number(row.cells[position].dataset.value) : row.cells[position].textContent;
  const rows = Array.from(table.tBodies[0].rows);
  rows.sort((a, b) => (isDescending ? -1 : 1) * (isNumber ? value(a) - value(b) : compare(value(a), value(b))));
  table.tBodies[0].append(...rows);
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
}

function startIssueTables() {
  for (const table of document.querySelectorAll("table.sortable")) {
    for (const header of table.tHead.rows[0].cells) {
      header.replaceChildren(makeElement("button", { type: "button", onclick: () => sortRows(table, header) }, header.textContent));
    }
  }
  const position = new Map(users.id.map((id, user) => [String(id), user]));
  for (const row of document.querySelectorAll("#issues-extreme tbody tr, #issues-suspicious tbody tr")) {
    const user = position.get(row.cells[0].textContent);
    if (user === undefined) continue;  // the page does not hold this user's clicks
    row.cells[0].replaceChildren(makeElement("button", { type: "button", class: "link", onclick: () => openUser(user) }, row.cells[0].textContent));
  }
}
