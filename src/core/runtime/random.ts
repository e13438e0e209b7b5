/** Draws 53 random bits: an integer that JavaScript and Lua both hold exactly. */
export function drawNumber(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return (high & 0x1f_ffff) * 2 ** 32 + low
}
