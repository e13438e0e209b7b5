import fc from 'fast-check'

/** Text of any kind: plain, with any Unicode, and with lone surrogates, NUL and line breaks. */
export const anyText: fc.Arbitrary<string> = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)) }),
)

/** A text made of pieces that mean something to what reads it, and of some that do not. */
export function readText(...pieces: readonly string[]): fc.Arbitrary<string> {
  const piece = fc.oneof({ arbitrary: fc.constantFrom(...pieces), weight: 4 }, { arbitrary: anyText, weight: 1 })
  return fc.array(piece, { maxLength: 12 }).map((parts) => parts.join(''))
}

/** A field value as HTTP lets it through: bytes, but no NUL and no line break. */
export const fieldValue: fc.Arbitrary<string> = fc.string({
  unit: fc
    .oneof(
      { arbitrary: fc.integer({ min: 0x20, max: 0x7e }), weight: 6 },
      { arbitrary: fc.constantFrom(0x09, 0x20, 0x2c, 0x22), weight: 3 },
      { arbitrary: fc.integer({ min: 1, max: 0xff }).filter((code) => code !== 10 && code !== 13), weight: 1 },
    )
    .map((code) => String.fromCharCode(code)),
})

/** A field value made of such pieces. */
export function readFieldValue(...pieces: readonly string[]): fc.Arbitrary<string> {
  const piece = fc.oneof({ arbitrary: fc.constantFrom(...pieces), weight: 4 }, { arbitrary: fieldValue, weight: 1 })
  return fc.array(piece, { maxLength: 10 }).map((parts) => parts.join(''))
}
