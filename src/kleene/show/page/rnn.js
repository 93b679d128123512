// The page of an RNN's run: values and hidden units by time; the state, or the tape, of the machine beside them.

class View {
  constructor(page, data) {
    Object.assign(this, { data, times: data.symbols.length + 1, chosen: null, now: 0 });
    this.makeRows();
    const widths = Array.from({ length: this.times }, (_, t) => Math.max(2, String(t).length, [...(data.symbols[t - 1] ?? "start")].length));
    this.rows.forEach((row) => row.texts.forEach((text, t) => { widths[t] = Math.max(widths[t], [...text].length); }));
    this.grid = new Grid({
      label: "values by time", corner: "time", rows: this.rows,
      columns: widths.map((_, t) => ({ name: String(t), top: t ? data.symbols[t - 1] : "start", title: t ? `after reading ${data.symbols[t - 1]}` : "before the first symbol" })),
      widths: widths.map((width) => Math.min(14, width)), choose: (row, time) => this.choose(row, time),
    });
    this.grid.listeners.push(() => this.drawAll());
    this.player = new Player({
      last: this.times - 1, noun: "time",
      density: Array.from({ length: this.times }, (_, t) => t ? this.rows.filter((row) => row.texts[t] !== row.texts[t - 1]).length : 0),
      say: (t) => t ? `${t} of ${this.times - 1} · read ${data.symbols[t - 1]}` : "start", show: (t) => this.show(t),
    });
    this.tape = data.tapes ? make("div", { class: "tape", role: "img" }) : null;
    this.diagram = data.diagram ? new Diagram(data.diagram) : null;
    this.detail = make("aside", { class: "detail", "aria-live": "polite", "aria-label": "the chosen value" });
    this.layout(page);
    document.addEventListener("keydown", (event) => this.key(event));
    this.drawAll();
    this.player.go(0);
    this.explain();
  }

  makeRows() {
    const { data } = this, times = [...Array(this.times).keys()];
    const spread = (name, group, kind, cells, part, index) => ({ name, group, kind, part, index, texts: cells });
    const table = (list, count) => {
      const rows = Array.from({ length: count }, () => times.map(() => "0"));
      list.forEach((cells, t) => { for (let i = 0; i < cells.length; i += 2) rows[cells[i]][t] = data.values[cells[i + 1]][0]; });
      return rows;
    };
    this.rows = [];
    const machine = "the machine";
    if (data.states) this.rows.push(spread("state", machine, "variable output", data.states, "state"));
    if (data.tapes) {
      this.rows.push(spread("state", machine, "variable", data.tapes.map((tape) => tape[0] || "reading"), "state"));
      this.rows.push(spread("scanned", machine, "variable", data.tapes.map((tape) => tape[0] ? tape[2] : ""), "state"));
    }
    const outputs = data.outputs[0].length === 1 ? ["out"] : ["none", "accept", "reject"];
    outputs.forEach((name, k) => this.rows.push(spread(name, "output", "variable", data.outputs.map((y) => y[k]), "output", k)));
    table(data.named, data.names.length).forEach((texts, i) => this.rows.push(spread(data.names[i], `named values, h = R·g + c${data.base ? `; fractions by their digits in base ${data.base}` : ""}`, "variable", texts, "named", i)));
    table(data.hidden, data.units).forEach((texts, i) => this.rows.push(spread(`unit ${i}`, "hidden units, g", "head unit", texts, "hidden", i)));
  }

