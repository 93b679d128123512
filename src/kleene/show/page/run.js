// Runs of a program: the recorded one, and those that the network in the page makes. Both have one form:
// tokens, values (texts), initial, changes [{cells, values, old}], looks, rows, moved, writerAt(layer, cell), fired, outputs.

const BROKEN = "?";

function unpackChanges(initial, changes) {
  const now = Int32Array.from(initial);
  const made = changes.map(([cells, values]) => {
    const old = cells.map((cell) => now[cell]);
    cells.forEach((cell, i) => { now[cell] = values[i]; });
    return { cells, values, old };
  });
  return { changes: made, last: now };
}

/** The run that the interpreter (or the network, in Python) made before the page was written. */
function recordedRun(data) {
  const patterns = [], { changes, last } = unpackChanges(data.initial, data.changes.map(([gaps, values]) => [unpackGaps(gaps), values]));
  const output = data.variables.findIndex(({ name }) => name === data.output), size = data.tokens.length;
  return {
    live: false, tokens: data.tokens, ids: data.ids, values: data.values, initial: data.initial, changes, last,
    looks: data.looks, rows: data.rows, moved: data.moved, halted: true, answer: data.answer, undefinedReads: [],
    outputTexts: Array.from(last.subarray(output * size, (output + 1) * size), (value) => data.values[value]),
    writerAt(layer, cell) {
      const pattern = data.writes[layer - 1];
      patterns[pattern] ??= unpackGaps(data.patterns[pattern][0]);
      const at = patterns[pattern].indexOf(cell);
      return at < 0 ? null : data.writers[data.patterns[pattern][1][at]];
    },
    lines(layer) {
      const [, writers] = data.patterns[data.writes[layer - 1]];
      return writers.map((writer) => data.writers[writer]).filter(({ line }) => line !== null && line !== undefined);
    },
  };
}

/** Reads the residual stream as the values that it codes. */
class Reader {
  constructor(data) {
    this.kinds = data.kinds;
    this.segments = data.weights.net.segments;
    this.values = [];
    this.numbers = new Map();
  }

  text(text) {
    if (!this.numbers.has(text)) { this.numbers.set(text, this.values.length); this.values.push(text); }
    return this.numbers.get(text);
  }

  /** The index (of a word, the value) that a row codes in a segment; −1 where it codes none. */
  index(row, name, kind) {
    const [start, size, coding] = this.segments[name];
    if (coding === "bits") {
      let value = 0;
      for (let bit = 0; bit < size; bit++) {
        if (row[start + bit] !== 0 && row[start + bit] !== 1) return -1;
        value += row[start + bit] * 2 ** bit;
      }
      return value;
    }
    let found = -1;
    for (let d = 0; d < size; d++) {
      if (row[start + d] === 0) continue;
      if (row[start + d] !== 1 || found >= 0) return -1;
      found = d;
    }
    return found;
  }

  label(kind, index) {
    return index < 0 ? BROKEN : kind.texts?.[index] ?? String(index);
  }

  /** An average: the nearest declared value, the smaller of two; outside of all, the number itself and no index. */
  average(row, name, kind) {
    const [start, , , scale] = this.segments[name], value = row[start] / scale, numbers = kind.numbers;
    const last = numbers.length - 1, slack = (a, b) => last ? Math.abs(numbers[a] - numbers[b]) / 2 + 1e-9 : 0.5;
    if (value < numbers[0] - slack(0, 1) || value > numbers[last] + slack(last, last - 1)) return [-1, String(Number(value.toPrecision(6)))];
    let best = 0;
    numbers.forEach((number, i) => { if (Math.abs(number - value) < Math.abs(numbers[best] - value) - 1e-12) best = i; });
    return [best, kind.texts[best]];
  }
}

function asRuns(places) {
  const runs = [];
  for (const place of places) {
    if (runs.length && place === runs[runs.length - 1] + 1) runs[runs.length - 1] = place;
    else runs.push(place, place);
  }
  return runs;
}

/** Whether a saved guard of a read holds, on the stream before the second half. */
function testsHold(tests, row) {
  return tests.every(({ dims, weights, constant, allowed }) =>
    allowed.includes(dims.reduce((sum, dim, i) => sum + weights[i] * row[dim], constant)));
}

