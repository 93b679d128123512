// One layer as a wiring diagram: variables → heads → units → variables. What fired in this layer is lit.
// Units stand in groups by their purpose. A click on a head switches it off; a click on a group lists its units.

const WIRE = { row: 30, top: 34, node: 168, least: 860 };

class Wiring {
  constructor(place, view) {
    Object.assign(this, { place, view, group: null });
    this.caption = make("p", { class: "quiet" });
    this.picture = make("svg", { class: "wires", role: "group", "aria-label": "wiring of this layer" });
    this.list = make("div", { class: "group-units" });
    place.replaceChildren(this.caption, make("div", { class: "scroller wide", tabindex: 0, role: "group", "aria-label": "wiring" }, this.picture), this.list);
    this.made = new Map();
  }

  /** The parts of a block and the wires between them, from its matrices. Wires: [from, to, sum of |weights|]. */
  parts(b) {
    if (this.made.has(b)) return this.made.get(b);
    const { weights, variables } = this.view.data, { net, matrices } = weights;
    const owner = new Array(net.dim);
    for (const [name, [start, size, coding]] of Object.entries(net.segments)) for (let d = start; d < start + size; d++) owner[d] = coding === "scratch" ? "scratch" : name;
    const isVariable = new Set(variables.map(({ name }) => name));
    const wires = new Map(), wire = (from, to, weight) => wires.set(`${from}\n${to}`, (wires.get(`${from}\n${to}`) ?? 0) + Math.abs(weight));
    const groups = [new Map(), new Map()];
    const groupOf = (half, unit, notes) => {
      const purpose = notes?.[unit]?.split(": ")[0] ?? "units";
      if (!groups[half].has(purpose)) groups[half].set(purpose, new Set());
      groups[half].get(purpose).add(unit);
      return `units${half} ${purpose}`;
    };
    for (const { at, entries, notes } of matrices) {
      if (at[0] !== b) continue;
      for (let i = 0; i < entries.length; i += 3) {
        const [row, column, weight] = [entries[i], entries[i + 1], entries[i + 2]];
        if (at[1] === "head") {
          const head = `head ${net.blocks[b].heads[at[2]]}`;
          const dim = { query: column - 1, key: column - 1, value: column, writes: row }[at[3]];
          if (dim === undefined || dim < 0) continue;
          if (at[3] === "writes") { if (isVariable.has(owner[dim])) wire(head, `after ${owner[dim]}`, weight); }
          else wire(`before ${owner[dim]}`, head, weight);
        } else if (at[3] === "reads") {
          if (column === 0) continue;
          const group = groupOf(at[2], row, notes), source = owner[column - 1];
          if (source === "scratch") { if (at[2] === 1) for (const purpose of groups[0].keys()) wire(`units0 ${purpose}`, group, weight / groups[0].size); }
          else wire(isVariable.has(source) ? `before ${source}` : `head ${source}`, group, weight);
        } else if (at[3] === "writes") {
          const group = groupOf(at[2], row, notes);
          if (isVariable.has(owner[column])) wire(group, `after ${owner[column]}`, weight);
        }
      }
    }
    const heads = net.blocks[b].heads;
    for (const key of [...wires.keys()]) { // a head's segment has the name of the head's output; a shared head has others
      const [from] = key.split("\n");
      if (from.startsWith("head ") && !heads.includes(from.slice(5))) wires.delete(key);
    }
    const columns = [variables.map(({ name }) => `before ${name}`), heads.map((name) => `head ${name}`),
      [...groups[0].keys()].map((purpose) => `units0 ${purpose}`), [...groups[1].keys()].map((purpose) => `units1 ${purpose}`),
      variables.map(({ name }) => `after ${name}`)].filter((column) => column.length);
    const made = { columns, wires: [...wires].map(([key, weight]) => [...key.split("\n"), weight]), groups };
    this.made.set(b, made);
    return made;
  }

  /** The parts that did something in this layer: at the chosen position, or anywhere. */
  lit(b) {
    const { view } = this, { run, layer } = view, found = new Set();
    const source = run.live ? run : view.intact;
    if (!layer || !source || layer > source.changes.length) return found;
    const places = view.chosen ? [view.chosen[1]] : [...Array(view.size).keys()];
    const { groups } = this.parts(b), block = view.data.weights.net.blocks[b];
    for (const place of places) source.units(layer, place).forEach((units, half) => {
      for (const [purpose, members] of groups[half]) if (units.some((unit) => members.has(unit))) found.add(`units${half} ${purpose}`);
    });
    const looking = (name) => source.looks[layer - 1][name] && places.some((place) => source.rows[source.looks[layer - 1][name][1]][place].length);
    block.heads.forEach((name, h) => { if ([name, ...block.moves.filter((move) => move[1] === h).map(([move]) => move)].some(looking)) found.add(`head ${name}`); });
    for (const cell of source.changes[layer - 1].cells) if (places.includes(cell % view.size)) found.add(`after ${view.data.variables[Math.floor(cell / view.size)].name}`);
    return found;
  }

