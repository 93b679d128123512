/* Plain interpreters to compare speeds with: RV32I on bytes from 0x80000000, and SUBLEQ on 16-bit words. */
#include <stdint.h>
#include <string.h>

#define BASE 0x80000000u

static uint32_t sign(uint32_t value, int bits) { return (uint32_t)((int32_t)(value << (32 - bits)) >> (32 - bits)); }

static uint32_t load(const uint8_t *memory, uint32_t at, uint32_t kind) {
  uint32_t word; memcpy(&word, memory + at, 4);
  switch (kind) {
    case 0: return sign(word & 0xff, 8);
    case 1: return sign(word & 0xffff, 16);
    case 4: return word & 0xff;
    case 5: return word & 0xffff;
  }
  return word;
}

static uint32_t compute(uint32_t kind, int other, uint32_t a, uint32_t b) {
  switch (kind) {
    case 0: return other ? a - b : a + b;
    case 1: return a << (b & 31);
    case 2: return (int32_t)a < (int32_t)b;
    case 3: return a < b;
    case 4: return a ^ b;
    case 5: return other ? (uint32_t)((int32_t)a >> (b & 31)) : a >> (b & 31);
    case 6: return a | b;
  }
  return a & b;
}

/* Runs up to `most` instructions; stops at ecall and at addresses outside memory (`size` bytes, a power of two). */
int64_t riscv(uint8_t *memory, uint32_t *x, int64_t size, int64_t most) {
  uint32_t pc = x[32];
  int64_t done = 0;
  for (; done < most; done++) {
    if (pc - BASE > (uint32_t)size - 4) break;
    uint32_t i; memcpy(&i, memory + (pc - BASE), 4);
    uint32_t rd = i >> 7 & 31, f3 = i >> 12 & 7, a = x[i >> 15 & 31], b = x[i >> 20 & 31], next = pc + 4, result = 0;
    int writes = 1;
    switch (i & 127) {
      case 0x37: result = i & 0xfffff000u; break;
      case 0x17: result = pc + (i & 0xfffff000u); break;
      case 0x6f: result = next;
        next = pc + sign((i >> 31) << 20 | (i >> 12 & 255) << 12 | (i >> 20 & 1) << 11 | (i >> 21 & 1023) << 1, 21); break;
      case 0x67: result = next; next = (a + sign(i >> 20, 12)) & ~1u; break;
      case 0x63: {
        uint32_t kind = f3 >> 1, taken = kind == 0 ? a == b : kind == 2 ? (int32_t)a < (int32_t)b : a < b;
        writes = 0;
        if (taken != (f3 & 1))
          next = pc + sign((i >> 31) << 12 | (i >> 7 & 1) << 11 | (i >> 25 & 63) << 5 | (i >> 8 & 15) << 1, 13);
        break; }
      case 0x03: { uint32_t at = a + sign(i >> 20, 12) - BASE; if (at > (uint32_t)size - 4) goto end;
        result = load(memory, at, f3); break; }
      case 0x23: { uint32_t at = a + sign(i >> 25 << 5 | rd, 12) - BASE; if (at > (uint32_t)size - 4) goto end;
        memcpy(memory + at, &b, 1u << f3); writes = 0; break; }
      case 0x13: result = compute(f3, f3 == 5 && (i >> 30 & 1), a, sign(i >> 20, 12)); break;
      case 0x33: result = compute(f3, i >> 30 & 1, a, b); break;
      case 0x0f: writes = 0; break;
      default: goto end;
    }
    if (writes && rd) x[rd] = result;
    pc = next;
  }
end:
  x[32] = pc;
  return done;
}

/* Runs up to `most` instructions of SUBLEQ without input and output. */
int64_t subleq(uint16_t *memory, int64_t most) {
  uint16_t pc = 0;
  int64_t done = 0;
  for (; done < most && !(pc & 0x8000); done++) {
    uint16_t a = memory[pc], b = memory[(uint16_t)(pc + 1)], c = memory[(uint16_t)(pc + 2)];
    if (a == 0xffff || b == 0xffff) { pc += 3; continue; }
    memory[b] -= memory[a];
    pc = (int16_t)memory[b] <= 0 ? c : (uint16_t)(pc + 3);
  }
  return done;
}
