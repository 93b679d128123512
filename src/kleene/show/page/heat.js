// Words by words: the darker a cell, the more the two words lean on each other.

class View {
  constructor(page, data) {
    Object.assign(this, { data, sentence: 0, chosen: null });
    this.table = make("table", { class: "heat", role: "grid", "aria-label": "interdependence, words by words" });
    this.scroller = make("div", { class: "scroller", tabindex: 0, role: "group", "aria-label": "interdependence, words by words" }, this.table);
    this.detail = make("aside", { class: "detail" });
    const choice = data.sentences.length > 1
      ? make("select", { "aria-label": "sentence", onchange: (event) => this.open(Number(event.target.value)) },
        data.sentences.map((one, i) => make("option", { value: i }, `${i + 1}. ${one.words.join(" ")}`))) : null;
    page.replaceChildren(
      pageHeader(data.title, data.text, [`by ${data.evaluator}`, choice ? counted(data.sentences.length, "sentence") : counted(data.sentences[0].words.length, "word")]),
      make("div", { class: "filters" }, choice, this.scale()),
      make("section", { class: "run" }, make("div", { class: "board" }, this.scroller), this.detail),
      helpLine([["arrows", "move the chosen pair"], ["Esc", "let go"]]));
    this.table.addEventListener("click", (event) => {
      const cell = event.target.closest("td");
      if (cell) this.choose(Number(cell.dataset.row), Number(cell.dataset.column));
    });
    this.table.addEventListener("mouseover", (event) => {
      const cell = event.target.closest("td");
      if (cell) this.point(Number(cell.dataset.row), Number(cell.dataset.column));
    });
    document.addEventListener("keydown", (event) => this.key(event));
    this.open(0);
  }

  scale() {
    this.most = make("span", {});
    return make("span", { class: "scale" }, "0", make("i", { "aria-hidden": "true" }), this.most);
  }

  get now() { return this.data.sentences[this.sentence]; }

  open(sentence) {
    this.sentence = sentence;
    this.chosen = null;
    const { words, matrix } = this.now, most = Math.max(1e-9, ...matrix.flat());
    this.most.textContent = most.toFixed(3);
    const digits = words.length <= 16;
    this.cells = [];
    this.rows = [];
    this.columns = words.map((word) => make("th", { scope: "col" }, make("span", {}, word)));
    const body = words.map((word, r) => {
      const cells = words.map((_, c) => {
        const value = matrix[r][c], cell = make("td", { id: `h${r}-${c}`, role: "gridcell", "data-row": r, "data-column": c, "aria-label": `${word}, ${words[c]}: ${value.toFixed(3)}` }, r !== c && digits ? value.toFixed(2).replace(/^0/, "") : "");
        cell.style.setProperty("--v", `${(100 * value / most).toFixed(1)}%`);
        cell.classList.toggle("strong", value / most > 0.594); // where black and white text are equally clear, in either scheme
        cell.classList.toggle("stronger", value / most > 0.851);
        cell.classList.toggle("self", r === c);
        return cell;
      });
      this.cells.push(cells);
      this.rows.push(make("th", { scope: "row" }, word));
      return make("tr", {}, this.rows[r], cells);
    });
    this.table.replaceChildren(make("thead", {}, make("tr", {}, make("th", { class: "corner" }), this.columns)), make("tbody", {}, body));
    this.explain();
  }

  point(row, column) {
    for (const head of [...this.rows, ...this.columns]) head.classList.remove("chosen");
    this.rows[row].classList.add("chosen");
    this.columns[column].classList.add("chosen");
  }

  choose(row, column) {
    if (this.chosen) this.cells[this.chosen[0]][this.chosen[1]].classList.remove("chosen");
    this.chosen = [row, column];
    this.cells[row][column].classList.add("chosen");
    this.cells[row][column].scrollIntoView({ block: "nearest", inline: "nearest" });
    this.scroller.setAttribute("aria-activedescendant", `h${row}-${column}`);
    this.point(row, column);
    this.explain();
  }

  key(event) {
    if (isTyping(event) || event.altKey || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") { const at = this.chosen; this.chosen = null; if (at) this.cells[at[0]][at[1]].classList.remove("chosen"); this.explain(); }
    if (!(event.key in steps)) return;
    event.preventDefault();
    const [row, column] = this.chosen ?? [0, 0], [down, right] = this.chosen ? steps[event.key] : [0, 0];
    if (this.cells[row + down]?.[column + right]) this.choose(row + down, column + right);
  }

  explain() {
    const { data } = this, parts = [];
    if (this.chosen) {
      const [row, column] = this.chosen, { words, matrix } = this.now;
      parts.push(make("h2", {}, row === column ? words[row] : `${words[Math.min(row, column)]} … ${words[Math.max(row, column)]}`),
        make("p", { class: "quiet" }, row === column ? "a word with itself" : `words ${Math.min(row, column)} and ${Math.max(row, column)}`),
        make("p", { class: "big", id: "chosen-value" }, matrix[row][column].toFixed(4)),
        make("p", { class: "quiet" }, "How far the two contributions are from adding up: 0 is independent."));
    } else {
      parts.push(make("h2", {}, "Choose a pair"), make("p", { class: "quiet" }, "The darker a cell, the more two words lean on each other."));
    }
    if (data.contributions.length) parts.push(...this.shares());
    this.detail.replaceChildren(...parts);
  }

  shares() {
    const { data } = this, most = Math.max(1e-9, ...data.contributions.map(([, share]) => Math.abs(share)));
    const rows = data.contributions.map(([word, share]) => {
      const bar = make("i", { class: share < 0 ? "less" : "more" });
      bar.style.width = `${(50 * Math.abs(share) / most).toFixed(1)}%`;
      return make("li", {}, make("b", {}, word), make("span", { class: "shares" }, bar), make("code", {}, `${share < 0 ? "−" : "+"}${Math.abs(share).toFixed(3)}`));
    });
    return [make("h3", {}, `what each gave to “${data.target}” (${(100 * data.probability).toFixed(2)} %)`), make("ul", { class: "bars" }, rows),
      make("h3", {}, "likeliest next"), make("p", {}, data.likeliest.map(([word, chance]) => `${word} ${(100 * chance).toFixed(1)} %`).join(" · ")),
      data.unknown.length ? make("p", { class: "quiet" }, `read as <unk>: ${data.unknown.join(", ")}`) : null].filter(Boolean);
  }
}