  layout(page) {
    const { data } = this;
    const said = { accept: "accepts", reject: "rejects" }[data.answer] ?? `has no answer within these ${counted(this.times - 1, "step")}`;
    const facts = [`run by the ${data.evaluator}`, counted(data.units + data.left_out, "unit"), data.activation, counted(this.times - 1, "step")];
    const wide = (data.diagram?.width ?? 0) > 520; // a wide diagram stands above the table
    const answer = make("p", { class: "result" }, make("b", {}, data.text), " ", make("output", { id: "output" }, said),
      data.left_out ? ` · ${counted(data.left_out, "unit")} more are not shown` : "");
    page.replaceChildren(
      pageHeader(data.title, data.text, facts),
      make("div", { class: "bar" }, this.player.element, this.tape), wide ? make("div", { class: "across" }, this.diagram.element) : "",
      make("section", { class: "run" }, make("div", { class: "board" }, this.grid.element, answer),
        make("div", { class: "side" }, wide ? null : this.diagram?.element ?? null, this.detail)),
      helpLine([["← →", "step"], ["space", "play"], ["Home End", "first, last"], ["⇧+arrows", "move the chosen cell"], ["Esc", "let go"]]));
  }

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
      });
    }
    const head = this.grid.heads[this.now - this.grid.first];
    if (head) this.grid.keepAcross(head);
  }

  stateAt(time) { return this.data.tapes ? this.data.tapes[time][0] : this.data.states?.[time]; }

  /** The tape with the head in the middle. On a single step the tape slides under the head. */
  drawTape(before) {
    const [state, left, symbol, right] = this.data.tapes[this.now];
    const around = Math.max(4, Math.floor((this.tape.clientWidth / 34 - 1) / 2));
    const cell = (text, kind) => make("span", { class: kind }, text === undefined || text === this.data.blank ? "" : text);
    const cells = [];
    for (let i = around - 1; i >= 0; i--) cells.push(cell(state ? left[i] : "", null));
    cells.push(make("span", { class: "scanned" }, state ? symbol === this.data.blank ? "" : symbol : ""));
    for (let i = 0; i < around; i++) cells.push(cell(right[i], null));
    this.tape.setAttribute("aria-label", state ? `state ${state}, head on ${symbol}, left ${left.join("") || "blank"}, right ${right.join("") || "blank"}` : "reading the input");
    const strip = make("div", { class: "cells" }, cells);
    this.tape.replaceChildren(make("b", { class: "where-it-is" }, state || "reading"), strip);
    const way = before === this.now - 1 ? this.data.moves[this.now] : before === this.now + 1 ? -this.data.moves[before] : 0;
    this.tape.dataset.moved = way;
    if (way && !matchMedia("(prefers-reduced-motion: reduce)").matches) strip.animate([{ transform: `translateX(${34 * way}px)` }, { transform: "none" }], { duration: 160, easing: "ease-out" });
  }

  choose(row, time) {
    this.chosen = [row, time];
    if (time !== this.player.at) this.player.go(time);
    this.grid.mark(this.chosen);
    this.explain();
  }

  key(event) {
    if (isTyping(event) || event.altKey || event.ctrlKey || event.metaKey) return;
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") {
      this.chosen = null;
      this.grid.mark(null);
      this.drawTime(this.now, this.now);
      this.explain();
    } else if (event.shiftKey && event.key in steps) {
      event.preventDefault();
      const [row, time] = this.chosen ?? [0, this.player.at], [down, right] = this.chosen ? steps[event.key] : [0, 0];
      if (this.rows[row + down] && time + right >= 0 && time + right < this.times) this.choose(row + down, time + right);
    }
  }

  // --- explaining ---

  explain() {
    if (!this.chosen) return this.detail.replaceChildren(make("h2", {}, "Choose a value"), make("p", { class: "quiet" }, "to see it exactly, and the weights that made it."));
    const [r, time] = this.chosen, row = this.rows[r];
    const when = make("p", { class: "quiet" }, time ? `time ${time}, after reading ${this.data.symbols[time - 1]}` : "before the first symbol");
    const parts = [make("h2", {}, row.name), when, make("p", { class: "big" }, row.texts[time])];
    if (row.part === "hidden" || row.part === "named") {
      const exact = this.exact(row.part, row.index, time);
      if (exact !== row.texts[time]) parts.push(make("code", { class: "line" }, exact));
    }
    if (row.part === "hidden") parts.push(...this.weights(row.index, time));
    if (row.part === "state") parts.push(make("p", {}, this.data.states ? "The automaton that the network was made from, run beside it." : "Read from the hidden values."));
    this.detail.replaceChildren(...parts);
  }

  exact(part, index, time) {
    const cells = this.data[part][time];
    for (let i = 0; i < cells.length; i += 2) if (cells[i] === index) return this.data.values[cells[i + 1]][1];
    return "0";
  }

  /** What a unit adds up: σ(Σ weight · value before + weight of the symbol + bias). */
  weights(unit, time) {
    const { data } = this, named = data.names.length > 0, into = data.into[unit] ?? [], reads = data.reads[unit] ?? [];
    if (!time) return [make("p", {}, "The initial value.")];
    const terms = [];
    for (let i = 0; i < into.length; i += 2) {
      const value = this.exact(named ? "named" : "hidden", into[i], time - 1);
      terms.push([`${into[i + 1]} · ${named ? data.names[into[i]] : `unit ${into[i]}`}`, value]);
    }
    for (let i = 0; i < reads.length; i += 2) {
      const symbol = data.alphabet[reads[i]];
      terms.push([`${reads[i + 1]} · read ${symbol}`, symbol === data.symbols[time - 1] ? "1" : "0"]);
    }
    const rows = terms.sort((a, b) => (a[1] === "0") - (b[1] === "0")).slice(0, 60).map(([what, value]) => [make("dt", {}, what), make("dd", {}, `× ${value}`)]);
    return [make("h3", {}, `${data.activation} of the sum of`), make("dl", {}, rows.flat(), make("dt", {}, "bias"), make("dd", {}, data.bias[unit] ?? "0"))];
  }
}
