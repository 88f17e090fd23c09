// Small tables: heads sort them, and a row that names a pair chooses it.
import { make } from "./format";
import { app, set } from "./state";

/** `head`: of a small table. */
const sortTable = (head: any, column: number, table: any) => {
  const sign = head.ariaSort === "ascending" ? -1 : 1,
    numeric = head.className === "n",
    body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({
    row,
    key: numeric ? Number(row.cells[column].dataset.v ?? NaN) : row.cells[column].textContent,
  }));
  rows.sort(({ key: a }, { key: b }) =>
    numeric
      ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) || sign * (a - b) || 0
      : sign * a.localeCompare(b, "en", { numeric: true }),
  );
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.ariaSort = sign < 0 ? "descending" : "ascending";
  body.append(...rows.map(({ row }) => row));
};

/** Returns what it holds as a button. */
export const asButton = (cell: any, className?: string): any => {
  const button = make("button", cell.textContent, className);
  button.type = "button";
  cell.replaceChildren(button);
  return button;
};

export const sortingPart = () => {
  for (const table of document.querySelectorAll("table.sortable") as any) {
    [...table.tHead.rows[0].cells].forEach((head, column) =>
      asButton(head).addEventListener("click", () => sortTable(head, column, table)),
    );
  }
  const { label } = app.data; // a served page may number its rows anew
  for (const row of document.querySelectorAll("tr[data-a]") as any) {
    const now = (i: number) => app.data.label.indexOf(label[i]);
    asButton(row.cells[0], "bare").title = "Choose this pair";
    row.addEventListener("click", () => {
      if (!String(getSelection())) set({ a: now(row.dataset.a), b: now(row.dataset.b) });
    });
  }
};