/** Run tokens on the network in the page, with some parts switched off. */
async function liveRun(data, network, alphabet, ids, { off = new Set(), most = 10_000 } = {}) {
  const reader = new Reader(data), size = ids.length, { variables } = data, { net } = data.weights;
  const moving = new Map(data.heads.map((head) => [head.name, head])), rows = [];
  let now = null, initial = null;
  const changes = [], looks = [], moved = [], fired = [], steps = [], undefinedReads = [];
  const state = (x) => Int32Array.from(variables.flatMap(({ name }) =>
    x.map((row) => reader.text(reader.label(data.kinds[name], reader.index(row, name, data.kinds[name]))))));
  const indices = (x) => Object.fromEntries(variables.map(({ name }) => [name, x.map((row) => reader.index(row, name, data.kinds[name]))]));
  let before = null, previous = null; // what the stream coded before the layer, and the stream itself
  const each = ({ number, after, selected, attended, fired: units }) => {
    if (number === 0) {
      initial = now = state(after);
      [before, previous] = [indices(after), after.map((row) => row.slice())];
      return;
    }
    const block = net.blocks[(number - 1) % net.blocks.length], look = {}, step = { ...before }, put = [];
    const add = (name, segment, h) => {
      const kind = data.kinds[name], values = [], picks = [], found = [];
      attended.forEach((row, p) => {
        const places = selected[h][p], defined = places.length === 1 || (kind.average && places.length) || (!places.length && kind.default);
        const [index, text] = !defined ? [-1, null] : kind.average ? reader.average(row, segment, kind)
          : ((at) => [at, reader.label(kind, at)])(reader.index(row, segment, kind));
        values.push(text === null ? -1 : reader.text(text));
        picks.push(asRuns(places));
        found.push(index);
      });
      look[name] = [rows.push(values) - 1, rows.push(picks) - 1];
      return found;
    };
    for (const [name, h, where, replacing] of block.moves) {
      const { into } = moving.get(name), found = add(name, into, h), row = variables.findIndex((variable) => variable.name === into);
      step[into] = before[into].map((old, p) => {
        const writes = where.every((dim) => previous[p][dim] === 1) && (!replacing || selected[h][p].length > 0);
        if (writes) put.push([row * size + p, rows[look[name][0]][p], name]);
        return writes ? found[p] : old;
      });
    }
    block.heads.forEach((name, h) => { if (data.kinds[name] && moving.get(name)?.into === null) step[name] = add(name, name, h); });
    for (const [name, least, greatest, tests] of block.reads) {
      const h = block.heads.indexOf(name);
      attended.forEach((row, p) => {
        const count = selected[h][p].length;
        if ((count < least || count > greatest) && testsHold(tests, row)) undefinedReads.push([number, p, name, count]);
      });
    }
    const next = state(after), cells = [], values = [];
    next.forEach((value, cell) => { if (value !== now[cell]) { cells.push(cell); values.push(value); } });
    changes.push([cells, values]);
    looks.push(look);
    moved.push(put);
    fired.push(units);
    steps.push(step);
    now = next;
    [before, previous] = [indices(after), after.map((row) => row.slice())];
  };
  const ended = await network.run(ids, { off, most, each });
  const output = variables.findIndex(({ name }) => name === data.output);
  const unpacked = unpackChanges(initial, changes), kind = data.kinds[data.output];
  return {
    live: true, tokens: ids.map((id) => data.token_names[id] ?? String(id)), ids, values: reader.values, initial, ...unpacked,
    looks, rows, moved, ...ended, answer: alphabet.answer(ended.outputs), undefinedReads,
    outputTexts: ended.outputs.map((value) => reader.label(kind, value)),
    units: (layer, place) => fired[layer - 1].map((half) => half[place]),
    writerAt(layer, cell) {
      const variable = variables[Math.floor(cell / size)].name, place = cell % size;
      const head = moved[layer - 1].find(([at]) => at === cell);
      return this.updateAt(layer, variable, place) ?? (head ? { how: "head", variable, head: head[2] } : null);
    },
    updateAt(layer, variable, place) {
      const part = data.updates?.[(layer - 1) % data.updates.length];
      if (!part) return null;
      return part.updates.find(([told, tests]) => told.variable === variable && guardHolds(part, tests, steps[layer - 1], place))?.[0] ?? null;
    },
    lines(layer) {
      const part = data.updates?.[(layer - 1) % data.updates.length], found = new Set();
      for (const [told, tests] of part?.updates ?? [])
        if (told.line !== null && ids.some((_, place) => guardHolds(part, tests, steps[layer - 1], place))) found.add(told);
      return [...found];
    },
  };
}

/** Whether all tests of an update hold on what `step` saw at a place. A head that is not defined fails its tests. */
function guardHolds(part, tests, step, place) {
  const value = (name) => {
    if (name in step) return step[name][place];
    if (!(name in part.predicates)) { // a part of a word
      const [, word, start, stop] = name.match(/^(.+)\[(\d+)(?::(\d+))?\]$/), number = step[word][place];
      return number < 0 ? -1 : Math.floor(number / 2 ** Number(start)) % 2 ** (stop === undefined ? 1 : stop - start);
    }
    const [terms, relation, threshold] = part.predicates[name];
    const sum = terms.reduce((total, [word, factor]) => total + factor * value(word), 0);
    return Number(relation === "=" ? sum === threshold : sum >= threshold);
  };
  return tests.every(([form, allowed]) => {
    const [constant, terms] = part.forms[form];
    let sum = constant;
    for (const [name, table] of terms) {
      const index = value(name);
      if (!(index >= 0)) return false;
      sum += table[index];
    }
    return allowed.includes(sum);
  });
}

/** What differs between two runs of one input: null, or the first difference in words. */
function firstDifference(data, one, other) {
  if (one.changes.length !== other.changes.length) return `one takes ${counted(one.changes.length, "layer")}, the other ${other.changes.length}`;
  const size = one.tokens.length, a = Int32Array.from(one.initial), b = Int32Array.from(other.initial);
  for (let layer = 0; layer <= one.changes.length; layer++) {
    if (layer) {
      one.changes[layer - 1].cells.forEach((cell, i) => { a[cell] = one.changes[layer - 1].values[i]; });
      other.changes[layer - 1].cells.forEach((cell, i) => { b[cell] = other.changes[layer - 1].values[i]; });
    }
    for (let cell = 0; cell < a.length; cell++) {
      if (one.values[a[cell]] !== other.values[b[cell]]) return `layer ${layer}, ${data.variables[Math.floor(cell / size)].name} at position ${cell % size}: ${one.values[a[cell]]} and ${other.values[b[cell]]}`;
    }
    if (!layer) continue;
    for (const [name, [, picks]] of Object.entries(one.looks[layer - 1])) {
      const mine = one.rows[picks], theirs = other.rows[other.looks[layer - 1][name]?.[1]] ?? [];
      const place = mine.findIndex((runs, p) => String(runs) !== String(theirs[p]));
      if (place >= 0) return `layer ${layer}, the head ${name} at position ${place} selects ${mine[place] || "nothing"} and ${theirs[place] || "nothing"}`;
    }
  }
  return null;
}
