// Small tables are sorted by their heads.
import { make } from "./format";

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
  sortable();
  document.addEventListener("pivec-renewed", sortable);
};

const sortable = () => {
  for (const table of document.querySelectorAll("table.sortable:not(:has(thead button))") as any) {
    [...table.tHead.rows[0].cells].forEach((head, column) =>
      asButton(head).addEventListener("click", () => sortTable(head, column, table)),
    );
  }
};
