// The network itself: embeddings, attention with a null key, two halves of clipped units, unembedding.
// Every number comes from the weights in the page; nothing here knows the program.

/** A linear map by its columns: `columns[c]` lists row, weight, row, weight, … Column 0 of a map with a bias is the bias. */
class LinearMap {
  constructor(rows, matrix, biased) {
    this.rows = rows;
    this.bias = new Float64Array(rows);
    this.columns = new Map();
    const entries = matrix?.entries ?? [];
    for (let i = 0; i < entries.length; i += 3) {
      const [row, column, weight] = [entries[i], entries[i + 1], entries[i + 2]];
      if (biased && column === 0) { this.bias[row] = weight; continue; }
      const at = biased ? column - 1 : column;
      if (!this.columns.has(at)) this.columns.set(at, []);
      this.columns.get(at).push(row, weight);
    }
  }

  /** W·x + b, where `places` are the dimensions of x that are not zero. */
  of(x, places) {
    const result = this.bias.slice();
    for (const place of places) {
      const column = this.columns.get(place);
      if (column) for (let i = 0; i < column.length; i += 2) result[column[i]] += column[i + 1] * x[place];
    }
    return result;
  }
}

function transposed(matrix) {
  if (!matrix) return null;
  const entries = [];
  for (let i = 0; i < matrix.entries.length; i += 3) entries.push(matrix.entries[i + 1], matrix.entries[i], matrix.entries[i + 2]);
  return { entries };
}

function nonzero(x) {
  const places = [];
  for (let d = 0; d < x.length; d++) if (x[d] !== 0) places.push(d);
  return places;
}

class Network {
  constructor(weights) {
    const { net, matrices } = weights, found = new Map(matrices.map((matrix) => [matrix.at.join(" "), matrix]));
    const matrix = (...at) => found.get(at.join(" "));
    Object.assign(this, { net, dim: net.dim });
    this.tokens = new LinearMap(net.dim, transposed(matrix("token")), false);
    this.positions = net.positions === null ? null : new LinearMap(net.dim, transposed(matrix("position")), false);
    this.unembedding = new LinearMap(net.classes, matrix("unembedding"), false);
    this.halt = new LinearMap(1, matrix("halt"), true);
    this.blocks = net.blocks.map((block, b) => this.block(block, b, matrix));
  }

  block(block, b, matrix) {
    const heads = block.heads.map((name, h) => {
      const relative = new Float64Array(2 * block.window + 3), bias = matrix(b, "head", h, "relative")?.entries ?? [];
      for (let i = 0; i < bias.length; i += 3) relative[bias[i + 1]] = bias[i + 2];
      const null_ = new Float64Array(block.values + 1), nulls = matrix(b, "head", h, "null")?.entries ?? [];
      for (let i = 0; i < nulls.length; i += 3) null_[nulls[i + 1]] = nulls[i + 2];
      return {
        name, relative, nullScore: null_[0], nullValue: null_.slice(1), reach: block.window + 1,
        query: new LinearMap(block.keys, matrix(b, "head", h, "query"), true),
        key: new LinearMap(block.keys, matrix(b, "head", h, "key"), true),
        value: new LinearMap(block.values, matrix(b, "head", h, "value"), false),
        out: new LinearMap(this.dim, matrix(b, "head", h, "writes"), false),
      };
    });
    const halves = [0, 1].map((half) => ({
      reads: new LinearMap(block.hidden[half], matrix(b, "units", half, "reads"), true),
      writes: new LinearMap(this.dim, transposed(matrix(b, "units", half, "writes")), false),
    }));
    return { heads, halves };
  }

  /** The residual stream of tokens: one array for each position. */
  embed(tokens) {
    return tokens.map((token, place) => {
      const x = new Float64Array(this.dim);
      for (const [map, at] of [[this.tokens, token], [this.positions, place]]) {
        const row = map?.columns.get(at) ?? [];
        for (let i = 0; i < row.length; i += 2) x[row[i]] += row[i + 1];
      }
      for (const [first, bits, offset] of this.net.counted) // positions counted in binary: no table holds them
        for (let bit = 0; bit < bits; bit++) x[first + bit] += Number(BigInt.asUintN(bits, BigInt(place) + BigInt(offset)) >> BigInt(bit) & 1n);
      return x;
    });
  }

