// The page of a program's run: a grid of positions × (heads, variables) for one layer. The network is in the page: it
// runs on what the reader types, with heads and units switched off at will.

const UNDEFINED = "∅";
const LONGEST_RUN = 2_000; // layers of a run with parts switched off

class View {
  constructor(page, data) {
    Object.assign(this, { data, layer: 0, head: null, chosen: null, off: new Set() });
    this.recorded = recordedRun(data);
    this.can = data.weights && data.kinds && !data.weights.cut.length ? new Network(data.weights) : null;
    this.alphabet = new Alphabet(data.alphabet ?? null, data.token_names ?? [], data.weights?.net.tokens ?? 0);
    this.rows = [
      ...data.heads.map((head) => ({ name: head.name, group: "heads, as this layer reads them", kind: "head", note: head.told, pick: true })),
      ...data.variables.map((variable) => ({
        name: variable.name, group: "variables, after this layer", note: variable.kind,
        kind: `variable${variable.name === data.output ? " output" : ""}`,
      })),
    ];
    this.layout(page);
    this.load(this.recorded);
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("resize", () => { this.drawAttention(); this.wiring?.draw(); });
    this.compare();
  }

  // --- the page around a run ---

  layout(page) {
    const { data } = this;
    this.facts = make("p", { class: "facts" });
    this.badge = make("p", { class: "badge", role: "status" });
    this.board = make("div", { class: "board" });
    this.bar = make("div", { class: "bar" });
    this.detail = make("aside", { class: "detail", "aria-live": "polite", "aria-label": "the chosen cell" });
    this.sourceBox = make("section", { class: "program-text", "aria-label": "source of the program" });
    this.broken = make("section", { class: "broken", "aria-live": "polite", "aria-label": "parts switched off", hidden: true });
    const side = make("div", { class: "side" }, this.detail, this.sourceBox);
    this.panels = {
      run: make("section", { class: "run", id: "panel-run", role: "tabpanel", "aria-labelledby": "tab-run" }, this.board, side),
      wiring: make("section", { class: "wiring", id: "panel-wiring", role: "tabpanel", "aria-labelledby": "tab-wiring", hidden: true }),
      weights: make("section", { class: "weights", id: "panel-weights", role: "tabpanel", "aria-labelledby": "tab-weights", hidden: true }),
    };
    this.only = make("label", { class: "only" }, make("input", {
      type: "checkbox", onchange: (event) => this.hideStill(event.target.checked),
    }), "only what changes");
    const tabs = [["run", "Run"], this.can ? ["wiring", "Wiring"] : null, ["weights", "Weights"]].filter(Boolean).map(([name, label]) => make("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, "aria-selected": String(name === "run"), onclick: () => this.openTab(name),
    }, label));
    page.replaceChildren(
      make("header", { class: "top" },
        make("div", { class: "name" }, make("h1", {}, data.title), data.about ? make("p", { class: "about" }, withCode(data.about)) : null),
        this.badge, this.facts),
      this.form(), this.broken,
      make("div", { class: "tabs" }, make("div", { role: "tablist", "aria-label": "views" }, tabs), this.only),
      this.bar, ...Object.values(this.panels),
      helpLine([["← →", "step"], ["space", "play"], ["Home End", "first, last"], ["⇧+arrows", "move the chosen cell"],
        ["h", "next head"], ["Esc", "let go"]]));
  }

  /** Where the reader types another input. */
  form() {
    const { data } = this;
    this.answer = make("output", { class: "answer", id: "answer" });
    this.problem = make("p", { class: "problem", role: "alert" });
    this.output = make("p", { class: "result" });
    if (!this.can) return make("div", { class: "try" }, data.text ? make("p", { class: "input" }, data.text) : null, this.answer, this.output);
    this.field = make("input", {
      type: "text", id: "typed", value: this.alphabet.written(data.ids), autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    });
    this.again = make("button", { type: "button", class: "link", hidden: true, onclick: () => this.restore() }, "recorded input");
    this.append = make("button", { type: "button", id: "append", hidden: !data.decoder, onclick: () => this.appendToken() }, "append its token");
    const act = (event) => { event.preventDefault(); this.type(this.field.value); };
    return make("form", { class: "try", onsubmit: act },
      make("label", { for: "typed" }, "Input"), this.field, make("button", { type: "submit", class: "go" }, "Run the network"),
      this.answer, this.append, this.again, this.problem, this.output);
  }

  restore() {
    this.field.value = this.alphabet.written(this.data.ids);
    this.type(this.field.value);
  }

  appendToken() {
    const last = this.run.outputs?.at(-1) ?? this.data.kinds[this.data.output].texts.indexOf(this.run.outputTexts.at(-1)), ids = [...this.run.ids, last];
    this.field.value = this.alphabet.exactly(ids);
    return this.start(ids);
  }

  /** Run what was typed on the network in the page. */
  async type(typed) {
    try {
      const ids = this.alphabet.encode(typed), { longest } = this.data.weights.net;
      if (!ids.length) throw new Error(`Type an input${this.alphabet.text?.example ? `, such as ${this.alphabet.text.example}` : ""}.`);
      if (longest !== null && ids.length > longest) throw new Error(`The input has ${ids.length} tokens; this network takes at most ${longest}.`);
      this.problem.textContent = "";
      await this.start(ids);
    } catch (error) {
      this.problem.textContent = error.message;
    }
  }

  async start(ids) {
    const turn = this.turn = (this.turn ?? 0) + 1;
    document.documentElement.dataset.busy = "1";
    const intact = await liveRun(this.data, this.can, this.alphabet, ids);
    const run = this.off.size ? await liveRun(this.data, this.can, this.alphabet, ids, { off: this.off, most: Math.min(LONGEST_RUN, 2 * intact.changes.length + 10) }) : intact;
    delete document.documentElement.dataset.busy;
    if (turn !== this.turn) return; // something else was asked meanwhile
    this.intact = intact;
    this.load(run);
  }

  /** Whether the network in the page does on the recorded input what was recorded. */
  async compare() {
    if (!this.can) {
      this.badge.textContent = this.data.weights ? "This network is too large to run in a page, or has words of more than 53 bits." : `Not live: weights are ${this.data.without_weights}.`;
      return;
    }
    const run = await liveRun(this.data, this.can, this.alphabet, this.data.ids, { most: this.recorded.changes.length + 1 });
    this.intact ??= run;
    const difference = firstDifference(this.data, this.recorded, run);
    this.badge.classList.toggle("agrees", difference === null);
    this.badge.classList.toggle("differs", difference !== null);
    this.badge.textContent = difference === null
      ? `This page's network and the ${this.data.evaluator.split(" (")[0]} agree: ${counted(this.recorded.changes.length, "layer")}, every value, every head.`
      : `This page's network differs from the ${this.data.evaluator.split(" (")[0]}: ${difference}.`;
    document.documentElement.dataset.compared = difference === null ? "agree" : "differ";
  }

  /** Show a run: rebuild the grid and the player. */
  load(run) {
    const keep = this.grid ? { layer: this.layer, head: this.head } : null;
    this.stop?.abort();
    this.stop = new AbortController();
    Object.assign(this, { run, size: run.tokens.length, layers: run.changes.length, layer: 0, changes: run.changes, last: run.last, marked: null });
    if (this.chosen && this.chosen[1] >= this.size) this.chosen = null;
    this.state = Int32Array.from(run.initial);
    this.buildGrid();
    this.player = new Player({
      last: this.layers, noun: "layer", density: [0, ...this.changes.map(({ cells }) => cells.length)],
      say: (k) => this.say(k), show: (k) => this.show(k), signal: this.stop.signal,
    });
    this.bar.replaceChildren(this.player.element);
    this.board.replaceChildren(this.grid.element);
    this.tell();
    this.drawAll();
    this.hideStill(this.only.querySelector("input").checked);
    const head = keep ? keep.head : this.firstHead();
    this.head = null;
    if (head !== null && head >= 0) this.pickHead(head);
    this.player.go(keep ? Math.min(keep.layer, this.layers) : Math.min(1, this.layers));
    this.grid.mark(this.chosen);
    this.explain();
  }

  /** The first head that selects something in the first layer. */
  firstHead() {
    const look = this.run.looks[0] ?? {};
    const found = this.data.heads.findIndex(({ name }) => look[name] && this.run.rows[look[name][1]].some((runs) => runs.length));
    return found < 0 ? null : found;
  }

  /** The facts, the answer, and what is broken. */
  tell() {
    const { data, run } = this;
    const by = run.live ? this.off.size ? "this page's network, with parts switched off" : "this page's network" : data.evaluator;
    const facts = [`run by the ${by}`.replace("the this", "this"), counted(this.size, "position"), counted(data.variables.length, "variable"),
      counted(data.heads.length, "head"), run.halted ? counted(this.layers, "layer") : `did not halt within ${counted(this.layers, "layer")}`];
    this.facts.replaceChildren(...facts.map((fact) => make("span", {}, fact)));
    const what = data.decoder ? "the last position's is the token that a decoder appends" : "the program's output";
    this.output.replaceChildren(make("b", {}, data.output), ` after ${counted(this.layers, "layer")}, ${what}: `,
      make("output", { id: "output" }, run.outputTexts.join(" ")));
    const said = data.decoder ? this.nextToken() : run.answer;
    this.answer.textContent = !run.halted ? "→ no answer" : said === null || said === undefined ? "" : `→ ${said}`;
    if (this.again) this.again.hidden = !run.live || String(run.ids) === String(data.ids);
    if (this.append) this.append.disabled = run.outputs?.at(-1) === data.weights.net.stop;
    const [wrong] = run.undefinedReads;
    if (this.problem) this.problem.textContent = !wrong ? "" : this.off.size ? "" :
      `The program is not defined on this input: in layer ${wrong[0]}, position ${wrong[1]} reads ${wrong[2]}, which selects ${wrong[3] ? counted(wrong[3], "position") : "nothing"}. The interpreter stops there.`;
    this.tellBroken();
  }

  /** The token that a decoder appends, by name. */
  nextToken() {
    const token = this.run.outputs?.at(-1) ?? this.data.kinds?.[this.data.output].texts?.indexOf(this.run.outputTexts.at(-1)) ?? -1;
    return this.data.token_names?.[token] ?? this.run.outputTexts.at(-1);
  }

  openTab(name) {
    for (const button of document.querySelectorAll("[role=tab]")) button.setAttribute("aria-selected", button.id === `tab-${name}`);
    for (const [key, panel] of Object.entries(this.panels)) panel.hidden = key !== name;
    this.bar.hidden = name === "weights";
    this.only.hidden = name !== "run";
    if (name === "weights" && !this.panels.weights.hasChildNodes()) new Weights(this.panels.weights, this.data);
    if (name === "wiring") {
      this.wiring ??= new Wiring(this.panels.wiring, this);
      this.wiring.draw();
    }
    if (name === "run") this.drawAttention();
  }

  say(layer) {
    const { cycle } = this.data;
    if (layer === 0) return `start · ${counted(this.layers, "layer")}`;
    return `layer ${layer} of ${this.layers}${cycle.length ? ` · ${cycle[(layer - 1) % cycle.length]}` : ""}`;
  }

  // --- switching parts off ---

  /** Switch a part off or on, and run again: "head BLOCK HEAD" or "unit BLOCK HALF UNIT". */
  toggle(part) {
    if (this.off.has(part)) this.off.delete(part); else this.off.add(part);
    return this.start(this.run.ids);
  }

  partName(part) {
    const [kind, block, first, second] = part.split(" "), { net } = this.data.weights;
    const where = net.blocks.length > 1 ? `${this.data.cycle[block] ?? `layer ${Number(block) + 1}`}: ` : "";
    return where + (kind === "head" ? `head ${net.blocks[block].heads[first]}` : `unit ${Number(first) + 1}.${second}`);
  }

  tellBroken() {
    this.broken.hidden = !this.off.size;
    this.wrong = new Map(); // layer → cells that differ from the intact run
    if (!this.off.size) return this.broken.replaceChildren();
    const said = this.damage();
    this.broken.replaceChildren(make("b", {}, "Switched off: "),
      ...[...this.off].map((part) => make("button", { type: "button", "aria-label": `switch ${this.partName(part)} on again`, onclick: () => this.toggle(part) }, `${this.partName(part)} ✕`)),
      make("button", { type: "button", class: "link", onclick: () => { this.off.clear(); this.start(this.run.ids); } }, "switch everything on"),
      make("p", { id: "damage" }, said));
  }

  /** What the missing parts change, in words; fills `wrong`. */
  damage() {
    const { intact, run, size } = this, a = Int32Array.from(intact.initial), b = Int32Array.from(run.initial);
    let first = null;
    const put = (change, into) => change?.cells.forEach((cell, i) => { into[cell] = change.values[i]; });
    for (let layer = 1; layer <= run.changes.length; layer++) {
      put(intact.changes[layer - 1], a);
      put(run.changes[layer - 1], b);
      const cells = new Set();
      for (let cell = 0; cell < a.length; cell++) if (intact.values[a[cell]] !== run.values[b[cell]]) cells.add(cell);
      if (cells.size) this.wrong.set(layer, cells);
      if (cells.size && first === null) first = [layer, Math.min(...cells)];
    }
    const outputs = run.outputTexts.filter((text, p) => text !== intact.outputTexts[p]).length;
    const ends = run.halted ? "" : ` It does not halt within ${counted(run.changes.length, "layer")}; intact it takes ${intact.changes.length}.`;
    if (first === null && !ends) return "Nothing changes on this input: every value is as before.";
    const where = first === null ? "" : ` The first difference: layer ${first[0]}, ${this.data.variables[Math.floor(first[1] / size)].name} at position ${first[1] % size}.`;
    const answers = run.answer !== intact.answer && run.answer !== null && run.halted ? ` The answer is ${run.answer} instead of ${intact.answer}.` : "";
    return `${outputs ? `${outputs} of ${size} outputs change.` : "The outputs stay the same."}${answers}${where}${ends}`;
  }

  switchButton(part, name) {
    if (!this.can) return null;
    const off = this.off.has(part);
    return make("button", { type: "button", class: "switch", "aria-pressed": String(off), "data-part": part, onclick: () => this.toggle(part) },
      `Switch ${name} ${off ? "on" : "off"}`);
  }

  // --- drawing ---

  buildGrid() {
    const { data, size, run } = this;
    const length = run.values.map((text) => [...text].length);
    const widths = run.tokens.map((token, p) => Math.max(String(p).length, [...token].length, 2));
    const widen = (place, value) => { if (value >= 0 && length[value] > widths[place]) widths[place] = length[value]; };
    run.initial.forEach((value, cell) => widen(cell % size, value));
    for (const { cells, values } of this.changes) cells.forEach((cell, i) => widen(cell % size, values[i]));
    for (const layer of run.looks) for (const [values] of Object.values(layer)) run.rows[values].forEach((value, p) => widen(p, value));
    this.grid = new Grid({
      label: "positions by variables", corner: "position", rows: this.rows,
      columns: run.tokens.map((token, p) => ({ name: String(p), top: token, title: `position ${p}, token ${token}` })),
      widths: widths.map((width) => Math.min(14, width)),
      choose: (row, place) => this.choose(row, place), chooseRow: (row) => this.chooseHead(row),
    });
    this.grid.listeners.push(() => this.drawAll());
    this.attention = new Attention(this.grid);
  }

  variableRow(index) { return this.data.heads.length + index; }

  kind(text) { return text === "0" || text === "·" ? "zero" : text === BROKEN ? "broken" : "value"; }

  drawCell(cell) {
    const text = this.run.values[this.state[cell]];
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
    this.drawSource();
    if (this.chosen) this.explain();
    if (!this.panels.wiring.hidden) this.wiring?.draw();
  }

  markChanges() {
    const element = (cell) => this.grid.cell(this.variableRow(Math.floor(cell / this.size)), cell % this.size);
    const marked = new Set(), wrong = this.wrong?.get(this.layer) ?? new Set();
    for (const cell of this.layer ? this.changes[this.layer - 1].cells : []) if (element(cell)) marked.add(element(cell));
    for (const one of this.marked ?? []) if (!marked.has(one)) one.classList.remove("changed");
    for (const one of marked) if (!this.marked?.has(one)) one.classList.add("changed");
    this.marked = marked;
    for (const one of this.board.querySelectorAll("td.wrong")) one.classList.remove("wrong");
    for (const cell of wrong) element(cell)?.classList.add("wrong");
  }

  looks(head) { return this.layer ? this.run.looks[this.layer - 1][this.data.heads[head].name] : undefined; }

  drawHeads() {
    const columns = Math.min(this.size, this.grid.first + this.grid.count);
    this.data.heads.forEach((_, h) => {
      const shown = this.looks(h)?.[0] ?? -1;
      if (this.shownRows[h] === shown) return;
      this.shownRows[h] = shown;
      const values = shown < 0 ? null : this.run.rows[shown];
      this.grid.rowElements[h].classList.toggle("idle", !values);
      for (let p = this.grid.first; p < columns; p++) {
        const value = values ? values[p] : null, text = value === null ? "" : value < 0 ? UNDEFINED : this.run.values[value];
        this.grid.set(h, p, text, value === null ? "idle" : value < 0 ? "undefined" : this.kind(text));
      }
    });
  }

  drawAttention() {
    const found = this.head === null ? undefined : this.looks(this.head);
    if (this.head === null) return this.attention.hide();
    const place = this.chosen ? this.chosen[1] : null;
    this.attention.draw(this.data.heads[this.head].name, found ? this.run.rows[found[1]] : [], place);
  }

  hideStill(only) {
    const moving = new Set();
    for (const { cells } of this.changes) for (const cell of cells) moving.add(Math.floor(cell / this.size));
    this.data.variables.forEach((_, v) => { this.grid.rowElements[this.variableRow(v)].hidden = only && !moving.has(v); });
  }

  /** The source of the layer's step, with the lines lit that wrote something in this layer. */
  drawSource() {
    const part = (this.layer ? this.layer - 1 : 0) % this.data.sources.length, source = this.data.sources[part];
    const numbers = Object.keys(source?.lines ?? {}).map(Number);
    this.sourceBox.hidden = !numbers.length;
    if (!numbers.length) return;
    if (this.sourcePart !== part) {
      this.sourcePart = part;
      const texts = numbers.map((n) => source.lines[n]), filled = texts.filter((text) => text.trim());
      const indent = Math.min(...filled.map((text) => text.length - text.trimStart().length));
      this.sourceLines = new Map(numbers.map((n, i) => [n, make("span", { class: i && numbers[i - 1] !== n - 1 ? "gap" : null, "data-line": n }, make("i", {}, String(n)), texts[i].slice(indent), "\n")]));
      numbers.forEach((n, i) => this.sourceLines.get(n).style.setProperty("--indent", Math.max(0, texts[i].length - texts[i].trimStart().length - indent)));
      this.sourceBox.replaceChildren(make("h2", {}, source.file), make("pre", { class: "source", tabindex: 0, "aria-label": "source of the step" }, [...this.sourceLines.values()]));
    }
    const lit = new Set(this.layer ? this.run.lines(this.layer).map(({ line }) => line) : []);
    const writer = this.layer && this.chosen && this.chosen[0] >= this.data.heads.length
      ? this.run.writerAt(this.layer, (this.chosen[0] - this.data.heads.length) * this.size + this.chosen[1]) : null;
    for (const [n, element] of this.sourceLines) {
      element.classList.toggle("lit", lit.has(n));
      element.classList.toggle("here", writer?.line === n);
    }
  }

  // --- choosing ---

  choose(row, place) {
    this.grid.reveal(place);
    this.chosen = [row, place];
    this.grid.mark(this.chosen);
    if (row < this.data.heads.length && this.head !== row) this.pickHead(row);
    else this.drawAttention();
    this.explain();
    this.drawSource();
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
    this.drawSource();
  }

  key(event) {
    if (isTyping(event) || event.altKey || event.ctrlKey || event.metaKey || this.panels.run.hidden) return;
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
    this.detail.classList.toggle("sheet", Boolean(this.chosen)); // on a phone it comes up from below
    if (!this.chosen) return this.detail.replaceChildren(...this.invite());
    const [row, place] = this.chosen;
    const parts = row < this.data.heads.length ? this.explainHead(row, place) : this.explainVariable(row - this.data.heads.length, place);
    this.detail.replaceChildren(make("button", { type: "button", class: "close", "aria-label": "close", onclick: () => this.letGo() }, "✕"), ...parts);
  }

  invite() {
    if (this.head !== null) return [make("h2", {}, this.data.heads[this.head].name), make("code", { class: "line" }, this.data.heads[this.head].told),
      make("p", { class: "quiet" }, "Lines go from a position that looks, below, up to one that it selects. Choose a position to see its own."), ...this.headSwitches(this.head)];
    return [make("h2", {}, "Choose a cell"), make("p", { class: "quiet" }, "to see what wrote it, and the line of the program that it came from. Choose a head by its name to draw its attention.")];
  }

  place(place) {
    return make("p", { class: "quiet" }, `position ${place}, token ${this.run.tokens[place]} · ${this.layer ? `layer ${this.layer}` : "before the first layer"}`);
  }

  /** The heads of the network that compute a head of the program: one for each block that has it. */
  headSwitches(head) {
    if (!this.can) return [];
    const { name } = this.data.heads[head], found = [];
    this.data.weights.net.blocks.forEach((block, b) => {
      const h = block.moves.find(([move]) => move === name)?.[1] ?? block.heads.indexOf(name);
      if (h >= 0) found.push(`head ${b} ${h}`);
    });
    return found.map((part) => this.switchButton(part, this.partName(part)));
  }

  explainHead(head, place) {
    const { name, told, into } = this.data.heads[head], found = this.looks(head);
    const parts = [make("h2", {}, name), this.place(place), make("code", { class: "line" }, told)];
    if (!found) return [...parts, make("p", {}, this.layer ? "This layer of the cycle does not have this head." : "Heads look from layer 1 on.")];
    const value = this.run.rows[found[0]][place], runs = this.run.rows[found[1]][place];
    const told_runs = [];
    let count = 0;
    for (let r = 0; r < runs.length; r += 2) {
      count += runs[r + 1] - runs[r] + 1;
      told_runs.push(runs[r] === runs[r + 1] ? `${runs[r]}` : `${runs[r]} … ${runs[r + 1]}`);
    }
    const shown = value < 0 ? `${UNDEFINED} (undefined)` : this.run.values[value];
    return [...parts,
      make("dl", {}, make("dt", {}, "selects"), make("dd", {}, count ? `position${count > 1 ? "s" : ""} ${told_runs.join(", ")}` : "nothing"),
        make("dt", {}, "gives"), make("dd", { class: "big" }, shown),
        into ? [make("dt", {}, "writes into"), make("dd", {}, into)] : []), ...this.headSwitches(head)];
  }

  explainVariable(variable, place) {
    const { name, kind, begins, halt } = this.data.variables[variable], cell = variable * this.size + place;
    const now = this.run.values[this.state[cell]], old = this.valueBefore(cell);
    const parts = [make("h2", {}, name), this.place(place),
      make("p", { class: "big" }, this.layer && old !== now ? [make("s", {}, old), " → ", make("b", {}, now)] : now)];
    if (now === BROKEN) parts.push(make("p", {}, "The residual stream holds no value of this variable here."));
    const writer = this.layer ? this.run.writerAt(this.layer, cell) : null;
    if (writer) parts.push(...this.explainWriter(writer, place));
    else parts.push(...this.explainUnwritten(cell, begins));
    return [...parts, ...this.explainUnits(name, place), make("p", { class: "quiet foot" }, kind, halt === null ? "" : ` · halts at ${halt}`)];
  }

  valueBefore(cell) {
    const change = this.layer ? this.changes[this.layer - 1] : null, at = change ? change.cells.indexOf(cell) : -1;
    return this.run.values[at < 0 ? this.state[cell] : change.old[at]];
  }

  explainUnwritten(cell, begins) {
    const how = { token: "from the token", position: "from the position", default: "as its default" }[begins];
    if (!this.layer) return [make("p", {}, `It begins ${how}.`)];
    if (this.changes[this.layer - 1].cells.includes(cell)) return [make("p", {}, "Written in this layer. The page does not know by which update.")];
    let layer = this.layer - 1;
    while (layer > 0 && !this.run.writerAt(layer, cell)) layer--;
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

  /** The units that fired here and write this variable, each with a switch. They come from the network in the page. */
  explainUnits(name, place) {
    const run = this.run.live ? this.run : String(this.intact?.ids) === String(this.run.ids) ? this.intact : null;
    if (!run || !this.layer || this.layer > run.changes.length) return [];
    const { net, matrices } = this.data.weights, b = (this.layer - 1) % net.blocks.length, [start, size] = net.segments[name];
    const found = run.units(this.layer, place).flatMap((units, half) => {
      const writes = matrices.find(({ at }) => String(at) === String([b, "units", half, "writes"]));
      if (!writes) return [];
      const here = new Set();
      for (let i = 0; i < writes.entries.length; i += 3) if (writes.entries[i + 1] >= start && writes.entries[i + 1] < start + size) here.add(writes.entries[i]);
      return units.filter((unit) => here.has(unit)).map((unit) => [`unit ${b} ${half} ${unit}`, writes.notes?.[unit] ?? ""]);
    });
    const off = [...this.off].filter((part) => part.startsWith(`unit ${b} `)).map((part) => [part, "switched off"]);
    if (!found.length && !off.length) return [];
    return [make("h3", {}, "Units that fired here and write it"), make("ul", { class: "units" }, [...found, ...off].map(([part, why]) =>
      make("li", {}, make("span", {}, why), this.switchButton(part, this.partName(part)))))];
  }

  /** A value as `step` began with it in this layer: a head's, one that a head had just written, or the one before. */
  readBefore(name, place) {
    const text = (value) => value < 0 ? UNDEFINED : this.run.values[value];
    const head = this.data.heads.findIndex((one) => one.name === name);
    if (head >= 0) return this.looks(head) ? text(this.run.rows[this.looks(head)[0]][place]) : UNDEFINED;
    const cell = this.data.variables.findIndex((one) => one.name === name) * this.size + place;
    const moved = this.run.moved[this.layer - 1]?.find(([at]) => at === cell);
    return moved ? this.run.values[moved[1]] : this.valueBefore(cell);
  }

  source(writer) {
    const source = this.data.sources[writer.part ?? 0];
    if (writer.line === null || writer.line === undefined) return [make("p", { class: "quiet" }, source.why ?? "No line is known.")];
    const title = make("h3", {}, `${source.file ?? "step"}, line ${writer.line}`);
    return source.why ? [title, make("p", { class: "quiet" }, source.why)] : [title, make("code", { class: "line" }, source.lines[writer.line].trim())];
  }
}
