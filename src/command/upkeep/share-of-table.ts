/**
 * How much of Redis's table of keys an iteration has passed that stands at `cursor`, from 0 to 1. SCAN goes through the
 * table by counting from the highest bit of the cursor, so its bits, read from the lowest, are those of this share,
 * whatever the size of the table is or becomes. https://github.com/redis/redis/blob/7.0/src/dict.c (dictScan)
 */
export function shareOfTable(cursor: string): number {
  let bits = BigInt(cursor)
  let share = 0
  for (let weight = 0.5; bits > 0n; bits >>= 1n, weight /= 2) if (bits & 1n) share += weight
  return share
}
