// The page of a program's run: a grid of positions × (heads, variables) for one layer.

const UNDEFINED = "∅";

class View {
  constructor(page, data) {
    Object.assign(this, { data, size: data.tokens.length, layers: data.changes.length, layer: 0, patterns: [], head: null, chosen: null });
    this.state = Int32Array.from(data.initial);
    this.unpack();
    this.rows = [
      ...data.heads.map((head) => ({ name: head.name, group: "heads, as this layer reads them", kind: "head", note: head.told, pick: true })),
      ...data.variables.map((variable) => ({
        name: variable.name, group: "variables, after this layer", note: variable.kind,
        kind: `variable${variable.name === data.output ? " output" : ""}`,
      })),
    ];
    this.buildGrid();
    this.player = new Player({
      last: this.layers, noun: "layer", density: [0, ...this.changes.map(({ cells }) => cells.length)],
      say: (k) => this.say(k), show: (k) => this.show(k),
    });
    this.detail = make("aside", { class: "detail", "aria-live": "polite", "aria-label": "the chosen cell" });
    this.layout(page);
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("resize", () => this.drawAttention());
    this.drawAll();
    this.player.go(0);
    this.explain();
  }

  /** Each layer's changes as cells, texts after, and texts before, so that one can go back. */
  unpack() {
    const now = Int32Array.from(this.data.initial);
    this.changes = this.data.changes.map(([gaps, values]) => {
      const cells = unpackGaps(gaps), old = cells.map((cell) => now[cell]);
      cells.forEach((cell, i) => { now[cell] = values[i]; });
      return { cells, values, old };
    });
    this.last = now;
  }

  buildGrid() {
    const { data, size } = this;
    const length = data.values.map((text) => [...text].length);
    const widths = data.tokens.map((token, p) => Math.max(String(p).length, [...token].length, 2));
    const widen = (place, value) => { if (value >= 0 && length[value] > widths[place]) widths[place] = length[value]; };
    data.initial.forEach((value, cell) => widen(cell % size, value));
    for (const { cells, values } of this.changes) cells.forEach((cell, i) => widen(cell % size, values[i]));
    for (const layer of data.looks) for (const [values] of Object.values(layer)) data.rows[values].forEach((value, p) => widen(p, value));
    this.grid = new Grid({
      label: "positions by variables", corner: "position", rows: this.rows,
      columns: data.tokens.map((token, p) => ({ name: String(p), top: token, title: `position ${p}, token ${token}` })),
      widths: widths.map((width) => Math.min(14, width)),
      choose: (row, place) => this.choose(row, place), chooseRow: (row) => this.chooseHead(row),
    });
    this.grid.listeners.push(() => this.drawAll());
    this.attention = new Attention(this.grid);
  }

