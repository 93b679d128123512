// Fractions of whole numbers, and a recurrent network that computes with them, exactly.
// Every number comes from the weights in the page; nothing here knows the machine.

/** A fraction is [numerator, denominator], both BigInt; `lowest` brings it into lowest terms. */
function fraction(text) {
  const [above, below = "1"] = String(text).split("/");
  return [BigInt(above), BigInt(below)];
}

function plus([a, b], [c, d]) {
  if (b === d) return [a + c, b];
  if (b % d === 0n) return [a + c * (b / d), b];
  if (d % b === 0n) return [a * (d / b) + c, d];
  return [a * d + c * b, b * d];
}

function times([a, b], [c, d]) { return [a * c, b * d]; }

function lowest([a, b]) {
  if (b === 1n) return [a, b];
  let [x, y] = [a < 0n ? -a : a, b];
  while (y) [x, y] = [y, x % y];
  return [a / x, b / x];
}

function asText([a, b]) { return b === 1n ? String(a) : `${a}/${b}`; }

/** The digits of a fraction in [0, base), the one before the point first; null where they do not end. */
function digitsOf([a, b], base) {
  const step = BigInt(base);
  if (a < 0n || a >= step * b) return null;
  let depth = 0, power = 1n;
  for (const most = b.toString(2).length; power % b; power *= step) if (++depth > most) return null;
  let rest = a * (power / b);
  const digits = [];
  for (let k = 0; k < depth; k++, rest /= step) digits.push(Number(rest % step));
  return [Number(rest), ...digits.reverse()];
}

/** g ← σ(V·g + W·x + b); where the network has named values h = R·g + c, V is A·R. Vectors are Maps: place → fraction. */
class ExactNetwork {
  constructor(net) {
    this.net = net;
    this.codes = new Map(net.alphabet.map((symbol, code) => [symbol, code]));
    this.into = ExactNetwork.columns(net.into);
    this.readout = net.readout ? ExactNetwork.columns(net.readout) : null;
    this.out = ExactNetwork.columns(net.out);
    const bias = ExactNetwork.vector(net.bias), reads = ExactNetwork.columns(net.reads);
    this.base = net.alphabet.map((_, code) => {
      const sums = new Map(bias);
      for (const [row, weight] of reads.get(code) ?? []) sums.set(row, plus(sums.get(row) ?? [0n, 1n], weight));
      return { sums, above: [...sums].filter(([, [a]]) => a > 0n) };
    });
    this.start = ExactNetwork.vector(net.start);
    this.shift = ExactNetwork.vector(net.shift);
    this.outBias = ExactNetwork.vector(net.out_bias);
  }

  /** Entries row, column, weight, … by column. */
  static columns(entries) {
    const found = new Map();
    for (let i = 0; i < entries.length; i += 3) {
      if (!found.has(entries[i + 1])) found.set(entries[i + 1], []);
      found.get(entries[i + 1]).push([entries[i], fraction(entries[i + 2])]);
    }
    return found;
  }

  static vector(entries) {
    const found = new Map();
    for (let i = 0; i < entries.length; i += 2) found.set(entries[i], fraction(entries[i + 1]));
    return found;
  }

  static sum(columns, g) {
    const found = new Map();
    for (const [place, value] of g) for (const [row, weight] of columns.get(place) ?? []) {
      const more = times(weight, value);
      found.set(row, found.has(row) ? plus(found.get(row), more) : more);
    }
    for (const [row, value] of found) if (value[0] === 0n) found.delete(row); else found.set(row, lowest(value));
    return found;
  }

  /** The next hidden vector; units in `off` stay at 0. */
  step(g, code, off) {
    const { sums: base, above } = this.base[code], sums = new Map(above);
    for (const [place, value] of this.readout ? ExactNetwork.sum(this.readout, g) : g)
      for (const [row, weight] of this.into.get(place) ?? []) sums.set(row, plus(sums.get(row) ?? base.get(row) ?? [0n, 1n], times(weight, value)));
    const next = new Map();
    for (const [unit, value] of sums) {
      if (value[0] <= 0n || off.has(unit)) continue;
      next.set(unit, this.net.activation === "slu" && value[0] > value[1] ? [1n, 1n] : lowest(value));
    }
    return next;
  }

  /** R·g: what the state and the tape are read from. */
  read(g) { return this.readout ? ExactNetwork.sum(this.readout, g) : new Map(); }

  /** The named values R·g + c. */
  named(g) {
    const found = this.read(g);
    for (const [row, value] of this.shift) {
      const sum = lowest(plus(found.get(row) ?? [0n, 1n], value));
      if (sum[0] === 0n) found.delete(row); else found.set(row, sum);
    }
    return this.readout ? found : new Map();
  }

  output(g) {
    const found = ExactNetwork.sum(this.out, g);
    return Array.from({ length: this.net.outputs }, (_, k) => lowest(plus(found.get(k) ?? [0n, 1n], this.outBias.get(k) ?? [0n, 1n])));
  }

  /** What an output says: "accept", "reject", null while a decider goes on, and "broken" where it says nothing. */
  answer(outputs) {
    const texts = outputs.map(asText);
    if (!this.net.decides) return (this.net.criterion === "one" ? texts[0] === "1" : outputs[0][0] > 0n) ? "accept" : "reject";
    if ([...texts].sort().join() !== "0,0,1") return "broken";
    return [null, "accept", "reject"][texts.indexOf("1")];
  }
}
