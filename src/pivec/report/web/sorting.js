// Small tables: heads sort them, and a row that names a pair chooses it.
import { make } from "./format.js";
import { app, set } from "./state.js";

export const sortingPart = () => {
  for (const table of /** @type {any} */ (document.querySelectorAll("table.sortable"))) {
    const body = table.tBodies[0];
    /** @type {any[]} */
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = make("button", head.textContent);
      button.type = "button"; head.replaceChildren(button);
      button.addEventListener("click", () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1, numeric = head.classList.contains("n");
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
        const value = (/** @type {any} */ row) => (numeric ? Number(row.cells[column].dataset.v ?? NaN) : row.cells[column].textContent);
        const rows = [...body.rows].map((row) => ({ row, key: value(row) }));
        rows.sort((one, two) => {
          const a = one.key, b = two.key;
          if (!numeric) return sign * a.localeCompare(b, "en", { numeric: true });
          return Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : sign * (a - b);
        });
        body.append(...rows.map(({ row }) => row));
      });
    });
  }
  const { label } = app.data;  // rows are named by their numbers at first; a served page may number anew
  for (const row of /** @type {any} */ (document.querySelectorAll("tr[data-a]"))) {
    const cell = row.cells[0], button = make("button", cell.textContent, "bare");
    button.type = "button"; button.title = "Choose this pair"; cell.replaceChildren(button);
    row.addEventListener("click", () => {
      if (!String(getSelection())) set({ a: app.data.label.indexOf(label[row.dataset.a]), b: app.data.label.indexOf(label[row.dataset.b]) });
    });
  }
};