  layout(page) {
    const { data } = this;
    const facts = [`run by the ${data.evaluator}`, counted(this.size, "position"), counted(data.variables.length, "variable"),
      counted(data.heads.length, "head"), counted(this.layers, "layer")];
    const run = make("section", { class: "run" }, make("div", { class: "board" }, this.grid.element, this.outputLine()), this.detail);
    this.tabs = { run };
    this.weights = make("section", { class: "weights", hidden: true });
    const tab = (name, label) => make("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(name === "run"), onclick: () => this.openTab(name),
    }, label);
    const only = make("label", { class: "only" }, make("input", {
      type: "checkbox", onchange: (event) => this.hideStill(event.target.checked),
    }), "only what changes");
    page.replaceChildren(
      pageHeader(data.title, data.text, facts),
      make("nav", { class: "tabs", role: "tablist" }, tab("run", "Run"), tab("weights", "Weights"), only),
      make("div", { class: "bar" }, this.player.element), run, this.weights,
      helpLine([["← →", "step"], ["space", "play"], ["Home End", "first, last"], ["⇧+arrows", "move the chosen cell"],
        ["h", "next head"], ["Esc", "let go"]]));
  }

  outputLine() {
    const { data } = this, row = data.variables.findIndex((variable) => variable.name === data.output);
    const texts = Array.from(this.last.subarray(row * this.size, (row + 1) * this.size), (value) => data.values[value]);
    const what = data.decoder ? "the last position's is the token that a decoder appends" : "the program's output";
    return make("p", { class: "result" }, make("b", {}, data.output), ` after ${counted(this.layers, "layer")}, ${what}: `,
      make("output", { id: "output" }, texts.join(" ")));
  }

  openTab(name) {
    for (const button of document.querySelectorAll("[role=tab]")) button.setAttribute("aria-selected", button.id === `tab-${name}`);
    document.querySelector(".run").hidden = name !== "run";
    document.querySelector(".bar").hidden = name !== "run";
    document.querySelector(".only").hidden = name !== "run";
    this.weights.hidden = name !== "weights";
    if (name === "weights" && !this.weights.hasChildNodes()) new Weights(this.weights, this.data);
    if (name === "run") this.drawAttention();
  }

  say(layer) {
    const { cycle } = this.data;
    if (layer === 0) return `start · ${counted(this.layers, "layer")}`;
    return `layer ${layer} of ${this.layers}${cycle.length ? ` · ${cycle[(layer - 1) % cycle.length]}` : ""}`;
  }

  // --- drawing ---

  variableRow(index) { return this.data.heads.length + index; }

  kind(text) { return text === "0" || text === "·" ? "zero" : "value"; }

  drawCell(cell) {
    const text = this.data.values[this.state[cell]];
    const row = Math.floor(cell / this.size);
    this.grid.set(this.variableRow(row), cell % this.size, text, this.kind(text));
  }

  drawAll() {
    const columns = Math.min(this.size, this.grid.first + this.grid.count);
    for (let v = 0; v < this.data.variables.length; v++)
      for (let p = this.grid.first; p < columns; p++) this.drawCell(v * this.size + p);
    this.shownRows = {};
    this.markChanges();
    this.drawHeads();
    this.drawAttention();
  }

  /** Go to a layer: apply the changes between, touch the cells that they name. */
  show(layer) {
    const touched = new Set();
    const put = ({ cells }, values) => cells.forEach((cell, i) => { this.state[cell] = values[i]; touched.add(cell); });
    while (this.layer < layer) { const change = this.changes[this.layer++]; put(change, change.values); }
    while (this.layer > layer) { const change = this.changes[--this.layer]; put(change, change.old); }
    for (const cell of touched) this.drawCell(cell);
    this.markChanges();
    this.drawHeads();
    this.drawAttention();
    if (this.chosen) this.explain();
  }

  markChanges() {
    const marked = new Set();
    for (const cell of this.layer ? this.changes[this.layer - 1].cells : []) {
      const element = this.grid.cell(this.variableRow(Math.floor(cell / this.size)), cell % this.size);
      if (element) marked.add(element);
    }
    for (const element of this.marked ?? []) if (!marked.has(element)) element.classList.remove("changed");
    for (const element of marked) if (!this.marked?.has(element)) element.classList.add("changed");
    this.marked = marked;
  }

  looks(head) { return this.layer ? this.data.looks[this.layer - 1][this.data.heads[head].name] : undefined; }

  drawHeads() {
    const columns = Math.min(this.size, this.grid.first + this.grid.count);
    this.data.heads.forEach((_, h) => {
      const shown = this.looks(h)?.[0] ?? -1;
      if (this.shownRows[h] === shown) return;
      this.shownRows[h] = shown;
      const values = shown < 0 ? null : this.data.rows[shown];
      this.grid.rowElements[h].classList.toggle("idle", !values);
      for (let p = this.grid.first; p < columns; p++) {
        const value = values ? values[p] : null;
        this.grid.set(h, p, value === null ? "" : value < 0 ? UNDEFINED : this.data.values[value], value === null ? "idle" : value < 0 ? "undefined" : this.kind(this.data.values[value]));
      }
    });
  }

  drawAttention() {
    const found = this.head === null ? undefined : this.looks(this.head);
    if (this.head === null) return this.attention.hide();
    const place = this.chosen ? this.chosen[1] : null;
    this.attention.draw(this.data.heads[this.head].name, found ? this.data.rows[found[1]] : [], place);
  }

  hideStill(only) {
    const moving = new Set();
    for (const { cells } of this.changes) for (const cell of cells) moving.add(Math.floor(cell / this.size));
    this.data.variables.forEach((_, v) => { this.grid.rowElements[this.variableRow(v)].hidden = only && !moving.has(v); });
  }

  // --- choosing ---

  choose(row, place) {
    this.grid.reveal(place);
    this.chosen = [row, place];
    this.grid.mark(this.chosen);
    if (row < this.data.heads.length && this.head !== row) this.pickHead(row);
    else this.drawAttention();
    this.explain();
  }

  chooseHead(row) {
    if (row < this.data.heads.length) this.pickHead(this.head === row ? null : row);
  }

  pickHead(head) {
    this.head = head;
    this.data.heads.forEach((_, h) => {
      this.grid.rowElements[h].classList.toggle("picked", h === head);
      this.grid.rowElements[h].querySelector("button").setAttribute("aria-pressed", h === head);
    });
    this.drawAttention();
    if (!this.chosen) this.explain();
  }

  letGo() {
    this.chosen = null;
    this.grid.mark(null);
    this.pickHead(null);
    this.explain();
  }

  key(event) {
    if (isTyping(event) || event.altKey || event.ctrlKey || event.metaKey || this.weights.hidden === false) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") this.letGo();
    else if (event.key === "h" && this.data.heads.length) this.pickHead(((this.head ?? -1) + 1) % this.data.heads.length);
    else if (event.shiftKey && event.key in steps) {
      event.preventDefault();
      const [row, place] = this.chosen ?? [this.data.heads.length, -1], [down, right] = steps[event.key];
      let to = row;
      do { to += down; } while (down && this.grid.rowElements[to]?.hidden);
      const column = place < 0 ? 0 : place + right;
      if (to >= 0 && to < this.rows.length && column >= 0 && column < this.size) this.choose(place < 0 ? row : to, column);
    }
  }

  // --- explaining ---

  explain() {
    if (!this.chosen) return this.detail.replaceChildren(...this.invite());
    const [row, place] = this.chosen;
    const parts = row < this.data.heads.length ? this.explainHead(row, place) : this.explainVariable(row - this.data.heads.length, place);
    this.detail.replaceChildren(...parts);
  }

  invite() {
    if (this.head !== null) return [make("h2", {}, this.data.heads[this.head].name), make("code", { class: "line" }, this.data.heads[this.head].told),
      make("p", { class: "quiet" }, "Lines go from a position that looks, below, up to one that it selects. Choose a position to see its own.")];
    return [make("h2", {}, "Choose a cell"), make("p", { class: "quiet" }, "to see what wrote it, and the line of the program that it came from. Choose a head by its name to draw its attention.")];
  }

  place(place) {
    return make("p", { class: "quiet" }, `position ${place}, token ${this.data.tokens[place]} · ${this.layer ? `layer ${this.layer}` : "before the first layer"}`);
  }

  explainHead(head, place) {
    const { name, told, into } = this.data.heads[head], found = this.looks(head);
    const parts = [make("h2", {}, name), this.place(place), make("code", { class: "line" }, told)];
    if (!found) return [...parts, make("p", {}, this.layer ? "This layer of the cycle does not have this head." : "Heads look from layer 1 on.")];
    const value = this.data.rows[found[0]][place], runs = this.data.rows[found[1]][place];
    const told_runs = [];
    let count = 0;
    for (let r = 0; r < runs.length; r += 2) {
      count += runs[r + 1] - runs[r] + 1;
      told_runs.push(runs[r] === runs[r + 1] ? `${runs[r]}` : `${runs[r]} … ${runs[r + 1]}`);
    }
    const shown = value < 0 ? `${UNDEFINED} (undefined)` : this.data.values[value];
    return [...parts,
      make("dl", {}, make("dt", {}, "selects"), make("dd", {}, count ? `position${count > 1 ? "s" : ""} ${told_runs.join(", ")}` : "nothing"),
        make("dt", {}, "gives"), make("dd", { class: "big" }, shown),
        into ? [make("dt", {}, "writes into"), make("dd", {}, into)] : [])];
  }

  explainVariable(variable, place) {
    const { name, kind, begins, halt } = this.data.variables[variable], cell = variable * this.size + place;
    const now = this.data.values[this.state[cell]], old = this.valueBefore(cell);
    const parts = [make("h2", {}, name), this.place(place),
      make("p", { class: "big" }, this.layer && old !== now ? [make("s", {}, old), " → ", make("b", {}, now)] : now)];
    const writer = this.layer ? this.writerAt(this.layer, cell) : null;
    if (writer) parts.push(...this.explainWriter(writer, place));
    else parts.push(...this.explainUnwritten(cell, begins));
    return [...parts, make("p", { class: "quiet foot" }, kind, halt === null ? "" : ` · halts at ${halt}`)];
  }

  valueBefore(cell) {
    const change = this.layer ? this.changes[this.layer - 1] : null, at = change ? change.cells.indexOf(cell) : -1;
    return this.data.values[at < 0 ? this.state[cell] : change.old[at]];
  }

  writerAt(layer, cell) {
    const pattern = this.data.writes[layer - 1];
    this.patterns[pattern] ??= unpackGaps(this.data.patterns[pattern][0]);
    const at = this.patterns[pattern].indexOf(cell);
    return at < 0 ? null : this.data.writers[this.data.patterns[pattern][1][at]];
  }

  explainUnwritten(cell, begins) {
    const how = { token: "from the token", position: "from the position", default: "as its default" }[begins];
    if (!this.layer) return [make("p", {}, `It begins ${how}.`)];
    let layer = this.layer - 1;
    while (layer > 0 && !this.writerAt(layer, cell)) layer--;
    const go = make("button", { type: "button", class: "link", onclick: () => this.player.go(layer) }, layer ? `layer ${layer}` : "the start");
    return [make("p", {}, "Not written in this layer. ", layer ? "Last written in " : `Still as it began, ${how}: `, go, ".")];
  }

  explainWriter(writer, place) {
    if (writer.how === "head") return [make("p", {}, "Written by the head ", make("b", {}, writer.head), ", before the step."), ...this.explainHead(this.data.heads.findIndex((head) => head.name === writer.head), place).slice(2)];
    if (writer.how === "same") return [make("p", {}, "Written with the value that it had: no update is needed."), ...this.source(writer)];
    const reads = writer.reads.map((name) => [make("dt", {}, name), make("dd", {}, this.readBefore(name, place))]);
    return [
      make("h3", {}, writer.how === "rule" ? "Rule" : "Guarded update"),
      make("code", { class: "line update" }, writer.text), make("code", { class: "line guard" }, writer.guard),
      ...this.source(writer),
      reads.length ? make("h3", {}, "What it read here") : null, reads.length ? make("dl", {}, reads.flat()) : null,
    ].filter(Boolean);
  }

  /** A value as `step` began with it in this layer: a head's, one that a head had just written, or the one before. */
  readBefore(name, place) {
    const text = (value) => value < 0 ? UNDEFINED : this.data.values[value];
    const head = this.data.heads.findIndex((one) => one.name === name);
    if (head >= 0) return this.looks(head) ? text(this.data.rows[this.looks(head)[0]][place]) : UNDEFINED;
    const cell = this.data.variables.findIndex((one) => one.name === name) * this.size + place;
    const moved = this.data.moved[this.layer - 1]?.find(([at]) => at === cell);
    return moved ? this.data.values[moved[1]] : this.valueBefore(cell);
  }

  source(writer) {
    const source = this.data.sources[writer.part ?? 0];
    if (writer.line === null || writer.line === undefined) return [make("p", { class: "quiet" }, source.why ?? "No line is known.")];
    const title = make("h3", {}, `${source.file ?? "step"}, line ${writer.line}`);
    if (source.why) return [title, make("p", { class: "quiet" }, source.why)];
    const near = Object.keys(source.lines).map(Number).filter((n) => Math.abs(n - writer.line) <= 3);
    const texts = near.map((n) => source.lines[n]);
    const indent = Math.min(...texts.filter((text) => text.trim()).map((text) => text.length - text.trimStart().length));
    return [title, make("pre", { class: "source", tabindex: 0, "aria-label": "source" }, near.map((n, i) =>
      make("span", { class: n === writer.line ? "here" : null }, make("i", {}, String(n)), texts[i].slice(indent), "\n")))];
  }
}
