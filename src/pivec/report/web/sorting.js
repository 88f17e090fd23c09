// Small tables: heads sort them, and a row that names a pair chooses it.
import { make } from "./format.js";
import { app, set } from "./state.js";

/** @param {any} head of a small table @param {number} column @param {any} table */
const sortTable = (head, column, table) => {
  const sign = head.ariaSort === "ascending" ? -1 : 1, numeric = head.className === "n", body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, key: numeric ? Number(row.cells[column].dataset.v ?? NaN) : row.cells[column].textContent }));
  rows.sort(({ key: a }, { key: b }) => (numeric ? Number(isNaN(a)) - Number(isNaN(b)) || sign * (a - b) || 0 : sign * a.localeCompare(b, "en", { numeric: true })));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.ariaSort = sign < 0 ? "descending" : "ascending";
  body.append(...rows.map(({ row }) => row));
};

/** @param {any} cell @param {string} [className] @returns {any} what it holds as a button */
export const asButton = (cell, className) => {
  const button = make("button", cell.textContent, className);
  button.type = "button"; cell.replaceChildren(button);
  return button;
};

export const sortingPart = () => {
  for (const table of /** @type {any} */ (document.querySelectorAll("table.sortable"))) {
    [...table.tHead.rows[0].cells].forEach((head, column) => asButton(head).addEventListener("click", () => sortTable(head, column, table)));
  }
  const { label } = app.data;  // a served page may number its rows anew
  for (const row of /** @type {any} */ (document.querySelectorAll("tr[data-a]"))) {
    const now = (/** @type {number} */ i) => app.data.label.indexOf(label[i]);
    asButton(row.cells[0], "bare").title = "Choose this pair";
    row.addEventListener("click", () => { if (!String(getSelection())) set({ a: now(row.dataset.a), b: now(row.dataset.b) }); });
  }
};
