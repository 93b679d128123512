// The state diagram of a machine, in step with the table: the current state is filled, and the arrow just taken is lit.

const SMALLEST = 0.75; // a wide diagram shrinks to this before it scrolls

class Diagram {
  constructor({ width, height, radius, states, arrows, by, dead }) {
    this.states = new Map();
    this.arrows = new Map();
    this.places = new Map();
    this.size = width;
    const tip = (id, kind) => make("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", class: kind }, make("path", { d: "M0 0L8 4L0 8z" }));
    const curve = (points) => points.length === 3 ? `M${points[0]}Q${points[1]} ${points[2]}`
      : `M${points[0]}C${points.slice(1, -1).join(" ")}L${points[points.length - 1]}`;
    const curves = [], labels = [], parts = [make("defs", {}, tip("tip", "tip"), tip("tip-lit", "tip lit"))];
    for (const { at: [x, y], start } of states) if (start) parts.push(make("path", { d: `M${x - radius - 24} ${y}H${x - radius}`, class: "arrow", "marker-end": "url(#tip)" }));
    for (const arrow of arrows) {
      const line = make("path", { d: curve(arrow.path), class: "arrow", "marker-end": "url(#tip)" }), lines = arrow.label.split("\n");
      const texts = lines.map((text, k) => make("text", { x: arrow.label_at[0], y: arrow.label_at[1] + 4 + 14 * (k - (lines.length - 1) / 2), class: "label" }, text));
      const group = make("g", {}, texts);
      this.arrows.set(`${states[arrow.from].name}\n${states[arrow.to].name}`, [group, line]);
      curves.push(line);
      labels.push(group);
    }
    parts.push(...curves, ...labels); // a label lies above every line
    for (const { name, at: [x, y], accepting } of states) {
      const short = [...name].length > 9 ? `${[...name].slice(0, 8).join("")}…` : name;
      const group = make("g", { class: name === dead ? "state dead" : "state" }, make("circle", { cx: x, cy: y, r: radius }), accepting ? make("circle", { cx: x, cy: y, r: radius - 3.5, class: "inner" }) : null,
        make("text", { x, y: y + 4, class: [...short].length > 5 ? "small" : null }, short));
      this.states.set(name, group);
      this.places.set(name, [x, y]);
      parts.push(group);
    }
    this.picture = make("svg", { class: "diagram", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "data-by": by }, parts);
    this.picture.style.width = `max(${Math.round(SMALLEST * width)}px, min(100%, ${width}px))`; // smaller, as far as it can be read
    this.box = make("div", { class: "scroller diagram-box", tabindex: 0, role: "group", "aria-label": "state diagram" }, this.picture);
    this.element = make("div", {}, this.box, dead ? make("p", { class: "beside" }, `Arrows that are not drawn lead to ${dead}, from which nothing is accepted.`) : null);
  }

  /** The machine is in `state`, and came from `before` (null at the start). */
  show(state, before) {
    for (const [name, group] of this.states) group.classList.toggle("lit", name === state);
    const taken = this.arrows.get(`${before}\n${state}`);
    for (const [group, line] of this.arrows.values()) {
      const lit = taken !== undefined && taken[0] === group;
      group.classList.toggle("lit", lit);
      line.classList.toggle("lit", lit);
      line.setAttribute("marker-end", lit ? "url(#tip-lit)" : "url(#tip)");
    }
    this.reveal(state);
    this.picture.setAttribute("aria-label", `state diagram; now in ${state || "no state"}${before ? `, from ${before}` : ""}`);
  }
  /** Scroll to a state that is outside what can be seen, or near its edge. */
  reveal(state) {
    const { box } = this, place = this.places.get(state), scale = this.picture.getBoundingClientRect().width / this.size;
    if (!place || !(scale > 0)) return;
    const ends = [["scrollLeft", box.clientWidth, place[0] * scale], ["scrollTop", box.clientHeight, place[1] * scale]];
    for (const [side, room, at] of ends) {
      const edge = Math.min(90, room / 4);
      if (at < box[side] + edge || at > box[side] + room - edge) box[side] = at - room / 2;
    }
  }
}