  /** One layer on `x`, in place. `off` has the parts that are switched off. Says what heads selected, what the stream was
   * after attention, and which units fired: unit numbers of the two halves, position by position. */
  layer(x, number, off) {
    const b = number % this.blocks.length, { heads, halves } = this.blocks[b];
    const places = x.map(nonzero), added = x.map(() => new Float64Array(this.dim));
    const selected = heads.map((head, h) => this.attend(head, x, places, added, off.has(`head ${b} ${h}`)));
    x.forEach((row, p) => { for (let d = 0; d < this.dim; d++) row[d] += added[p][d]; });
    const attended = x.map((row) => row.slice());
    const fired = halves.map((half, k) => x.map((row) => this.clipped(half, row, (unit) => off.has(`unit ${b} ${k} ${unit}`))));
    return { selected, attended, fired };
  }

  attend(head, x, places, added, off) {
    const size = x.length, keys = x.map((row, p) => head.key.of(row, places[p]));
    const values = x.map((row, p) => head.value.of(row, places[p])), chosen = [];
    const scores = new Float64Array(size);
    for (let p = 0; p < size; p++) {
      const query = head.query.of(x[p], places[p]), asked = nonzero(query), last = this.net.causal ? p : size - 1;
      let best = -Infinity;
      for (let j = 0; j <= last; j++) {
        let score = head.relative[Math.max(-head.reach, Math.min(head.reach, j - p)) + head.reach];
        for (const k of asked) score += query[k] * keys[j][k];
        scores[j] = score;
        if (score > best) best = score;
      }
      const found = [], most = Math.max(best, head.nullScore);
      let total = Math.exp(head.nullScore - most);
      const mixed = head.nullValue.map((value) => value * total);
      for (let j = 0; j <= last; j++) {
        if (scores[j] === best && best > head.nullScore) found.push(j);
        const weight = Math.exp(scores[j] - most);
        if (weight === 0) continue;
        total += weight;
        for (let v = 0; v < mixed.length; v++) mixed[v] += weight * values[j][v];
      }
      chosen.push(found);
      if (off) continue;
      const written = head.out.of(mixed.map((value) => value / total), nonzero(mixed));
      for (let d = 0; d < this.dim; d++) added[p][d] += written[d];
    }
    return chosen;
  }

  /** x + B·clip(A·x + b) in place, and the units that fired. */
  clipped(half, row, off) {
    if (!half.reads.rows) return [];
    const sums = half.reads.of(row, nonzero(row)), active = [];
    for (let unit = 0; unit < sums.length; unit++) {
      sums[unit] = Math.min(1, Math.max(0, sums[unit]));
      if (sums[unit] !== 0 && off(unit)) sums[unit] = 0;
      if (sums[unit] !== 0) active.push(unit);
    }
    const written = half.writes.of(sums, active);
    for (let d = 0; d < row.length; d++) row[d] += written[d];
    return active;
  }

  halted(x) {
    return x.every((row) => this.halt.of(row, nonzero(row))[0] > 0);
  }

  /** The output of every position as a whole number. */
  read(x) {
    return x.map((row) => {
      const logits = this.unembedding.of(row, nonzero(row));
      if (this.net.bits) return logits.reduce((sum, logit, bit) => sum + (logit > 0.5 ? 2 ** bit : 0), 0);
      return logits.indexOf(Math.max(...logits));
    });
  }

  /** Run tokens until the network halts, or as many layers as it has; `each(layer)` hears of every layer.
   * Lets the browser breathe now and then. Says whether the network came to its end. */
  async run(tokens, { off = new Set(), most = 10_000, each = () => {} } = {}) {
    const x = this.embed(tokens), fixed = this.net.halts ? null : this.net.layers;
    each({ number: 0, before: null, after: x });
    let number = 0, since = performance.now(), halted = fixed !== null;
    while (number !== fixed) {
      if (number >= most) { halted = false; break; }
      const made = this.layer(x, number, off);
      number += 1;
      each({ number, after: x, ...made });
      if (fixed === null && this.halted(x)) { halted = true; break; }
      if (performance.now() - since > 40) {
        await new Promise((go) => setTimeout(go));
        since = performance.now();
      }
    }
    return { layers: number, halted, outputs: this.read(x) };
  }
}
