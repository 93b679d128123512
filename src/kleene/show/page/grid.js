// A table with named rows and columns; only cells whose text changes are touched. Wide tables show a part at a time.

const MOST_COLUMNS = 160;

class Grid {
  /** `rows`: {name, group, kind, note}; `columns`: {top, name}; `widths[c]`: characters; `choose(row, column)`. */
  constructor({ label, corner, rows, columns, widths, choose, chooseRow }) {
    Object.assign(this, { rows, columns, widths, first: 0, chosen: null, listeners: [] });
    this.count = Math.min(columns.length, MOST_COLUMNS);
    this.cells = [];
    this.heads = [];
    this.strip = make("tr", { class: "strip", hidden: true });
    this.head = make("tr", {}, make("th", { class: "corner", scope: "col" }, make("span", {}, corner)));
    this.body = make("tbody");
    const table = make("table", { role: "grid", "aria-label": label },
      make("thead", {}, this.head, this.strip), this.body);
    this.table = table;
    this.scroller = make("div", { class: "scroller", tabindex: 0, role: "group", "aria-label": label }, table);
    this.pages = make("div", { class: "pages" });
    this.element = make("div", { class: "grid" }, this.pages, this.scroller);
    this.build();
    this.body.addEventListener("click", (event) => {
      const cell = event.target.closest("td"), name = event.target.closest("th");
      if (cell && cell.dataset.row) choose(Number(cell.dataset.row), this.first + Number(cell.dataset.column));
      else if (name && name.dataset.row && chooseRow) chooseRow(Number(name.dataset.row));
    });
    this.chooseRow = chooseRow;
  }

  build() {
    let group = null;
    for (let c = 0; c < this.count; c++) {
      const cell = make("th", { scope: "col" }, make("span", { class: "place" }), make("span", { class: "token" }));
      this.heads.push(cell);
      this.head.append(cell);
    }
    this.rowElements = this.rows.map((row, r) => {
      if (row.group !== group) {
        group = row.group;
        this.body.append(make("tr", { class: "group" },
          make("th", { scope: "rowgroup", colspan: this.count + 1 }, make("span", {}, group))));
      }
      const name = row.pick
        ? make("button", { type: "button", "aria-pressed": "false", title: row.note }, row.name)
        : make("span", { title: row.note }, row.name);
      const line = make("tr", { class: row.kind }, make("th", { scope: "row", "data-row": r }, name));
      const texts = [];
      for (let c = 0; c < this.count; c++) {
        const cell = make("td", { id: `c${r}-${c}`, "data-row": r, "data-column": c, role: "gridcell" });
        texts.push(cell);
        line.append(cell);
      }
      this.cells.push(texts);
      this.body.append(line);
      return line;
    });
    const longest = Math.max(...this.rows.map((row) => [...row.name].length + (row.kind.includes("output") ? 2 : 0)), 8);
    this.head.firstChild.style.width = `min(38vw, calc(${longest}ch + 32px))`;
    this.setColumns();
  }

  /** Show the columns from `first` on. */
  setColumns() {
    for (let c = 0; c < this.count; c++) {
      const column = this.columns[this.first + c];
      this.heads[c].hidden = column === undefined;
      this.heads[c].classList.remove("chosen");
      if (column === undefined) continue;
      this.heads[c].firstChild.textContent = column.name;
      this.heads[c].lastChild.textContent = column.top;
      this.heads[c].title = column.title ?? "";
      this.heads[c].style.width = `${this.widths[this.first + c]}ch`;
    }
    for (const texts of this.cells)
      for (let c = 0; c < this.count; c++) texts[c].hidden = this.columns[this.first + c] === undefined;
    this.pages.replaceChildren();
    if (this.columns.length <= MOST_COLUMNS) return;
    const last = Math.min(this.columns.length, this.first + this.count) - 1;
    const move = (to, sign, label) => make("button", {
      type: "button", "aria-label": label, disabled: to < 0 || to >= this.columns.length,
      onclick: () => this.turn(to),
    }, sign);
    this.pages.append(move(this.first - this.count, "◀", "columns before"),
      `${this.columns[this.first].name} … ${this.columns[last].name} of ${this.columns.length.toLocaleString("en")}`,
      move(this.first + this.count, "▶", "columns after"));
  }

  turn(first) {
    this.first = first;
    this.setColumns();
    this.mark(null);
    for (const listen of this.listeners) listen();
  }

  /** Turn to the part that has a column. */
  reveal(column) {
    const first = Math.floor(column / this.count) * this.count;
    if (first !== this.first) this.turn(first);
  }

  cell(row, column) {
    return column >= this.first && column < this.first + this.count ? this.cells[row][column - this.first] : null;
  }

  set(row, column, text, kind) {
    const cell = this.cell(row, column);
    if (cell === null) return;
    if (cell.textContent !== text) cell.textContent = text;
    if (cell.dataset.kind !== kind) cell.dataset.kind = kind;
  }

  /** Mark one cell as chosen, with its row and column. */
  mark(place) {
    if (this.chosen) {
      this.cell(...this.chosen)?.classList.remove("chosen");
      this.rowElements[this.chosen[0]].classList.remove("chosen");
      this.heads[this.chosen[1] - this.first]?.classList.remove("chosen");
    }
    this.chosen = place;
    this.scroller.removeAttribute("aria-activedescendant");
    if (!place) return;
    const cell = this.cell(...place);
    cell?.classList.add("chosen");
    this.rowElements[place[0]].classList.add("chosen");
    this.heads[place[1] - this.first]?.classList.add("chosen");
    if (cell) {
      this.scroller.setAttribute("aria-activedescendant", cell.id);
      this.keepInView(cell);
    }
  }

  /** Scroll sideways, so that a cell is not under the names. */
  keepAcross(cell) {
    const outer = this.scroller.getBoundingClientRect(), box = cell.getBoundingClientRect();
    const left = outer.left + this.head.firstChild.offsetWidth;
    if (box.left < left) this.scroller.scrollLeft -= left - box.left;
    else if (box.right > outer.right) this.scroller.scrollLeft += box.right - outer.right;
  }

  /** Scroll the table alone, so that a cell is not under the names or the head. */
  keepInView(cell) {
    this.keepAcross(cell);
    const outer = this.scroller.getBoundingClientRect(), box = cell.getBoundingClientRect();
    const top = outer.top + this.table.tHead.offsetHeight;
    if (box.top < top) this.scroller.scrollTop -= top - box.top;
    else if (box.bottom > outer.bottom) this.scroller.scrollTop += box.bottom - outer.bottom;
  }
}