  draw() {
    const { view } = this, { net } = view.data.weights, b = Math.max(0, view.layer - 1) % net.blocks.length;
    const { columns, wires, groups } = this.parts(b), lit = this.lit(b);
    const width = Math.max(WIRE.least, this.place.clientWidth - 4), height = WIRE.top + WIRE.row * Math.max(...columns.map((column) => column.length)) + 8;
    const at = new Map();
    columns.forEach((column, c) => column.forEach((part, r) => {
      const gap = (height - WIRE.top) / column.length;
      at.set(part, [c * (width - WIRE.node) / (columns.length - 1), WIRE.top + gap * (r + 0.5)]);
    }));
    const reads = (part) => part.startsWith("before ");
    const path = ([from, to]) => {
      const [x1, y1] = at.get(from), [x2, y2] = at.get(to), x = x1 + WIRE.node, bend = Math.max(30, (x2 - x) / 2);
      return `M${x} ${y1}C${x + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
    };
    const drawn = wires.filter(([from, to]) => at.has(from) && at.has(to)).map((wire) => [wire, (reads(wire[0]) || lit.has(wire[0])) && lit.has(wire[1])]);
    drawn.sort((one, other) => one[1] - other[1]);
    const titles = { before: "variables before", head: "heads", units0: "units, first half", units1: groups[0].size ? "units, second half" : "units", after: "variables after" };
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.setAttribute("width", width);
    this.picture.setAttribute("height", height);
    this.picture.replaceChildren(
      ...columns.map((column) => make("text", { x: at.get(column[0])[0] + WIRE.node / 2, y: 16, class: "column" }, titles[column[0].split(" ")[0]])),
      ...drawn.map(([wire, on]) => make("path", { d: path(wire), class: on ? "wire lit" : "wire", "stroke-width": (0.5 + Math.log2(1 + wire[2]) / 3).toFixed(2) })),
      ...columns.flat().map((part) => this.node(part, at.get(part), lit.has(part), b, groups)));
    this.caption.textContent = `${view.say(view.layer)}${view.chosen ? ` · position ${view.chosen[1]}` : " · all positions"}: what is lit did something here. Thickness: the sum of the absolute weights.`;
    this.showGroup(b, groups);
  }

  node(part, [x, y], lit, b, groups) {
    const { view } = this, [kind, ...rest] = part.split(" "), name = rest.join(" ");
    const count = kind.startsWith("units") ? groups[Number(kind[5])].get(name).size : 0;
    const switched = kind === "head" && `head ${b} ${view.data.weights.net.blocks[b].heads.indexOf(name)}`;
    const off = switched && view.off.has(switched);
    const act = switched ? () => view.toggle(switched).then(() => this.draw()) : count ? () => { this.group = part; this.draw(); } : null;
    const label = switched ? `head ${name}: switch ${off ? "on" : "off"}` : count ? `${counted(count, "unit")} for ${name}: list` : null;
    const shown = `${name}${count ? ` · ${count}` : ""}`;
    return make("g", {
      class: `node ${kind.startsWith("units") ? "units" : kind}${lit ? " lit" : ""}${off ? " off" : ""}`, transform: `translate(${x} ${y})`,
      ...(act ? { role: "button", tabindex: 0, "aria-label": label, onclick: act, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } } } : {}),
    }, make("rect", { x: 0, y: -11, width: WIRE.node, height: 22, rx: 5 }),
    make("text", { x: WIRE.node / 2, y: 4 }, [...shown].length > 24 ? `${[...shown].slice(0, 23).join("")}…` : shown));
  }

  /** The units of the chosen group, each with what it is for and a switch. */
  showGroup(b, groups) {
    if (!this.group) return this.list.replaceChildren(make("p", { class: "quiet" }, "Choose a head to switch it off, or a group of units to list them."));
    const [kind, ...rest] = this.group.split(" "), half = Number(kind[5]), members = groups[half].get(rest.join(" "));
    if (!members) return this.list.replaceChildren();
    const { view } = this, notes = view.data.weights.matrices.find(({ at }) => String(at) === String([b, "units", half, "writes"]))?.notes;
    const rows = [...members].slice(0, 200).map((unit) => {
      const part = `unit ${b} ${half} ${unit}`;
      return make("li", {}, make("span", {}, notes?.[unit] ?? ""), view.switchButton(part, view.partName(part)));
    });
    this.list.replaceChildren(make("h2", {}, `${counted(members.size, "unit")} for ${rest.join(" ")}`), make("ul", { class: "units" }, rows));
  }
}
