// The page of an RNN's run: values and hidden units by time; the state, or the tape, of the machine beside them. The network
// is in the page: it runs on what the reader types, with units switched off at will.

class View {
  constructor(page, data) {
    Object.assign(this, { data, chosen: null, now: 0, off: new Set() });
    this.can = data.network ? new ExactNetwork(data.network) : null;
    this.recorded = recordedWord(data);
    this.diagram = data.diagram ? new Diagram(data.diagram) : null;
    this.layout(page);
    this.load(this.recorded);
    document.addEventListener("keydown", (event) => this.key(event));
    this.compare();
  }

  // --- the page around a run ---

  layout(page) {
    const { data } = this, wide = (data.diagram?.width ?? 0) > 520; // a wide diagram stands above the table
    this.tape = data.tapes ? make("div", { class: "tape", role: "img" }) : null;
    this.facts = make("p", { class: "facts" });
    this.badge = make("p", { class: "badge", role: "status" });
    this.bar = make("div", { class: "bar" });
    this.board = make("div", { class: "board" });
    this.broken = make("section", { class: "broken", "aria-live": "polite", "aria-label": "units switched off", hidden: true });
    this.detail = make("aside", { class: "detail", "aria-live": "polite", "aria-label": "the chosen value" });
    this.panels = {
      run: make("section", { class: "run", id: "panel-run", role: "tabpanel", "aria-labelledby": "tab-run" }, this.board,
        make("div", { class: "side" }, wide ? null : this.diagram?.element ?? null, this.detail)),
      weights: make("section", { class: "weights", id: "panel-weights", role: "tabpanel", "aria-labelledby": "tab-weights", hidden: true }),
    };
    this.across = wide ? make("div", { class: "across" }, this.diagram.element) : null;
    const tabs = [["run", "Run"], ["weights", "Weights"]].map(([name, label]) => make("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`, "aria-selected": String(name === "run"), onclick: () => this.openTab(name),
    }, label));
    page.replaceChildren(...[
      make("header", { class: "top" },
        make("div", { class: "name" }, make("h1", {}, data.title), make("p", { class: "about" }, data.about)), this.badge, this.facts),
      this.form(), this.broken,
      this.can ? make("div", { class: "tabs" }, make("div", { role: "tablist", "aria-label": "views" }, tabs)) : null,
      this.bar, this.across, ...Object.values(this.panels),
      helpLine([["← →", "step"], ["space", "play"], ["Home End", "first, last"], ["⇧+arrows", "move the chosen cell"], ["Esc", "let go"]]),
    ].filter(Boolean));
  }

  /** Where the reader types another word. */
  form() {
    this.answer = make("output", { class: "answer", id: "answer" });
    this.problem = make("p", { class: "problem", role: "alert" });
    if (!this.can) return make("div", { class: "try" }, make("p", { class: "input" }, this.data.text), this.answer);
    this.spaced = this.can.net.letters.some((symbol) => [...symbol].length !== 1);
    this.field = make("input", { type: "text", id: "typed", value: this.asTyped(this.data.word), autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
    this.again = make("button", { type: "button", class: "link", hidden: true, onclick: () => this.restore() }, "recorded word");
    const act = (event) => { event.preventDefault(); this.type(this.field.value); };
    return make("form", { class: "try", onsubmit: act }, make("label", { for: "typed" }, "Word"), this.field,
      make("button", { type: "submit", class: "go" }, "Run the network"), this.answer, this.again, this.problem);
  }

  asTyped(word) { return word.join(this.spaced ? " " : ""); }

  /** The symbols of what was typed; an Error says what is wrong. */
  symbolsOf(typed) {
    const { letters } = this.can.net;
    const symbols = this.spaced ? typed.split(/\s+/).filter(Boolean) : [...(letters.includes(" ") ? typed : typed.trim())];
    const wrong = symbols.find((symbol) => !letters.includes(symbol));
    if (wrong !== undefined) throw new Error(`“${wrong}” is not in the alphabet ${letters.slice(0, 40).join(" ")}${letters.length > 40 ? " …" : ""}.`);
    return symbols;
  }

  restore() {
    this.field.value = this.asTyped(this.data.word);
    return this.type(this.field.value);
  }

  /** Run what was typed on the network in the page. */
  async type(typed) {
    try {
      const word = this.symbolsOf(typed);
      this.problem.textContent = "";
      await this.start(word);
    } catch (error) {
      this.problem.textContent = error.message;
    }
  }

  async start(word) {
    const turn = this.turn = (this.turn ?? 0) + 1;
    document.documentElement.dataset.busy = "1";
    const intact = await liveWord(this.data, this.can, word);
    const run = this.off.size ? await liveWord(this.data, this.can, word, { off: this.off, most: 2 * intact.symbols.length + 10 }) : intact;
    delete document.documentElement.dataset.busy;
    if (turn !== this.turn) return; // something else was asked meanwhile
    this.intact = intact;
    this.load(run);
  }

  /** Whether the network in the page does on the recorded word what was recorded, and what its machine does. */
  async compare() {
    if (!this.can) return void (this.badge.textContent = "This network is too large to run in a page.");
    const run = await liveWord(this.data, this.can, this.data.word, { most: this.data.symbols.length });
    this.intact ??= run;
    const difference = firstWordDifference(this.data, this.recorded, run) ?? differsFromMachine(this.data, this.can, run);
    const beside = this.data.machine ? `, and the ${this.data.machine.table ? "automaton" : "Turing machine"} run beside it,` : "";
    this.badge.classList.toggle("agrees", difference === null);
    this.badge.classList.toggle("differs", difference !== null);
    this.badge.textContent = difference === null
      ? `This page's network and the recorded run${beside} agree: ${counted(run.symbols.length, "step")}, every value.`
      : `This page's network differs: ${difference}.`;
    document.documentElement.dataset.compared = difference === null ? "agree" : "differ";
  }

  /** Show a run: rebuild the table and the player. */
  load(run) {
    const keep = this.grid ? Math.min(this.now, run.symbols.length) : 0;
    this.stop?.abort();
    this.stop = new AbortController();
    Object.assign(this, { run, times: run.symbols.length + 1, now: 0 });
    if (this.chosen && this.chosen[1] >= this.times) this.chosen = null;
    this.makeRows();
    const widths = Array.from({ length: this.times }, (_, t) => Math.max(2, String(t).length, [...(run.symbols[t - 1] ?? "start")].length));
    this.rows.forEach((row) => row.texts.forEach((text, t) => { widths[t] = Math.max(widths[t], [...text].length); }));
    this.grid = new Grid({
      label: "values by time", corner: "time", rows: this.rows,
      columns: widths.map((_, t) => ({ name: String(t), top: t ? run.symbols[t - 1] : "start", title: t ? `after reading ${run.symbols[t - 1]}` : "before the first symbol" })),
      widths: widths.map((width) => Math.min(14, width)), choose: (row, time) => this.choose(row, time),
    });
    this.grid.listeners.push(() => this.drawAll());
    this.player = new Player({
      last: this.times - 1, noun: "time",
      density: Array.from({ length: this.times }, (_, t) => t ? this.rows.filter((row) => row.texts[t] !== row.texts[t - 1]).length : 0),
      say: (t) => t ? `${t} of ${this.times - 1} · read ${run.symbols[t - 1]}` : "start", show: (t) => this.show(t), signal: this.stop.signal,
    });
    this.bar.replaceChildren(...[this.player.element, this.tape].filter(Boolean));
    this.tell();
    this.drawAll();
    this.player.go(keep);
    this.grid.mark(this.chosen);
    this.explain();
  }

  /** The facts, the answer, and what is broken. */
  tell() {
    const { data, run } = this, steps = counted(this.times - 1, "step");
    const by = run.live ? `run by this page's network${this.off.size ? ", with units switched off" : ""}` : `run by the ${data.evaluator}`;
    const facts = [by, counted(data.units + data.left_out, "unit"), data.activation, steps];
    this.facts.replaceChildren(...facts.map((fact) => make("span", {}, fact)));
    const said = { accept: "accepts", reject: "rejects", broken: "gives no answer: exactly one output should be 1" }[run.answer] ?? `has no answer within these ${steps}`;
    this.answer.textContent = `→ ${said}`;
    const word = this.asTyped?.(run.word) || "the empty word";
    this.board.replaceChildren(this.grid.element, make("p", { class: "result" }, make("b", {}, word), " ", make("output", { id: "output" }, said),
      data.left_out ? ` · ${counted(data.left_out, "unit")} more are not shown` : ""));
    if (this.again) this.again.hidden = !run.live || String(run.word) === String(data.word);
    const difference = run.live && !this.off.size ? differsFromMachine(data, this.can, run) : null;
    if (difference) this.problem.textContent = `The network is not the machine's: ${difference}.`;
    this.tellBroken();
  }

  openTab(name) {
    for (const button of document.querySelectorAll("[role=tab]")) button.setAttribute("aria-selected", button.id === `tab-${name}`);
    for (const [key, panel] of Object.entries(this.panels)) panel.hidden = key !== name;
    this.bar.hidden = name === "weights";
    if (this.across) this.across.hidden = name === "weights";
    if (name === "weights" && !this.panels.weights.hasChildNodes()) new Weights(this.panels.weights, { weights: this.weightsByName() });
  }

  /** The matrices with their names, as the view of weights wants them. */
  weightsByName() {
    const { data } = this, { net } = this.can, number = (weight) => { const [a, b] = fraction(weight); return Number(a) / Number(b); };
    const numbers = (entries, size) => entries.map((entry, i) => i % size === size - 1 ? number(entry) : entry);
    const units = Array.from({ length: net.units }, (_, i) => `unit ${i}`), symbols = net.alphabet.map((symbol) => `symbol=${symbol}`);
    const outputs = this.outputNames(net.outputs), named = data.names, from = net.readout ? named : units;
    const lists = [units, symbols, outputs, named, ["1", ...from], ["1", ...units], ["1"]], matrices = [];
    const add = (group, name, rows, columns, entries) => { if (entries.length) matrices.push({ group, name, rows, columns, entries, notes: null }); };
    const biased = (entries, bias) => {
      const found = numbers(entries, 3).map((entry, i) => i % 3 === 1 ? entry + 1 : entry);
      for (let i = 0; i < bias.length; i += 2) found.push(bias[i], 0, number(bias[i + 1]));
      return found;
    };
    add("recurrence", net.readout ? "each unit reads named values" : "each unit reads units", 0, 4, biased(net.into, net.bias));
    add("recurrence", "each unit reads a symbol", 0, 1, numbers(net.reads, 3));
    if (net.readout) add("named values", "from the units", 3, 5, biased(net.readout, net.shift));
    add("output", "from the units", 2, 5, biased(net.out, net.out_bias));
    const start = [];
    for (let i = 0; i < net.start.length; i += 2) start.push(net.start[i], 0, number(net.start[i + 1]));
    add("start", "the first values", 0, 6, start);
    const facts = [counted(net.units, "unit"), counted(matrices.reduce((sum, { entries }) => sum + entries.length / 3, 0), "weight") + " not zero", data.activation];
    const segments = [["units", "exact", units], ["symbols", "one-hot", symbols], ...(named.length ? [["named values", "exact", named]] : []), ["outputs", "exact", outputs]];
    return { facts, segments, lists, matrices, cut: [] };
  }

  outputNames(count) { return count === 1 ? ["out"] : ["none", "accept", "reject"]; }

  makeRows() {
    const { data, run } = this, times = [...Array(this.times).keys()], machine = "the machine";
    const row = (name, group, kind, texts, part, index) => ({ name, group, kind, part, index, texts });
    const table = (list, place) => times.map((t) => numberTexts(list[t].get(place) ?? "0", data.base)[0]);
    this.rows = [];
    if (run.states) this.rows.push(row("state", machine, "variable output", run.states, "state"));
    if (run.tapes) {
      this.rows.push(row("state", machine, "variable", run.tapes.map((tape) => tape[0] || "reading"), "state"));
      this.rows.push(row("scanned", machine, "variable", run.tapes.map((tape) => tape[0] ? tape[2] : ""), "state"));
    }
    this.outputNames(run.outputs[0].length).forEach((name, k) => this.rows.push(row(name, "output", "variable", run.outputs.map((y) => numberTexts(y[k], data.base)[0]), "output", k)));
    const named = `named values, h = R·g + c${data.base ? `; fractions by their digits in base ${data.base}` : ""}`;
    data.names.forEach((name, i) => this.rows.push(row(name, named, "variable", table(run.named, i), "named", i)));
    for (let i = 0; i < data.units; i++) this.rows.push(row(`unit ${i}`, "hidden units, g", "head unit", table(run.hidden, i), "hidden", i));
  }

  // --- switching units off ---

  toggle(unit) {
    if (this.off.has(unit)) this.off.delete(unit); else this.off.add(unit);
    return this.start(this.run.word);
  }

  tellBroken() {
    this.broken.hidden = !this.off.size;
    this.wrong = new Set(); // "row time" of cells that differ from the intact run
    if (!this.off.size) return this.broken.replaceChildren();
    const said = this.damage();
    this.broken.replaceChildren(make("b", {}, "Switched off: "),
      ...[...this.off].map((unit) => make("button", { type: "button", "aria-label": `switch unit ${unit} on again`, onclick: () => this.toggle(unit) }, `unit ${unit} ✕`)),
      make("button", { type: "button", class: "link", onclick: () => { this.off.clear(); this.start(this.run.word); } }, "switch everything on"),
      make("p", { id: "damage" }, said));
  }

  /** What the missing units change, in words; fills `wrong`. */
  damage() {
    const { run, intact, data } = this;
    let first = null;
    for (let time = 0; time < Math.min(this.times, intact.symbols.length + 1); time++) this.rows.forEach((row, r) => {
      const differs = row.part === "state" ? run.tapes && String(run.tapes[time]) !== String(intact.tapes[time])
        : row.part === "output" ? run.outputs[time][row.index] !== intact.outputs[time][row.index]
          : (run[row.part][time].get(row.index) ?? "0") !== (intact[row.part][time].get(row.index) ?? "0");
      if (!differs) return;
      this.wrong.add(`${r} ${time}`);
      first ??= `time ${time}, ${row.name}`;
    });
    const words = { accept: "accept", reject: "reject", broken: "no answer" }, answer = (one) => words[one.answer] ?? "still running";
    if (first === null && run.answer === intact.answer) return "Nothing changes on this word: every value is as before.";
    const said = answer(run) === answer(intact) ? `The answer stays: ${answer(run)}.` : `The answer is ${answer(run)} instead of ${answer(intact)}.`;
    return `${said}${first ? ` The first difference: ${first}.` : ""}${data.machine && run.answer !== intact.answer ? " It is no longer the machine." : ""}`;
  }

  // --- drawing ---

  drawAll() {
    const last = Math.min(this.times, this.grid.first + this.grid.count);
    this.rows.forEach((row, r) => {
      for (let t = this.grid.first; t < last; t++) this.grid.set(r, t, row.texts[t], row.texts[t] === "0" ? "zero" : "value");
    });
    this.drawTime(this.grid.first, last - 1);
  }

  show(time) {
    const before = this.now;
    this.now = time;
    this.grid.reveal(time);
    this.drawTime(Math.min(before, time), Math.max(before, time));
    if (this.tape) this.drawTape(before);
    this.diagram?.show(this.stateAt(time), time ? this.stateAt(time - 1) : null);
    if (this.chosen && this.chosen[1] !== time) this.choose(this.chosen[0], time);
  }

  /** What is still to come is pale; the current column is marked, and what changed in it. */
  drawTime(from, to) {
    const last = Math.min(this.times, this.grid.first + this.grid.count, to + 1);
    for (let t = Math.max(from, this.grid.first); t < last; t++) {
      const head = this.grid.heads[t - this.grid.first];
      head.classList.toggle("chosen", t === this.now);
      head.classList.toggle("ahead", t > this.now);
      this.rows.forEach((row, r) => {
        const cell = this.grid.cell(r, t);
        cell.classList.toggle("ahead", t > this.now);
        cell.classList.toggle("now", t === this.now);
        cell.classList.toggle("changed", t === this.now && t > 0 && row.texts[t] !== row.texts[t - 1]);
        cell.classList.toggle("wrong", this.wrong?.has(`${r} ${t}`) ?? false);
      });
    }
    const head = this.grid.heads[this.now - this.grid.first];
    if (head) this.grid.keepAcross(head);
  }

  stateAt(time) { return this.run.tapes ? this.run.tapes[time][0] : this.run.states?.[time]; }

  /** The tape with the head in the middle. On a single step the tape slides under the head. */
  drawTape(before) {
    const [state, left, symbol, right] = this.run.tapes[this.now], { blank } = this.data;
    const around = Math.max(4, Math.floor((this.tape.clientWidth / 34 - 1) / 2));
    const cell = (text, kind) => make("span", { class: kind }, text === undefined || text === blank ? "" : text);
    const cells = [];
    for (let i = around - 1; i >= 0; i--) cells.push(cell(state ? left[i] : "", null));
    cells.push(make("span", { class: "scanned" }, state ? symbol === blank ? "" : symbol : ""));
    for (let i = 0; i < around; i++) cells.push(cell(right[i], null));
    this.tape.setAttribute("aria-label", state ? `state ${state}, head on ${symbol}, left ${left.join("") || "blank"}, right ${right.join("") || "blank"}` : "reading the input");
    const strip = make("div", { class: "cells" }, cells);
    this.tape.replaceChildren(make("b", { class: "where-it-is" }, state || "reading"), strip);
    const { moves } = this.run, way = before === this.now - 1 ? moves[this.now] : before === this.now + 1 ? -(moves[before] ?? 0) : 0;
    this.tape.dataset.moved = way;
    if (way && !matchMedia("(prefers-reduced-motion: reduce)").matches) strip.animate([{ transform: `translateX(${34 * way}px)` }, { transform: "none" }], { duration: 160, easing: "ease-out" });
  }

  choose(row, time) {
    this.chosen = [row, time];
    if (time !== this.player.at) this.player.go(time);
    this.grid.mark(this.chosen);
    this.explain();
  }

  letGo() {
    this.chosen = null;
    this.grid.mark(null);
    this.drawTime(this.now, this.now);
    this.explain();
  }

  key(event) {
    if (isTyping(event) || event.altKey || event.ctrlKey || event.metaKey || this.panels.run.hidden) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") this.letGo();
    else if (event.shiftKey && event.key in steps) {
      event.preventDefault();
      const [row, time] = this.chosen ?? [0, this.player.at], [down, right] = this.chosen ? steps[event.key] : [0, 0];
      if (this.rows[row + down] && time + right >= 0 && time + right < this.times) this.choose(row + down, time + right);
    }
  }

  // --- explaining ---

  explain() {
    this.detail.classList.toggle("sheet", Boolean(this.chosen)); // on a phone it comes up from below
    if (!this.chosen) return this.detail.replaceChildren(make("h2", {}, "Choose a value"), make("p", { class: "quiet" }, "to see it exactly, and the weights that made it. Choose a unit to switch it off."));
    const [r, time] = this.chosen, row = this.rows[r], { data, run } = this;
    const when = make("p", { class: "quiet" }, time ? `time ${time}, after reading ${run.symbols[time - 1]}` : "before the first symbol");
    const parts = [make("h2", {}, row.name), when, make("p", { class: "big" }, row.texts[time])];
    if (row.part === "hidden" || row.part === "named") {
      const exact = this.exact(row.part, row.index, time);
      if (exact !== row.texts[time]) parts.push(make("code", { class: "line" }, exact));
    }
    if (row.part === "hidden" && this.can) parts.push(this.switchButton(row.index), ...this.weights(row.index, time));
    if (row.part === "state") parts.push(make("p", {}, run.states ? "The automaton that the network was made from, run beside it." : "Read from the hidden values."));
    if (row.part === "output" && data.machine?.table) parts.push(make("p", {}, `The automaton is in ${run.states[time]}.`));
    this.detail.replaceChildren(make("button", { type: "button", class: "close", "aria-label": "close", onclick: () => this.letGo() }, "✕"), ...parts);
  }

  switchButton(unit) {
    const off = this.off.has(unit);
    return make("button", { type: "button", class: "switch", "aria-pressed": String(off), "data-unit": unit, onclick: () => this.toggle(unit) }, `Switch unit ${unit} ${off ? "on" : "off"}`);
  }

  exact(part, index, time) { return numberTexts(this.run[part][time].get(index) ?? "0", this.data.base)[1]; }

  /** What a unit adds up: σ(Σ weight · value before + weight of the symbol + bias). */
  weights(unit, time) {
    const { data, run } = this, { net } = this.can, named = Boolean(net.readout);
    if (!time) return [make("p", {}, "The initial value.")];
    const terms = [], bias = net.bias.findIndex((place, i) => i % 2 === 0 && place === unit);
    for (let i = 0; i < net.into.length; i += 3) if (net.into[i] === unit) {
      const from = net.into[i + 1];
      terms.push([`${net.into[i + 2]} · ${named ? data.names[from] : `unit ${from}`}`, this.exact(named ? "named" : "hidden", from, time - 1)]);
    }
    for (let i = 0; i < net.reads.length; i += 3) if (net.reads[i] === unit) {
      const symbol = net.alphabet[net.reads[i + 1]];
      terms.push([`${net.reads[i + 2]} · read ${symbol}`, symbol === run.symbols[time - 1] ? "1" : "0"]);
    }
    const rows = terms.sort((a, b) => (a[1] === "0") - (b[1] === "0")).slice(0, 60).map(([what, value]) => [make("dt", {}, what), make("dd", {}, `× ${value}`)]);
    return [make("h3", {}, `${data.activation} of the sum of`), make("dl", {}, rows.flat(), make("dt", {}, "bias"), make("dd", {}, String(bias < 0 ? 0 : net.bias[bias + 1])))];
  }
}
